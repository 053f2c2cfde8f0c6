"""Promises of consensus, Lipschitz constants and system gains, attacked with sizes at the ends of the floats. The
second route is exact rational arithmetic, brute force, or one term of the sum that is bounded."""

import math
from fractions import Fraction

import control as ct
import networkx as nx
import numpy as np
import pytest

from privcontrol import system_gain
from privcontrol.consensus import NodeAdjacency, PrivateConsensus, read_network
from privcontrol.core import UncertifiableError


@pytest.mark.parametrize("low, high", [(-3, 3), (-300, -280), (290, 307), (-307, 307)])
def test_a_shift_over_a_scale_is_rounded_up_at_every_magnitude(low, high):
    rng = np.random.default_rng(0)
    pair = read_network([[0, 0.25], [0.25, 0]])
    found = 0
    for radius, scale in (10.0 ** rng.uniform(low, high, (300, 2))).tolist():
        exact = Fraction(radius) / Fraction(scale)
        if exact < Fraction(np.finfo(float).max) / 2:
            agents = PrivateConsensus(pair, scale, NodeAdjacency(radius))
            shift = agents.guarantee.gdp
            assert exact <= Fraction(shift) < 2 * exact + Fraction(1e-320)
            found += 1
    assert found > 100


@pytest.mark.parametrize("input_size", [1.0, 1e-100, 1e-200])
def test_balancing_the_states_of_a_plant_makes_no_gain_vanish(input_size):
    """Scales of about 1e166 and 1e-84 would make the input matrix of the last plant underflow, and its gain vanish."""
    plant = (
        np.array([[0.5, 1e250], [1e-260, 0.5]]),
        np.array([[input_size], [0.0]]),
        np.array([[1.0, 0.0]]),
    )
    try:
        gain = system_gain(ct.ss(*plant, 0, True), norm="l1")
    except (UncertifiableError, ValueError):
        return
    assert gain >= 2 * input_size * (1 - 1e-12)


def consensus_of(names, scales, radius):
    graph = nx.path_graph(len(names))
    return PrivateConsensus(
        read_network(
            nx.relabel_nodes(graph, dict(enumerate(names))), weights="metropolis"
        ),
        scales,
        NodeAdjacency(radius),
    )


def test_guarantees_add_only_if_their_numbers_belong_to_the_same_nodes():
    """In the second network b moves by 5 behind noise of size 1: together that is sqrt(26)-GDP, far above sqrt(2)."""
    first, second = (
        consensus_of(names, [1.0, 5.0], [1.0, 5.0]).guarantee for names in ("ab", "ba")
    )
    with pytest.raises(ValueError, match="do not add"):
        first + second
    again = consensus_of("ab", [1.0, 5.0], [1.0, 5.0]).guarantee
    assert (first + again).gdp == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("names, exact", [("ab", True), ("ba", False)])
def test_a_sum_is_called_exact_only_if_the_same_node_is_worst_in_both(names, exact):
    first, second = (
        consensus_of("ab", [1.0, 5.0], 1.0).guarantee,
        consensus_of(names, [1.0, 5.0], 1.0).guarantee,
    )
    try:
        assert bool((first + second).exact) == exact
    except ValueError:
        assert not exact


def test_numbered_nodes_are_the_same_secret_from_a_matrix_and_from_a_graph():
    matrix = PrivateConsensus(
        read_network([[0, 0.5], [0.5, 0]], weights="metropolis"),
        2.0,
        NodeAdjacency(1.0),
    )
    assert (
        matrix.guarantee + consensus_of(range(2), 2.0, 1.0).guarantee
    ).gdp == pytest.approx(math.sqrt(0.5))


def test_noise_too_small_to_compare_with_the_radius_is_refused():
    consensus = consensus_of("ab", 1e-170, 1e170)
    with pytest.raises(UncertifiableError):
        consensus.guarantee_for("one")


@pytest.mark.parametrize(
    "input_size, output_size", [(1e-50, 1e50), (1e50, 1e-50), (1e-10, 1e-10)]
)
def test_a_gain_is_certified_in_units_many_decades_apart(input_size, output_size):
    """The gain of C B / (z - 1/2) is 2 C B."""
    gain, exact = (
        system_gain(ct.ss(0.5, input_size, output_size, 0, True)),
        2 * input_size * output_size,
    )
    assert exact * (1 - 1e-15) <= gain <= exact * (1 + 1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_gain_whose_square_is_no_float_is_refused_by_name():
    with pytest.raises(UncertifiableError):
        system_gain(ct.ss(0.5, 1e100, 1e100, 0, True))


def test_a_guarantee_speaks_of_the_noise_that_is_drawn():
    """Scales that could be changed after a simulation would be promised and not drawn."""
    consensus = consensus_of("ab", 1.0, 1.0)
    assert consensus.simulate([0.0, 1.0], 2, rng=0).guarantee.gdp == pytest.approx(1.0)
    for name in ("scales", "pairwise_std", "noise", "adjacency"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(consensus, name, getattr(consensus, name))
    with pytest.raises(ValueError, match="read-only"):
        consensus.scales[0] = 0.5
