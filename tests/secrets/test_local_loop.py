"""Plants with a local loop: their maps and their secrets by recursions of both systems."""

import control as ct
import numpy as np
import oracles
import pytest

import privcontrol as pc

BUDGET = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
Y = pc.core.kappa_inverse(1.0, 1e-2)
DT = 0.1


def vehicle():
    """The papers' vehicle with its velocity read as well, and a push that is not driven."""
    B = [[0.005, 0.01], [0.1, 0.2]]
    names = {"states": ["position", "velocity"], "outputs": ["y", "v"]}
    return ct.ss([[1, 0.1], [0, 1]], B, np.eye(2), 0, DT, inputs=["u", "push"], **names)


def follower():
    """Integral action and damping on site: u = 2 z - 4 y - 3 v, z+ = z + .1 (r - y)."""
    B = [[0.1, -0.1, 0.0]]
    names = {"inputs": ["r", "y", "v"], "outputs": ["u"], "states": ["z"]}
    return ct.ss([[1.0]], B, [[2.0]], [[0.0, -4.0, -3.0]], DT, **names)


def site(sys, law, inputs, reference, start=None, limit=np.inf, published=None):
    """Outputs (p, T) of a plant and the controller on site, each by its own recursion.

    The controller reads the true outputs, or those with what is ``published`` added.
    """
    state = np.zeros(sys.nstates) if start is None else start[: sys.nstates]
    memory = np.zeros(law.nstates) if start is None else start[sys.nstates :]
    driven = [sys.input_labels.index(name) for name in law.output_labels]
    read = [k for k, n in enumerate(law.input_labels) if n in sys.output_labels]
    free = [k for k in range(law.ninputs) if k not in read]
    sensed = [sys.output_labels.index(law.input_labels[k]) for k in read]
    outputs = []
    for t in range(inputs.shape[1]):
        acting = inputs[:, t].copy()
        given = np.zeros(law.ninputs)
        given[free] = reference[:, t]
        for _ in range(3):  # settles, since one of the two does not pass its input on
            y = sys.C @ state + sys.D @ acting
            seen = y if published is None else published[:, t]
            given[read] = seen[sensed]
            asked = law.C @ memory + law.D @ given
            acting = inputs[:, t].copy()
            acting[driven] += np.clip(asked, -limit, limit)
        y = sys.C @ state + sys.D @ acting
        outputs.append(y)
        state = sys.A @ state + sys.B @ acting
        memory = law.A @ memory + law.B @ given
    return np.array(outputs).T


def shift_of(noise, *changes):
    """The largest privacy shift of changes (p, T) of the outputs, by the dense covariance.

    Infinite if the noise has no entry in some direction of a change.
    """
    covariance = oracles.stacked_covariance(noise)
    image = np.stack([change.T.ravel() for change in changes], axis=1)
    covered = covariance @ np.linalg.pinv(covariance, rcond=1e-12, hermitian=True)
    if np.linalg.norm(image - covered @ image) > 1e-6 * np.linalg.norm(image):
        return np.inf
    return oracles.shift(covariance, image)


def random_system(rng, states, outputs, inputs, passes):
    """A random system in discrete time, which may pass its inputs on at once."""
    sizes = ((states, states), (states, len(inputs)), (len(outputs), states))
    A, B, C = (rng.normal(size=size) for size in sizes)
    A /= np.abs(np.linalg.eigvals(A)).max()
    D = passes * rng.normal(size=(len(outputs), len(inputs)))
    return ct.ss(A, B, C, D, DT, inputs=inputs, outputs=outputs)


@pytest.mark.parametrize("through, passes", [(0, 0), (1, 0), (0, 1)])
def test_the_plant_is_both_recursions_wired_by_name(through, passes):
    rng = np.random.default_rng(3)
    for _ in range(20):
        sys = random_system(rng, 3, ["p", "q", "s"], ["a", "b", "c"], through)
        reads = list(rng.permutation(["q", "s", "r1", "r2"]))
        law = random_system(rng, 2, list(rng.permutation(["a", "c"])), reads, passes)
        plant = pc.with_local_loop(sys, law)
        references = [name for name in law.input_labels if name.startswith("r")]
        assert plant.input_labels == ["a", "b", "c", *references]
        assert plant.output_labels == sys.output_labels
        assert plant.state_labels == [*sys.state_labels, "local[0]", "local[1]"]
        inputs, reference = rng.normal(size=(3, 12)), rng.normal(size=(2, 12))
        start = rng.normal(size=5)
        expected = site(sys, law, inputs, reference, start)
        both = np.vstack([inputs, reference])
        times = DT * np.arange(12)
        got = ct.forced_response(plant, times, both, start).outputs
        assert got == pytest.approx(expected, abs=1e-9 * np.abs(expected).max())


def test_both_may_pass_on_what_makes_no_loop():
    """The first input shows at once in y, which only the second one answers at once."""
    names = {"inputs": ["u", "v"], "outputs": ["y", "power"]}
    D = [[0.7, 0.0], [0.2, 1.0]]
    sys = ct.ss([[0.5]], [[1.0, 0.4]], [[1.0], [2.0]], D, DT, **names)
    names = {"inputs": ["y", "r"], "outputs": ["u", "v"]}
    law = ct.ss([], [], [], [[0.0, 0.3], [-0.6, 0.0]], None, **names)
    plant = pc.with_local_loop(sys, law)
    rng = np.random.default_rng(0)
    inputs, reference = rng.normal(size=(2, 9)), rng.normal(size=(1, 9))
    got = ct.forced_response(plant, DT * np.arange(9), np.vstack([inputs, reference]))
    assert got.outputs == pytest.approx(site(sys, law, inputs, reference), abs=1e-12)


def test_a_transfer_function_is_taken_and_structural_zeros_stay():
    lead = ct.tf([-6.0, 5.6], [1.0, -0.6], DT, inputs=["y"], outputs=["u"])
    plant = pc.with_local_loop(vehicle(), lead)
    assert plant.input_labels == ["u", "push"]
    assert plant.A[0, 0] == 1 - 0.005 * 6
    assert plant.C[0].tolist() == [1, 0, 0]


def test_a_change_of_the_setpoint_is_hidden_and_a_longer_one_is_not():
    """Every change of r that lasts at most d samples, by the recursions of plant and law."""
    horizon, radius, lasting = 40, 0.5, 6
    sys, law = vehicle(), follower()
    plant = pc.with_local_loop(sys, law)
    secret = pc.DisturbanceAdjacency({"r": radius}, duration=lasting, shape="level")
    noise = pc.design_output_noise(
        plant, horizon=horizon, budget=BUDGET, adjacency=secret
    )
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(2, horizon))
    shared = rng.normal(size=(1, horizon))
    start = rng.normal(size=3)
    before = site(sys, law, inputs, shared, start)
    changes = []
    for first in range(horizon):
        for length in range(1, lasting + 1):
            moved = shared.copy()
            moved[0, first : first + length] += radius
            changes.append(site(sys, law, inputs, moved, start) - before)
    assert shift_of(noise, *changes) == pytest.approx(Y, rel=1e-6)
    always = site(sys, law, inputs, shared + radius, start) - before
    assert shift_of(noise, always) > 2 * Y


def settled(plant):
    """The plant whose setpoint is a state, and which is settled at it at the start."""
    n = plant.nstates
    entry, through = plant.B[:, [2]], plant.D[:, [2]]
    at_rest = np.linalg.solve(np.eye(n) - plant.A, entry)
    A = np.block([[plant.A, np.zeros((n, 1))], [np.zeros((1, n)), np.eye(1)]])
    B = np.vstack([plant.B[:, :2], np.zeros((1, 2))])
    C = np.hstack([plant.C, plant.C @ at_rest + through])
    names = {"states": [*plant.state_labels, "r"], "outputs": plant.output_labels}
    shown = ct.ss(A, B, C, plant.D[:, :2], DT, inputs=plant.input_labels[:2], **names)
    return shown, at_rest[:, 0]


@pytest.mark.parametrize("horizon", [40, 80])
def test_a_level_is_a_state_that_moves_where_the_plant_starts(horizon):
    sys, law = vehicle(), follower()
    plant = pc.with_local_loop(sys, law)
    radius = 0.5
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(2, horizon))
    level = np.full((1, horizon), 1.3)
    before = site(sys, law, inputs, level)
    later = site(sys, law, inputs, level + radius) - before
    # alike at the start: the level is one more state of the plant
    A = np.block([[plant.A, plant.B[:, [2]]], [np.zeros((1, 3)), np.eye(1)]])
    B = np.vstack([plant.B[:, :2], np.zeros((1, 2))])
    C = np.hstack([plant.C, plant.D[:, [2]]])
    names = {"states": [*plant.state_labels, "r"], "outputs": plant.output_labels}
    kept = ct.ss(A, B, C, plant.D[:, :2], DT, inputs=plant.input_labels[:2], **names)
    at_start = pc.StateAdjacency({"r": radius}, times=0)
    options = {"horizon": horizon, "budget": BUDGET, "models": "exact"}
    alike = pc.design_output_noise(kept, adjacency=at_start, **options)
    assert shift_of(alike, later) == pytest.approx(Y, rel=1e-6)
    # settled at the level: the states of plant and controller move with it
    shown, at_rest = settled(plant)
    noise = pc.design_output_noise(shown, adjacency=at_start, **options)
    moved = site(sys, law, inputs, level + radius, radius * at_rest) - before
    assert shift_of(noise, moved) == pytest.approx(Y, rel=1e-6)
    assert np.ptp(moved, axis=1) == pytest.approx(
        0, abs=1e-9
    )  # an offset from the start
    assert shift_of(alike, moved) > Y


def hidden_change(noise, radius, horizon, **how):
    """The shift of a change of r that the noise hides, with the law on site as in ``how``."""
    inputs = np.zeros((2, horizon))
    before = np.full((1, horizon), 1.0)
    kept = site(vehicle(), follower(), inputs, before, **how)
    changes = []
    for first in range(horizon - 4):
        after = before.copy()
        after[0, first : first + 4] += radius
        moved = site(vehicle(), follower(), inputs, after, **how)
        changes.append(moved - kept)
    return shift_of(noise, *changes)


@pytest.fixture(scope="module")
def noise():
    plant = pc.with_local_loop(vehicle(), follower())
    secret = pc.DisturbanceAdjacency({"r": 0.5}, duration=4, shape="level")
    return pc.design_output_noise(plant, horizon=60, budget=BUDGET, adjacency=secret)


def test_a_law_that_reads_what_is_published_hides_its_setpoint_less(noise):
    """Given the record, its r acts through the open loop: that is why it is refused."""
    assert hidden_change(noise, 0.5, 60) == pytest.approx(Y, rel=1e-6)
    record = np.random.default_rng(5).normal(size=(2, 60))  # both runs answer it
    assert hidden_change(noise, 0.5, 60, published=record) > 3 * Y


def test_a_law_that_saturates_hides_its_setpoint_less(noise):
    assert hidden_change(noise, 0.5, 60, limit=0.3) > 1.5 * Y


REFUSED = {
    "reads y": "none of its inputs is an output",
    "drives": "its outputs brake are no inputs",
    "published": "which the gate publishes",
    "taken": "push would be the name of two signals",
    "time": "expected the sampling time of the plant",
    "continuous": "expected the sampling time of the plant",
    "nonlinear": "expected a StateSpace or a TransferFunction, got NonlinearIOSystem",
    "array": "expected a StateSpace or a TransferFunction, got ndarray",
}


def refused(case):
    """A controller that a local loop does not take."""
    inputs = {
        "reads y": ["r", "a", "b"],
        "published": ["r", "yhat[0]", "v"],
        "taken": ["push", "y", "v"],
    }
    if case in inputs:
        return ct.ss(follower(), inputs=inputs[case], outputs=["u"])
    law = follower()
    matrices = (law.A, law.B, law.C, law.D)
    names = {"inputs": law.input_labels, "outputs": law.output_labels}
    limits = ct.nlsys(
        None, lambda t, x, u, params: np.clip(u[:1], -1, 1), **names, dt=DT
    )
    return {
        "drives": ct.ss(law, inputs=law.input_labels, outputs=["brake"]),
        "time": ct.ss(*matrices, 2 * DT, **names),
        "continuous": ct.ss(*matrices, 0, **names),
        "nonlinear": limits,
        "array": np.eye(2),
    }[case]


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_a_local_loop_is_refused(case):
    with pytest.raises(ct.ControlArgument, match=REFUSED[case]):
        pc.with_local_loop(vehicle(), refused(case))


def test_an_algebraic_loop_is_refused():
    sys = ct.ss([[0.5]], [[1.0]], [[1.0]], [[0.2]], DT, inputs=["u"], outputs=["y"])
    law = ct.ss([], [], [], [[-0.3, 0.3]], DT, inputs=["y", "r"], outputs=["u"])
    with pytest.raises(ct.ControlArgument, match="algebraic loop"):
        pc.with_local_loop(sys, law)


def test_a_second_local_loop_needs_other_names():
    damped = pc.with_local_loop(vehicle(), follower())
    with pytest.raises(
        ct.ControlArgument, match=r"local\[0\] would be the name of two"
    ):
        pc.with_local_loop(damped, outer_law())
    states = ["position", "velocity", "integral"]
    again = pc.with_local_loop(ct.ss(damped, states=states), outer_law())
    assert again.input_labels == ["u", "push", "r", "goal"]


def outer_law():
    """A slower law around the first one, whose reference has a name of its own."""
    names = {"inputs": ["goal", "y"], "outputs": ["r"]}
    return ct.ss([[0.9]], [[0.1, -0.1]], [[1.0]], 0, DT, **names)
