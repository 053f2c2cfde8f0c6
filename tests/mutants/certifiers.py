"""Does `privcontrol.verify` notice claims that a wrong certifier makes?

An operator of `run.py` changes one place of a function that certifies noise. A copy of this
process with that mutant designs noise of some kinds and saves it. Of files whose claim is
less than what the package as it is certifies, `verify` must accept none.

    python tests/mutants/certifiers.py             # 60 mutants
    python tests/mutants/certifiers.py 15 --seed 1
"""

import argparse
import ast
import inspect
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "stress"))
sys.path.insert(0, str(Path(__file__).parent))

from alter_files import claims_too_little
from run import OPERATORS, Mutant, found, module_path, places
from verified_cases import design

from privcontrol import verify

ROOT = Path(__file__).parents[2]
#: How far the package's bounds are above what `verify` proves, relative to them: several
#: changes over a run take a margin for rounding. A claim in between is true.
_ROUNDING = 1e-6

FUNCTIONS = (
    "noise._apart:_lag_bounds",
    "noise._apart:products_by_lag",
    "noise._apart:several_together",
    "noise._apart:largest_apart",
    "noise._apart:square_of_several",
    "noise._endless:WhitenedResponse._ball_square",
    "noise._endless:WhitenedResponse._shape_energies",
    "noise._endless:WhitenedResponse.largest_square",
    "noise._endless:joint_shift",
    "noise._endless:shift_behind",
    "noise._endless:shift_of_system",
    "noise.whitened:floored_root",
    "noise.grid:grid_shift",
    "noise.whitened:output_sizes",
    "noise.grid:shift_of_resolution",
    "noise.whitened:shift_sizes",
    "noise.whitened:triangular_root",
    "secrets.states:StateMoves.output_sizes",
    "secrets.states:StateMoves._windows",
    "secrets.disturbance:DisturbanceAdjacency._columns",
    "secrets.disturbance:forced_outputs",
    "secrets.hiding:NoiseForm._beside_scale",
    "secrets.hiding:gramian",
    "secrets.hiding:window_squares",
    "secrets.secret:SignalMoves.beginnings",
    "systems.powers:backward",
    "systems.linear:LinearSystem.inverse",
    "systems.linear:LinearSystem.after",
    "numerics.ellipsoid:solution_error",
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
    "endless moved far",
    "run any",
    "run moved",
    "delayed outputs",
)


def swapped(function, text):
    """Give a function of this process the body that it has in a module's text."""
    module, _, name = function.partition(":")
    holder = import_module(f"privcontrol.{module}")
    code = compile(text, module, "exec")
    for part in name.split("."):
        holder = inspect.getattr_static(holder, part)
        inside = [one for one in code.co_consts if inspect.iscode(one)]
        code = next(one for one in inside if one.co_name == part)
    while not inspect.isfunction(holder):
        wrappers = ("__wrapped__", "__func__", "func", "fget")
        holder = next(getattr(holder, x) for x in wrappers if hasattr(holder, x))
    inspect.unwrap(holder).__code__ = code


def write_designs(folder, function=None, text=""):
    """Save the designs of a seed, each under its kind, by a mutant if a function is given."""
    if function is not None:
        swapped(function, text)
    for kind in KINDS:
        try:
            noise = design(kind, 0) or design(kind, 1)
            if noise is not None:
                noise.save(folder / f"{kind}.json")
        except Exception:
            pass  # a mutant may do anything


def judged(file):
    """Return 0 if the claim of a file is true, 1 if `verify` refuses it, 2 if it does not."""
    if not claims_too_little(file, _ROUNDING):
        return 0
    return 2 if verify.checked(file)["status"] == 0 else 1


def run_for(seconds, function, *arguments):
    """Return what a function returns in a copy of this process, None if it takes longer.

    This process keeps its caches free of what functions or their mutants found.
    """
    process = os.fork()
    if not process:
        os._exit(function(*arguments) or 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def mutants(folder):
    """Every mutant of the functions that certify."""
    for function in FUNCTIONS:
        text = module_path(folder, function).read_text(encoding="utf8")
        tree = found(ast.parse(text), function.partition(":")[2])
        for operator in OPERATORS:
            for place in range(len(places(tree, operator))):
                yield Mutant(function, operator, place, ())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="run from this one on")
    parser.add_argument("--operator", choices=OPERATORS, help="only this one")
    parser.add_argument("--seconds", type=float, default=240, help="for each mutant")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    missed = false = files = wrong_mutants = 0
    every = list(mutants(ROOT))
    if given.operator:
        every = [mutant for mutant in every if mutant.operator == given.operator]
    chosen = random.Random(given.seed).sample(every, min(given.count, len(every)))
    chosen = chosen[given.skip :]
    with tempfile.TemporaryDirectory() as name:
        right, written = Path(name) / "right", Path(name) / "written"
        right.mkdir()
        run_for(given.seconds, write_designs, right)
        for mutant in chosen:
            shutil.rmtree(written, ignore_errors=True)
            written.mkdir()
            original = module_path(ROOT, mutant.function).read_text(encoding="utf8")
            text, shown = mutant.written(original)
            # what was written until the time is up counts
            run_for(given.seconds, write_designs, written, mutant.function, text)
            kinds = []
            for file in sorted(written.glob("*.json")):
                files += 1
                known = right / file.name
                if known.exists() and known.read_bytes() == file.read_bytes():
                    continue  # the claim is that of the package as it is
                verdict = run_for(given.seconds, judged, file)
                if verdict != 0:
                    false += 1
                    kinds.append(file.stem + " ACCEPTED" * (verdict != 1))
                    missed += verdict != 1
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
