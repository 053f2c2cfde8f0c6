"""Designs that take long, or too much memory, say so."""

import contextlib
import re
import threading
import time
import warnings
from types import SimpleNamespace

import control as ct
import numpy as np
import pytest
import threadpoolctl
from cases import POSITION

import privcontrol as pc
from privcontrol.designs import varying_design
from privcontrol.noise import _program

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)


PROGRESS = "privcontrol.numerics.progress.PATIENCE"


def designed(horizon):
    """Noise for a gust, whose design takes a second for some hundred samples."""
    secret = pc.DisturbanceAdjacency(0.1, times=range(horizon - 1))
    plant = pc.plants.vehicle()
    pc.design_output_noise(plant, horizon=horizon, budget=BUDGET, adjacency=secret)


def test_a_long_design_without_a_bar_says_once_what_would_be_faster(monkeypatch):
    monkeypatch.setattr(PROGRESS, 0.02)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        designed(150)
    assert {each.category for each in caught} == {pc.PrivacyWarning}
    texts = [str(each.message) for each in caught]
    text = "the design has taken 0.02 s so far; shorten the horizon"
    assert [found.startswith(text) for found in texts].count(True) == 1
    assert {each.filename for each in caught} == {__file__}


def test_a_long_sweep_says_once_what_would_be_faster(monkeypatch):
    monkeypatch.setattr(PROGRESS, 0.01)
    secret = pc.StateAdjacency({"position": 1.0})
    weights = {"Q": 1.0, "R": 1.0, "QN": 1.0, "RN": 1.0}
    asked = dict(horizon=20, adjacency=secret, delta=1e-2, epsilons=[0.5, 1.0])
    with pytest.warns(pc.PrivacyWarning, match="designs have taken .*fewer epsilons"):
        pc.tradeoff(pc.plants.vehicle(), **weights, **asked)


def test_long_sizing_of_shared_noise_says_what_would_be_faster(monkeypatch):
    """With a coalition of three among 30 agents it took 16 s without a word."""
    monkeypatch.setattr(PROGRESS, 0.02)
    shared = dict(weights="metropolis", pairwise_std="auto", coalition=2)
    ring = np.roll(np.eye(12), 1, axis=0) + np.roll(np.eye(12), 3, axis=0)
    with pytest.warns(pc.PrivacyWarning, match="has taken .*a smaller coalition"):
        pc.private_consensus(ring + ring.T, BUDGET, 1.0, **shared)


def test_a_long_endless_design_advises_what_its_request_has(monkeypatch):
    """Without a region it advised that fewer entries of it vary."""
    monkeypatch.setattr(PROGRESS, 1e-6)
    asked = dict(horizon=np.inf, budget=BUDGET, adjacency=LASTING)
    exact = "shorter changes or fewer inputs, or raise gap$"
    with pytest.warns(pc.PrivacyWarning, match=exact):
        pc.design_output_noise(FADING, models="exact", **asked)
    region = "shorter changes, let fewer entries of the models vary, or raise gap$"
    narrow = pc.PlantBox(FADING, A=[[1e-4]])
    with pytest.warns(pc.PrivacyWarning, match=region):
        pc.design_output_noise(FADING, models=narrow, floor=0.5, **asked)


GUST = pc.DisturbanceAdjacency(0.1)
STILL = pc.StateAdjacency({"position": 1.0}, times=0)
BOX = pc.PlantBox(pc.plants.vehicle(), A=[[1e-3, 1e-3], [0, 1e-3]])
FADING = ct.ss(0.8713, 1, 1, 0, 1.0, states=["x"], inputs=["u"], outputs=["y"])
LASTING = pc.DisturbanceAdjacency(0.1, duration=3, shape="level")
OTHER = ct.ss(0.8, 1, 1, 0, 1.0, states=["x"], inputs=["u"], outputs=["y"])
VARYING = pc.PlantPolytope([FADING, OTHER])


def ceiling(covariance):
    return [covariance[0, 0] <= 1e3]


@pytest.mark.parametrize(
    "plant, asked",
    [
        (None, dict(adjacency=POSITION, horizon=2000, models="exact")),
        (None, dict(adjacency=POSITION, horizon=20_000, floor=0.1)),
        (None, dict(adjacency=GUST, horizon=150, floor=0.1)),
        (None, dict(adjacency=GUST, horizon=150)),
        (None, dict(adjacency=STILL, horizon=20, models=BOX, floor=0.3)),
        (FADING, dict(adjacency=GUST, horizon=20, models=[OTHER], floor="auto")),
        (FADING, dict(adjacency=GUST, horizon=np.inf)),
        (FADING, dict(adjacency=GUST, horizon=np.inf, models=VARYING)),
        (None, dict(adjacency=POSITION, horizon=9000, factor=[[1], [0]])),
        (None, dict(adjacency=POSITION, horizon=9000, factor=[[1], [0]], floor=1.0)),
        (None, dict(adjacency=POSITION, horizon=2001, covariance=np.eye(2))),
        (None, dict(adjacency=GUST, horizon=90, factor=np.eye(90))),
        (None, dict(adjacency=GUST, horizon=90, factor=np.eye(90), floor=0.1)),
        (None, dict(adjacency=STILL, horizon=20, models=BOX, floor="auto")),
    ],
)
def test_the_share_of_a_long_design_grows_and_almost_reaches_the_end(
    plant, asked, monkeypatch
):
    """No two of these ask for the same moves: what is kept would take no time."""
    shares = shares_of(pc.design_output_noise, plant, asked, monkeypatch)
    steps = np.diff(shares)
    assert (steps >= 0).all()
    assert steps.max() <= 0.5
    assert 0.5 <= shares[-1] <= 1
    assert len(set(shares)) >= 3  # inside one call of a solver only time passes


def test_the_bar_of_a_design_that_ends_early_is_full_at_its_end(monkeypatch):
    tqdm = pytest.importorskip("tqdm.auto")
    bars = []

    class Bar(tqdm.tqdm):
        def close(self):
            bars.append((self.n, self.total))
            super().close()

        def update(self, count):
            super().update(count + 1)

    monkeypatch.setattr("tqdm.auto.tqdm", Bar)
    monkeypatch.setattr("privcontrol.numerics.progress.BETWEEN_LOOKS", 1e-3)
    asked = dict(adjacency=STILL, horizon=20, models=BOX, floor=0.3, budget=BUDGET)
    pc.design_output_noise(pc.plants.vehicle(), progress=True, **asked)
    done, total = bars[0]
    assert done == total > 0


def test_a_bound_that_would_take_minutes_is_not_searched_for(monkeypatch):
    """Those of a few samples need no search."""
    asked = dict(adjacency=LASTING, models=VARYING, budget=BUDGET, max_std=np.inf)
    searched = pc.design_output_noise(FADING, horizon=8, **asked)
    monkeypatch.setattr("privcontrol.noise._program._MOST_WORK", 0.0)
    _program.solved.cache_clear()
    found = pc.design_output_noise(FADING, horizon=8, **asked)
    assert found.guarantee.satisfies(BUDGET)
    assert searched.design.cost <= found.design.cost <= 1.2 * searched.design.cost
    with pytest.raises(pc.UncertifiableError, match="would take minutes"):
        pc.design_output_noise(FADING, horizon=np.inf, **asked)


def test_a_note_is_given_while_a_design_silences_its_parts(monkeypatch):
    monkeypatch.setattr(PROGRESS, 0.1)
    name = "privcontrol.designs.varying_design.stationary_design"
    design = varying_design.stationary_design

    def slow(*args, **options):
        time.sleep(0.4)
        return design(*args, **options)

    monkeypatch.setattr(name, slow)
    asked = dict(adjacency=GUST, horizon=np.inf, models=VARYING, budget=BUDGET)
    with pytest.warns(pc.PrivacyWarning, match="the design has taken"):
        pc.design_output_noise(FADING, max_std=np.inf, **asked)


def shares_of(design, plant, asked, monkeypatch):
    """Shares of the work that are told while it is done."""
    pytest.importorskip("tqdm")
    shares = []

    def stretch(start, length, done):
        shares.append(done[0])
        return SimpleNamespace(start=start, length=length, done=done)

    monkeypatch.setattr("privcontrol.numerics.progress._Stretch", stretch)
    plant = plant or pc.plants.vehicle()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.PrivacyWarning)
        if design is pc.design_output_noise:
            asked = {"max_std": np.inf, **asked}
        design(plant, budget=BUDGET, progress=True, **asked)
    return shares


def test_a_short_design_says_nothing(monkeypatch):
    monkeypatch.setattr(PROGRESS, 0.5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        designed(3)
        time.sleep(0.6)
    assert not [each for each in caught if "so far" in str(each.message)]


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
def test_a_design_beyond_the_memory_says_what_it_needs_before_it_starts(
    family, monkeypatch
):
    monkeypatch.setattr("privcontrol.numerics.checks._free_bytes", lambda: 1e6)
    asked = dict(horizon=400, budget=BUDGET, family=family)
    secret = pc.DisturbanceAdjacency(0.1)
    with pytest.raises(MemoryError, match=r"needs about 0\.0\d+ GB .* 0\.001 GB"):
        pc.design_output_noise(pc.plants.vehicle(), adjacency=secret, **asked)


@pytest.mark.parametrize(
    "asked, needs",
    [
        (dict(adjacency=POSITION, floor=0.1), "0.0768"),  # 200,000 samples of 384 bytes
        (dict(adjacency=POSITION), "0.0768"),
        (dict(adjacency=POSITION, family="iid-laplace"), "0.0768"),
        (dict(adjacency=POSITION, factor=[[1], [0]]), "0.0768"),
        (dict(adjacency=pc.DisturbanceAdjacency(0.1, norm="l2")), "1.28e+03"),
        (dict(adjacency=GUST, factor=np.ones((200_000, 1))), "3.2e+03"),
        (dict(adjacency=GUST, constraints=ceiling), "2.56e+13"),
    ],
)
def test_no_design_begins_what_the_memory_does_not_hold(asked, needs, monkeypatch):
    monkeypatch.setattr("privcontrol.numerics.checks._free_bytes", lambda: 1e7)
    plant = pc.plants.vehicle()
    start = time.process_time()
    with pytest.raises(
        MemoryError, match=rf"needs about {re.escape(needs)} GB .* 0.01"
    ):
        pc.design_output_noise(plant, horizon=200_000, budget=BUDGET, **asked)
    assert time.process_time() - start < 1


def blas_threads():
    """Threads of NumPy's and of SciPy's own library."""
    own = re.compile(r"(numpy|scipy)(\.libs|/\.dylibs)[/\\]")
    pools = threadpoolctl.threadpool_info()
    return {pool["num_threads"] for pool in pools if own.search(pool["filepath"])}


@pytest.mark.parametrize("most", [1e3, -1.0])
@pytest.mark.parametrize("first", ["main", "other"])
def test_designs_hold_blas_to_one_thread_and_give_the_others_back(first, most):
    """Also if one fails, and until the last of several threads has ended."""
    seen = []
    both = threading.Barrier(2, timeout=60)
    ended = {"main": threading.Event(), "other": threading.Event()}

    def design(name):
        def watched(covariance):
            both.wait()
            if name != first:
                ended[first].wait(60)
            seen.append(blas_threads())
            return [covariance[0, 0] <= most]

        asked = dict(horizon=4, adjacency=GUST, budget=BUDGET, constraints=watched)
        with contextlib.suppress(ValueError, pc.PrivacyError):
            pc.design_output_noise(pc.plants.vehicle(), **asked)
        ended[name].set()

    other = threading.Thread(target=design, args=["other"])
    with threadpoolctl.threadpool_limits(2, "blas"):
        before = blas_threads()
        other.start()
        design("main")
        other.join()
        assert seen == [{1}, {1}]
        assert blas_threads() == before


def test_a_design_of_another_thread_holds_blas_to_one_thread():
    """After one of the main thread, which would else keep the others from it."""
    designed(3)
    seen = []

    def watched(covariance):
        seen.append(blas_threads())
        return [covariance[0, 0] <= 1e3]

    def design():
        asked = dict(horizon=4, adjacency=GUST, budget=BUDGET, constraints=watched)
        pc.design_output_noise(pc.plants.vehicle(), **asked)

    other = threading.Thread(target=design)
    other.start()
    other.join()
    assert seen == [{1}]
