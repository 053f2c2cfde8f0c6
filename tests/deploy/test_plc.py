"""The C code of a design's filter, compiled, beside the same sums in Python."""

import ctypes
import re
import shutil
import subprocess

import control as ct
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.deploy import main
from privcontrol.deploy.plc import c_code

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
#: Each family of noise that has a filter, and one with several states and outputs.
KINDS = ("endless", "structured", "floored", "driven", "laplace", "wide")


def designed(kind):
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    states = pc.StateAdjacency({"position": 1.0})
    people = pc.DisturbanceAdjacency({"people": 1.0})
    names = {"inputs": ["heat", "people"], "outputs": "T"}
    room = ct.ss(0.9, [[1, 0.1]], 1, 0, 300.0, **names)
    exact = {"budget": budget, "models": "exact"}
    if kind == "endless":
        return pc.design_output_noise(room, adjacency=people, horizon=np.inf, **exact)
    if kind == "driven":
        return pc.design_output_noise(
            room, adjacency=pc.DisturbanceAdjacency({"people": 1.0}, norm="l2"),
            horizon=40, **exact,
        )  # fmt: skip
    if kind == "wide":
        A = [[0.9, 0.1, 0.0], [0.0, 0.8, 0.1], [0.05, 0.0, 0.7]]
        names = {"inputs": ["heat", "people"], "outputs": ["a", "b"]}
        plant = ct.ss(A, np.eye(3)[:, :2], np.eye(3)[1:], 0, 60.0, **names)
        return pc.design_output_noise(plant, adjacency=people, horizon=np.inf, **exact)
    if kind == "laplace":
        pure = pc.PrivacyBudget(epsilon=1.0)
        return pc.design_output_noise(
            pc.plants.vehicle(), adjacency=states, horizon=30, budget=pure,
            family="iid-laplace",
        )  # fmt: skip
    floor = {"floor": 0.1} if kind == "floored" else {}
    return pc.design_output_noise(
        pc.plants.vehicle(), adjacency=states, horizon=30, **floor, **exact
    )


class Filter:
    """The compiled code."""

    def __init__(self, code, folder):
        source, library = folder / "noise.c", folder / "noise.so"
        source.write_text(code)
        strict = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"]
        # GCC knows no pragma for contracted products, and says so
        strict += ["-ffp-contract=off", "-Wno-unknown-pragmas"]
        subprocess.run(
            [COMPILER, *strict, "-shared", "-fPIC", "-o", library, source], check=True
        )
        self._library = ctypes.CDLL(str(library))
        sizes = re.findall(r"#define PRIVCONTROL_(\w+) (\d+)", code)
        self.sizes = {name: int(size) for name, size in sizes}
        self._memory = (ctypes.c_double * (max(self.sizes["STATES"], 1) + 1))()

    def run(self, first, fresh):
        """Return the noise (T, p), and whether each sample was within the horizon."""
        self._library.privcontrol_begin(self._memory, _doubles(first))
        noise, ends = [], []
        for entries in fresh:
            sample = (ctypes.c_double * self.sizes["OUTPUTS"])()
            code = self._library.privcontrol_next(
                self._memory, _doubles(entries), sample
            )
            ends.append(code)
            noise.append(list(sample))
        return np.array(noise), ends


def _doubles(values):
    return (ctypes.c_double * max(len(values), 1))(*values)


def in_order(noise, first, fresh):
    """The same recursion in Python's doubles, each sum from the left to the right."""

    def summed(*terms):
        total = None
        for row, vector in terms:
            for factor, value in zip(row.tolist(), vector):
                if factor != 0:
                    product = factor * value
                    total = product if total is None else total + product
        return 0.0 if total is None else total

    A, B, C, D = noise.process.total.model.matrices
    state = [summed((row, first)) for row in noise.process.total.state_root]
    gamma = []
    for entries in fresh.tolist():
        gamma.append([summed((c, state), (d, entries)) for c, d in zip(C, D)])
        state = [summed((a, state), (b, entries)) for a, b in zip(A, B)]
    return np.array(gamma)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
@pytest.mark.parametrize("kind", KINDS)
def test_the_filter_in_c_makes_the_noise_of_the_stream(kind, tmp_path):
    """To the last bit in the order that is written; BLAS sums in another one."""
    noise = designed(kind)
    compiled = Filter(c_code(noise), tmp_path)
    horizon = int(min(noise.horizon, 200))
    rng = np.random.default_rng(5)
    drawn = noise.process.law.standard(rng, (noise.process.total.once,))
    fresh = noise.process.law.standard(rng, (horizon, noise.process.total.width))
    gamma, ends = compiled.run(drawn, fresh)
    assert not any(ends)
    assert gamma.tolist() == in_order(noise, drawn.tolist(), fresh).tolist()
    streamed = [sample for _, sample in zip(range(horizon), noise.stream(rng=5))]
    np.testing.assert_allclose(
        gamma, streamed, rtol=1e-12, atol=1e-13 * noise.std.max()
    )


@pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
def test_the_filter_in_c_ends_with_its_horizon(tmp_path):
    noise = designed("floored")
    compiled = Filter(c_code(noise), tmp_path)
    assert compiled.sizes["HORIZON"] == 30
    _, ends = compiled.run([0.0], np.zeros((32, 1)))
    assert ends == [0] * 30 + [1] * 2


def test_export_prints_the_code_and_what_doubles_cost(tmp_path, capsys):
    path = tmp_path / "noise.json"
    noise = designed("endless")
    noise.save(path)
    assert main(["export", str(path), "--c"]) == 0
    said = capsys.readouterr().out
    assert said.rstrip() == c_code(noise).rstrip()
    assert "WHAT FLOATING POINT COSTS" in said
    assert "epsilon = 1" in said


def test_names_do_not_end_the_comment():
    """A state's name is a text, and could hold code."""
    name = "x */ int evil; /*"
    names = {"inputs": ["heat", name], "outputs": "T"}
    room = ct.ss(0.9, [[1, 0.1]], 1, 0, 300.0, **names)
    noise = pc.design_output_noise(
        room,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.DisturbanceAdjacency({name: 1.0}),
        horizon=np.inf,
        models="exact",
    )
    code = c_code(noise)
    assert "evil" not in code.partition("*/")[2]


def test_dense_noise_has_no_filter():
    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        horizon=6,
        factor=np.tril(np.ones((6, 6))),
    )
    with pytest.raises(pc.PrivacyError, match="filter of finite order"):
        c_code(noise)


@pytest.mark.parametrize(
    "options, why",
    [
        ({"bound": 20.0}, "drawn again until it is within one"),
        ({"family": "ball"}, "'ball', whose entries depend on each other"),
        (
            {"family": "ball", "floor": 0.1},
            "'ball', whose entries depend on each other",
        ),
    ],
)
def test_code_that_adds_entries_is_refused_for_other_laws(options, why):
    """The filter would go past the bound that the promise at its head has in view."""
    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        horizon=6,
        models="exact",
        **options,
    )
    with pytest.raises(pc.PrivacyError, match=why):
        c_code(noise)


def test_a_filter_has_at_most_20_000_numbers():
    """A, B, C, D and the root of the first state: n^2 and a few times n."""
    for order in (60, 141):
        poles = 0.9 * np.cos(np.arange(order))
        plant = ct.ss(np.diag(poles), np.zeros((order, 1)), np.ones((1, order)), 0, 1.0)
        noise = pc.design_output_noise(
            plant,
            budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
            adjacency=pc.StateAdjacency({"x[0]": 1.0}),
            horizon=5,
            models="exact",
        )
        if order == 60:
            assert "#define PRIVCONTROL_STATES 60" in c_code(noise)
            continue
        with pytest.raises(pc.PrivacyError, match="a filter of at most 20000 numbers"):
            c_code(noise)


def test_noise_of_a_plant_that_varies_has_no_filter():
    names = {"inputs": ["heat", "people"], "outputs": "T"}
    plants = [ct.ss(a, [[1, 0.1]], 1, 0, 300.0, **names) for a in (0.9, 0.8, 0.7, 0.6)]
    noise = pc.design_output_noise(
        plants,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.DisturbanceAdjacency({"people": 1.0}),
        horizon=4,
        models="exact",
    )
    with pytest.raises(pc.PrivacyError, match="one plant for all samples"):
        c_code(noise)
