"""The examples on a machine as poor as a browser: no fork, no fcntl, no threads, no OSQP.

What is missing there is taken away here, before anything is imported.

    python tests/stress/poor_machine.py             README's example and a gateway
    python tests/stress/poor_machine.py --all       every example that needs no more
"""

import argparse
import os
import runpy
import sys
import tempfile
import threading
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[2]
ABSENT = ("fcntl", "osqp", "scs", "highspy", "multiprocessing.shared_memory")
EXAMPLES = (
    "first_private_loop",
    "structured_or_white",
    "cost_of_privacy",
    "how_long_a_horizon",
    "which_adjacency",
    "what_an_eavesdropper_learns",
)


def impoverish() -> None:
    """Take away what is missing; its use is an error afterwards."""
    for name in ABSENT:
        sys.modules[name] = None
    for name in ("fork", "register_at_fork", "forkpty"):
        if hasattr(os, name):
            delattr(os, name)

    def start(thread):
        raise RuntimeError("can't start new thread")

    threading.Thread.start = start


def publish(folder: Path) -> int:
    """Publish two hundred readings of README's loop, half of them after a restart."""
    import control as ct
    import numpy as np

    import privcontrol as pc

    plant = ct.ss(0.9, [[1, 0.1]], 1, 0, 300.0, inputs=["heat", "people"], outputs="T")
    noise = pc.design_output_noise(
        plant,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.DisturbanceAdjacency({"people": 1.0}),
        horizon=np.inf,
        models="exact",
    )
    path = folder / "gateway.state"
    said = []
    with pc.Gateway(noise, resolution=2.0**-10, path=path) as gateway:
        said += [gateway.publish([20.0]) for _ in range(100)]
    with pc.Gateway.resume(path) as gateway:
        said += [gateway.publish([20.0]) for _ in range(100)]
    spread = np.std(said)
    if not 0.5 * noise.std[0] < spread < 2 * noise.std[0]:
        raise SystemExit(f"expected noise of {noise.std[0]:.3g}, got {spread:.3g}")
    return len(said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    chosen = EXAMPLES if parser.parse_args().all else EXAMPLES[:1]
    impoverish()
    sys.path.insert(0, str(ROOT))
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in chosen:
            sys.argv = [name, folder]
            runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        print(f"{publish(Path(folder))} readings published")
    print(f"{len(chosen)} of {len(chosen)} examples ran")


if __name__ == "__main__":
    main()
