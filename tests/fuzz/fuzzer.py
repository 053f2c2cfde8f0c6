"""Call public functions with wrong types, shapes and numbers, and judge what comes back.

A call may return, warn, or raise an error that the library itself raises. What must not
happen: an error from the depths of numpy, scipy or Python, or a call that does not end.

    python tests/fuzz/fuzzer.py --calls 20000 --seed 0
    python tests/fuzz/fuzzer.py --calls 500 --area designs
"""

import argparse
import contextlib
import dis
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import control as ct
import numpy as np
import scipy.sparse

import privcontrol as pc

sys.path.insert(0, str(Path(__file__).parents[1]))
from fuzz.doors import AREAS, Door
from fuzz.inspected import inspected_doors

EVERY = AREAS | {"inspected": inspected_doors}

PACKAGE = str(Path(pc.__file__).parent)
LIBRARY_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    OSError,
    NotImplementedError,
    ct.ControlArgument,
    ct.ControlDimension,
    pc.PrivacyError,
)
SECONDS = 20  # that one call may take
SECRET = "771.23"  # a private value, which no message may show
PRIVATE = {
    "initial_state",
    "disturbance",
    "measurement_noise",
    "initial_values",
    "y",
    "value",
}
PRIVATE_FIRST = ("release", "__call__", "residual", "contains", "project", "publish")


class Spiteful:
    """An object whose conversion to an array fails with a private value in its text."""

    def __array__(self, *args, **kwargs):
        raise RuntimeError(f"the position is {SECRET}")


class TooLong(BaseException):
    """A call that did not end in time."""


@dataclass(frozen=True)
class Finding:
    """A call that broke the rules."""

    door: str
    where: str
    value: str
    what: str
    at: str

    def __str__(self):
        return f"{self.door}({self.where}={self.value}): {self.what}  [{self.at}]"


def wrong_values(rng: np.random.Generator) -> list:
    """Values that somebody might pass by mistake."""
    system = ct.ss([[0.5]], [[1.0]], [[1.0]], 0, True)
    return [
        None, True, False, -1, 0, 1, 2, 7, 10**400, 10**5000, -(10**5000), 0.5, -0.5, 1.5, 1e308, 5e-324,
        float("nan"), float("inf"), -float("inf"), 1j, "", "abc", SECRET, b"x", (), [],
        [[]], [1], [1.0, 2.0], [1, 2, 3], [[1, 2], [3, 4]], [[1, 2], [3]], [[1.0, [2.0]]], ["a", "b"], {"A": 1.0}, {"A": (0, 1, 2)}, "9" * 5000,
        {}, {"a": 1.0}, {"nobody": 1.0}, {0: 1.0}, {"a": SECRET}, {"a": -1}, set(),
        object(), Spiteful(), Decimal("0.5"), Fraction(1, 3), lambda *a, **k: None,
        np.array(1.0), np.ones(0), np.ones(1), np.ones(3), np.ones(5), -np.ones(3),
        np.zeros((0, 3)), np.ones((2, 3)), np.ones((3, 2)), np.eye(2), np.eye(3),
        -np.eye(3), np.ones((2, 2, 2)), np.full(3, np.nan), np.full((3, 3), np.inf),
        np.array(["a", "b"]), np.array([None, 1.0]), np.array([1j, 2.0]),
        np.ones(3, int), np.array([True, False, True]), np.int64(3), np.float32(0.5),
        1e300 * np.eye(3), 1e-300 * np.eye(3), scipy.sparse.eye_array(3).tocsr(),
        range(3), iter([1, 2]), slice(1), system, ct.tf([1], [1, 2]), type, int,
        ct.tf([1], [1, 0.5], 0.5), pc.PrivacyBudget(epsilon=1.0, delta=1e-3),
        pc.PrivacyBudget(epsilon=1.0), pc.StateAdjacency(1.0), pc.BallAdjacency(1.0),
        pc.GaussianNoise(np.eye(2)), pc.LinearQuery(np.eye(3)), np.random.default_rng(0),
        np.random.RandomState(0), rng.normal(size=rng.integers(0, 4, size=2)),
        float(rng.normal() * 10.0 ** rng.integers(-12, 12)), int(rng.integers(-9, 9)),
        rng.normal(size=int(rng.integers(0, 7))),
    ]  # fmt: skip


def mutated(door: Door, rng: np.random.Generator) -> tuple[Door, str, str]:
    """A door with one argument or two replaced, an entry of one, or one added."""
    changed, where, value = _mutated_once(door, rng)
    if rng.random() < 0.1:
        changed, other, second = _mutated_once(changed, rng)
        return changed, f"{where} and {other}", f"{value} and {second}"
    return changed, where, value


def _mutated_once(door: Door, rng: np.random.Generator) -> tuple[Door, str, str]:
    values = wrong_values(rng)
    value = values[rng.integers(len(values))]
    args, keywords = list(door.args), dict(door.keywords)
    places = [*range(len(args)), *keywords]
    kind = rng.random()
    if not places or kind < 0.03:
        keywords["no_such_keyword"] = value
        return (
            Door(door.name, door.call, tuple(args), keywords),
            "added",
            describe(value),
        )
    place = places[rng.integers(len(places))]
    where = str(place)
    given = args if isinstance(place, int) else keywords
    if isinstance(place, int) and kind > 0.97:
        swap = rng.integers(len(args))
        args[place], args[swap] = args[swap], args[place]
        where = f"swapped {place}, {swap}"
    elif 0.8 < kind <= 0.97:
        given[place], value = inside(given[place], value, rng)
    else:
        given[place] = value
    return Door(door.name, door.call, tuple(args), keywords), where, describe(value)


def inside(held, value, rng: np.random.Generator) -> tuple:
    """What an argument holds with one entry replaced, or the value if it has none."""
    if isinstance(held, dict) and held:
        key = list(held)[rng.integers(len(held))]
        return {**held, key: value}, {key: value}
    if isinstance(held, list | tuple) and held and type(held) in (list, tuple):
        place = rng.integers(len(held))
        entries = [*held[:place], value, *held[place + 1 :]]
        return type(held)(entries), [value]
    return value, value


def describe(value) -> str:
    """A value in a few characters, for the list of findings."""
    if isinstance(value, np.ndarray):
        return f"array{value.shape} {value.dtype}"
    try:
        text = "Spiteful" if isinstance(value, Spiteful) else repr(value)
    except Exception as error:  # an integer of too many digits
        text = f"{type(value).__name__} whose text is refused ({type(error).__name__})"
    return text[:40].replace("\n", " ")


def raised_by_library(error: BaseException) -> bool:
    """Whether the package's own `raise` made this error, or Python's call of the door."""
    frames = list(traceback.walk_tb(error.__traceback__))
    inner, _ = frames[-1]
    file = inner.f_code.co_filename
    if file == __file__ or Path(file).name == "doors.py":
        return isinstance(error, TypeError)  # a missing or an unknown argument
    if isinstance(error, OSError) and error.errno is not None:
        return True  # of the system, such as a name that is too long
    return raised_here(error)


def raised_here(error: BaseException) -> bool:
    """Whether a `raise` of the package made this error, and not one of another library."""
    inner, _ = list(traceback.walk_tb(error.__traceback__))[-1]
    if not inner.f_code.co_filename.startswith(PACKAGE):
        return False
    instruction = inner.f_code.co_code[error_offset(error)]
    return dis.opname[instruction] in ("RAISE_VARARGS", "RERAISE")


def error_offset(error: BaseException) -> int:
    """Place in the innermost frame's code at which the error left it."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_lasti


def place_of(error: BaseException) -> str:
    """File and line of the innermost frame inside the package."""
    inside = [
        f"{Path(frame.f_code.co_filename).relative_to(PACKAGE)}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename.startswith(PACKAGE)
    ]
    return inside[-1] if inside else "outside the package"


def is_private(door: Door, where: str, value: str) -> bool:
    """Whether a mutated argument is private data, rather than a public option."""
    if value == "Spiteful" or where in PRIVATE:
        return True
    return where == "0" and door.name.endswith(PRIVATE_FIRST)


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TooLong after so many seconds, where the system has an alarm clock."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(number, frame):
        raise TooLong

    previous = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def judged(door: Door, where: str, value: str) -> Finding | None:
    """Make the call; None if it keeps the rules."""
    try:
        with time_limit(SECONDS):
            door()
    except TooLong as error:
        return Finding(
            door.name, where, value, f"no end in {SECONDS} s", place_of(error)
        )
    except SystemExit:  # of the command, which says its usage
        return None
    except Exception as error:
        what = f"{type(error).__name__}: {str(error)[:120]}".replace("\n", " ")
        at = place_of(error)
        if SECRET in str(error) and is_private(door, where, value):
            return Finding(door.name, where, value, f"shows the value: {what}", at)
        if not isinstance(error, LIBRARY_ERRORS) or not raised_by_library(error):
            return Finding(door.name, where, value, what, at)
    return None


def fuzz(calls: int, *, seed: int = 0, areas: tuple = tuple(EVERY)) -> list[Finding]:
    """Findings of so many calls, spread evenly over all doors of some areas."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    rng = np.random.default_rng(seed)
    findings = []
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),  # where files with strange names may go
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        doors = [door for area in areas for door in EVERY[area]()]
        for k in range(calls):
            door, where, value = mutated(doors[k % len(doors)], rng)
            with np.errstate(all="ignore"):
                finding = judged(door, where, value)
            if finding is not None:
                findings.append(finding)
    return findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--area", action="append", choices=EVERY)
    given = parser.parse_args()
    start = time.perf_counter()
    areas = tuple(given.area or EVERY)
    findings = fuzz(given.calls, seed=given.seed, areas=areas)
    groups = Counter((f.door, f.at, f.what.split(":")[0]) for f in findings)
    examples = {(f.door, f.at, f.what.split(":")[0]): f for f in findings}
    for key, count in groups.most_common():
        print(f"{count:4d} x {examples[key]}")
    hangs = sum(f.what.startswith("no end") for f in findings)
    seconds = time.perf_counter() - start
    print(
        f"{given.calls} calls in {seconds:.0f} s: {len(findings) - hangs} raw errors, "
        f"{hangs} calls without an end"
    )
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
