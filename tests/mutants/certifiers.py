"""Does `privcontrol.verify` notice claims that a wrong certifier makes?

An operator of `run.py` changes one place of a function that certifies noise. A package with
that mutant designs noise of some kinds and saves it. Of files that the package as it is does
not load, since the claim is false, `verify` must accept none.

    python tests/mutants/certifiers.py             # 60 mutants
    python tests/mutants/certifiers.py 15 --seed 1
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from run import OPERATORS, Mutant, found, module_path, places

import privcontrol as pc
from privcontrol import verify

ROOT = Path(__file__).parents[2]

FUNCTIONS = (
    "noise._apart:_together",
    "noise._apart:largest_apart",
    "noise._apart:square_of_several",
    "noise._endless:WhitenedResponse._ball_square",
    "noise._endless:WhitenedResponse._shape_energies",
    "noise._endless:WhitenedResponse.largest_square",
    "noise._endless:joint_shift",
    "noise._endless:shift_behind",
    "noise._endless:shift_of_system",
    "noise.shift:floored_root",
    "noise.shift:grid_shift",
    "noise.shift:output_sizes",
    "noise.shift:shift_of_resolution",
    "noise.shift:shift_sizes",
    "noise.shift:triangular_root",
    "secrets.adjacency:StateMoves.output_sizes",
    "secrets.adjacency:StateMoves._windows",
    "secrets.disturbance:DisturbanceAdjacency._columns",
    "secrets.disturbance:forced_outputs",
    "secrets.hiding:NoiseForm._beside_scale",
    "secrets.hiding:gramian",
    "secrets.hiding:window_squares",
    "secrets.secret:SignalMoves.beginnings",
    "systems.powers:backward",
    "systems.linear:LinearSystem.inverse",
    "systems.linear:LinearSystem.after",
    "core.ellipsoid:solution_error",
)
KINDS = (
    "states",
    "floor",
    "ball floor",
    "grid",
    "independent",
    "laplace",
    "run",
    "run lasting floor",
    "run several",
    "run energy floor",
    "endless",
    "endless floor",
    "endless lasting",
    "endless several apart",
    "endless energy floor",
    "endless ball",
    "endless plant",
    "delayed outputs",
)

#: What a mutated package runs: the designs of a seed, each saved under its kind.
WRITER = """
import sys
sys.path.insert(0, "tests")
from verified_cases import design
for kind in sys.argv[2].split(","):
    try:
        noise = design(kind, 0) or design(kind, 1)
        if noise is not None:
            noise.save(f"{sys.argv[1]}/{kind}.json")
    except Exception:
        pass
"""


def mutants(folder):
    """Every mutant of the functions that certify."""
    for function in FUNCTIONS:
        text = module_path(folder, function).read_text(encoding="utf8")
        tree = found(ast.parse(text), function.partition(":")[2])
        for operator in OPERATORS:
            for place in range(len(places(tree, operator))):
                yield Mutant(function, operator, place, ())


def judged(path):
    """Whether the claim of a file is false, and whether `verify` accepts it."""
    accepted = verify.checked(path)["status"] == 0
    try:
        pc.load(path)
    except (pc.PrivacyError, pc.UncertifiableError, ValueError):
        return True, accepted
    return False, accepted


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operator", choices=OPERATORS, help="only this one")
    parser.add_argument("--seconds", type=float, default=240, help="for each mutant")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    missed = false = files = wrong_mutants = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("privcontrol", "tests"):
            shutil.copytree(ROOT / part, folder / part)
        every = list(mutants(folder))
        if given.operator:
            every = [mutant for mutant in every if mutant.operator == given.operator]
        chosen = random.Random(given.seed).sample(every, min(given.count, len(every)))
        environment = os.environ | {
            "PYTHONPATH": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for mutant in chosen:
            written = folder / "files"
            shutil.rmtree(written, ignore_errors=True)
            written.mkdir()
            path = module_path(folder, mutant.function)
            original = path.read_text(encoding="utf8")
            text, shown = mutant.written(original)
            path.write_text(text, encoding="utf8")
            command = [sys.executable, "-c", WRITER, str(written), ",".join(KINDS)]
            try:
                subprocess.run(
                    command,
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    timeout=given.seconds,
                )
            except subprocess.TimeoutExpired:
                pass  # what was written until then counts
            finally:
                path.write_text(original, encoding="utf8")
            kinds = []
            for file in sorted(written.glob("*.json")):
                files += 1
                is_false, accepted = judged(file)
                if is_false:
                    false += 1
                    kinds.append(file.stem + " ACCEPTED" * accepted)
                    missed += accepted
            wrong_mutants += bool(kinds)
            print(
                mutant,
                shown,
                ", ".join(kinds) or "no false claim",
                sep="  ",
                flush=True,
            )
    print(
        f"{len(chosen)} mutants, {files} files; {wrong_mutants} made {false} false claims, "
        f"of which {missed} were accepted"
    )
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
