"""Does `privcontrol.verify` notice claims that a wrong certifier makes?

An operator of `run.py` changes one place of a function that certifies noise. A copy of this
process with that mutant designs noise of some kinds and saves it. Of files whose claim is
less than what the package as it is certifies, `verify` must accept none.

    python tests/mutants/certifiers.py             # 60 mutants
    python tests/mutants/certifiers.py 15 --seed 1
    python tests/mutants/certifiers.py 20 --only transitions
"""

import argparse
import ast
import inspect
import itertools
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
    "core.manifold:EllipsoidMoves.largest",
    "core.manifold:EllipsoidMoves.sizes",
    "noise._apart:LagBounds.all_at",
    "noise._apart:LagBounds.at",
    "noise._apart:_Answers.after",
    "noise._apart:_Answers.during",
    "noise._apart:_Answers.going_on",
    "noise._apart:_changes",
    "noise._apart:_lag_bounds",
    "noise._apart:products_by_lag",
    "noise._apart:several_together",
    "noise._apart:largest_apart",
    "noise._apart:largest_along_run",
    "noise._apart:square_of_several",
    "noise._autoregression:_correlations",
    "noise._autoregression:_largest_square",
    "noise._autoregression:_of_plant",
    "noise._autoregression:_of_pulses",
    "noise._whitened_response:WhitenedResponse.ball_square",
    "noise._whitened_response:WhitenedResponse._shape_energies",
    "noise._whitened_response:WhitenedResponse.largest_square",
    "noise._endless:joint_shift",
    "noise._endless:shift_behind",
    "noise._endless:shift_of_system",
    "noise._laplace:_of_every_sample",
    "noise._laplace:laplace_loss",
    "noise._patterns:PatternSearch.add",
    "noise._patterns:_by_halves",
    "noise._patterns:bound_of",
    "noise._patterns:largest_pattern",
    "noise._varying:_inverted",
    "noise._varying:inverted_at_entry",
    "noise._windows:WindowBounds.at",
    "noise._windows:_products",
    "noise._windows:_largest_of_several",
    "noise._windows:_products_of_windows",
    "noise._windows:largest_of_windows",
    "noise._windows:square_of_window",
    "noise._windows:square_of_windows",
    "noise._windows:windows_by_lag",
    "noise.certify:_loss_of_blocks",
    "noise.shift:_of_run",
    "noise.certify:_radial_loss",
    "noise.shift:certified_shift",
    "noise.whitened:dense_root",
    "noise.whitened:floored_root",
    "noise.grid:grid_shift",
    "noise.whitened:output_sizes",
    "noise.grid:shift_of_resolution",
    "noise.whitened:shift_sizes",
    "noise.whitened:triangular_root",
    "privacy.law:BlockLaw.lengths",
    "privacy.loss:PrivacyLoss.blocks",
    "privacy.loss:_merged_moves",
    "privacy.radial:leak",
    "secrets.state_moves:StateMoves.output_sizes",
    "secrets.state_moves:StateMoves._windows",
    "secrets.disturbance:DisturbanceAdjacency._columns",
    "secrets.disturbed:forced_outputs",
    "secrets.hiding:NoiseForm._beside_scale",
    "secrets.hiding:NoiseForm._varying_map",
    "secrets.hiding:NoiseForm.gramians_beside",
    "secrets.hiding:NoiseForm.map_under",
    "systems.gramian:_gramian_of_rows",
    "systems.gramian:gramian",
    "secrets.squares:_below_largest",
    "secrets.squares:_maps_to_entries",
    "secrets.squares:_squares",
    "secrets.squares:laplace_size",
    "secrets.squares:laplace_shifts",
    "secrets.squares:squares_of",
    "secrets.moving:exact_difference",
    "secrets.moving:either_time",
    "secrets.moving:moved_columns",
    "secrets.moving:other_columns",
    "secrets.secret:SignalMoves.beginnings",
    "secrets.varying:VaryingMoves.of",
    "secrets.varying:VaryingMoves.responses",
    "systems.gain:_storage",
    "systems.gain:largest_gain",
    "systems.powers:backward",
    "systems.linear:LinearSystem.inverse",
    "systems.linear:LinearSystem.after",
    "systems.transitions:forced_responses",
    "systems.transitions:gramian_of_run",
    "systems.transitions:moved_back",
    "systems.transitions:run_responses",
    "systems.transitions:told_of_run",
    "numerics.ellipsoid:solution_error",
)
KINDS = (
    "states",
    "states long",
    "states growing",
    "floor",
    "ball floor",
    "grid",
    "independent",
    "laplace",
    "independent laplace",
    "ball laplace",
    "ball laplace own",
    "radial",
    "radial releases",
    "blocks plane",
    "blocks three",
    "truncated",
    "run",
    "run lasting floor",
    "run several",
    "run several lasting",
    "run long lasting",
    "run energy floor",
    "run any",
    "run any long",
    "run any several",
    "run moved",
    "run moved several",
    "run which",
    "run which level floor",
    "delayed outputs",
    "endless",
    "endless floor",
    "endless lasting",
    "endless several",
    "endless several apart",
    "endless several apart short",
    "endless energy floor",
    "endless ball",
    "endless plant",
    "endless plant floor",
    "endless actuators lasting",
    "endless any",
    "endless any long",
    "endless any several apart",
    "endless moved far",
    "endless which",
    "endless moved which",
    "endless lasting far",
    "varying",
    "varying ball",
    "varying floor",
    "varying models",
    "varying run",
    "varying run any",
    "varying run several",
    "varying run energy floor",
    "varying run independent",
    "varying run independent laplace",
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


def write_reached(file, kind):
    """Write which of the functions a design of a kind calls, and its saving."""
    sys.reached = set()
    for function in FUNCTIONS:
        tree = ast.parse(module_path(ROOT, function).read_text(encoding="utf8"))
        mark = ast.parse(f"import sys; sys.reached.add({function!r})").body
        found(tree, function.partition(":")[2]).body[:0] = mark
        swapped(function, ast.unparse(tree))
    write_designs(file.parent, [kind])
    file.write_text("\n".join(sorted(sys.reached)))


def write_designs(folder, kinds, function=None, text=""):
    """Save the designs of a seed, each under its kind, by a mutant if a function is given."""
    if function is not None:
        swapped(function, text)
    for kind in kinds:
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


def mutants(operators, part, seed):
    """Mutants of the functions that certify in random order, of each function in turn."""
    rng = random.Random(seed)
    each = []
    for function in FUNCTIONS:
        if part not in function:
            continue
        text = module_path(ROOT, function).read_text(encoding="utf8")
        tree = found(ast.parse(text), function.partition(":")[2])
        own = [
            Mutant(function, operator, place, ())
            for operator in operators
            for place in range(len(places(tree, operator)))
        ]
        each.append(rng.sample(own, len(own)))
    rng.shuffle(each)
    turns = itertools.zip_longest(*each)
    return [mutant for turn in turns for mutant in turn if mutant is not None]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="run from this one on")
    parser.add_argument("--operator", choices=OPERATORS, help="only this one")
    parser.add_argument("--only", default="", help="part of a function's name")
    parser.add_argument("--seconds", type=float, default=240, help="for each mutant")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    missed = false = files = wrong_mutants = 0
    operators = [given.operator] if given.operator else list(OPERATORS)
    chosen = mutants(operators, given.only, given.seed)[given.skip : given.count]
    with tempfile.TemporaryDirectory() as name:
        right, written = Path(name) / "right", Path(name) / "written"
        right.mkdir()
        reached = {}
        for kind in KINDS:
            file = right / f"{kind}.txt"
            run_for(given.seconds, write_reached, file, kind)
            reached[kind] = file.read_text().split("\n") if file.exists() else []
        for mutant in chosen:
            shutil.rmtree(written, ignore_errors=True)
            written.mkdir()
            original = module_path(ROOT, mutant.function).read_text(encoding="utf8")
            text, shown = mutant.written(original)
            kinds = [kind for kind in KINDS if mutant.function in reached[kind]]
            # what was written until the time is up counts
            run_for(given.seconds, write_designs, written, kinds, mutant.function, text)
            wrong = []
            for file in sorted(written.glob("*.json")):
                files += 1
                known = right / file.name
                if known.exists() and known.read_bytes() == file.read_bytes():
                    continue  # the claim is that of the package as it is
                verdict = run_for(given.seconds, judged, file)
                if verdict != 0:
                    false += 1
                    wrong.append(file.stem + " ACCEPTED" * (verdict != 1))
                    missed += verdict != 1
            wrong_mutants += bool(wrong)
            print(
                mutant,
                shown,
                ", ".join(wrong) or f"no false claim of {len(kinds)} kinds",
                sep="  ",
                flush=True,
            )
    unreached = set(FUNCTIONS).difference(*reached.values())
    print("of no kind:", ", ".join(sorted(unreached)) or "none")
    print(
        f"{len(chosen)} mutants, {files} files; {wrong_mutants} made {false} false claims, "
        f"of which {missed} were accepted"
    )
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
