"""A guarantee belongs to models and to a window of the run: unequal ones neither add nor share a ledger.

The truth comes from the stacked query: all releases side by side, s^T Gamma^-1 s over all hidden moves.
"""

import json

import cases
import control as ct
import numpy as np
import pytest
import scipy.linalg
from repeats import few

import privcontrol as pc
from privcontrol.core import kappa_inverse

ALLOWED = kappa_inverse(1.0, 1e-2)
BOTH = pc.StateAdjacency(1.0)


def faint(scale):
    """The vehicle with an output that is scaled."""
    plant = pc.plants.vehicle()
    return ct.ss(
        plant.A,
        plant.B,
        scale * plant.C,
        plant.D,
        plant.dt,
        states=plant.state_labels,
        inputs=plant.input_labels,
        outputs=plant.output_labels,
    )


def stacked_shift(plants, starts, factor, horizon, moves):
    """y of several releases of C A^t (x(start) + S eta), each with noise of its own, drawn for the first plant."""
    total = 0.0
    for plant, start in zip(plants, starts):
        powers = [np.linalg.matrix_power(plant.A, t) for t in range(horizon)]
        noise = np.vstack([plants[0].C @ power @ factor for power in powers])
        shown = np.vstack([plant.C @ power for power in powers])
        moved = np.linalg.matrix_power(plant.A, start) @ moves
        total += np.sum((np.linalg.pinv(noise) @ shown @ moved) ** 2, axis=0)
    return np.sqrt(total.max())


def continued(noise, start):
    """What a gateway promises that goes on with a run from a sample."""
    return pc.Gateway(noise, start=start, floating=True).guarantee


def test_guarantees_under_different_models_do_not_add():
    """Their sum would claim .5325 for both releases, and .7531 holds under the first model."""
    first, second = faint(1.0), faint(0.01)
    noise = cases.vehicle_noise(horizon=20)
    under_first = noise.guarantee_for([first])
    under_second = noise.guarantee_for([second])
    claimed = np.hypot(under_first.gdp, under_second.gdp)
    truth = stacked_shift(
        [first, first], [0, 0], noise.factor, 20, np.array([[1.0], [0.0]])
    )
    assert claimed == pytest.approx(0.5325, abs=1e-4)
    assert truth == pytest.approx(0.7531, abs=1e-4)
    for one in (noise.guarantee, under_first):
        with pytest.raises(ValueError, match=r"different models.*guarantee_for\(\["):
            one + under_second
    ledger = pc.PrivacyLedger(pc.PrivacyBudget(epsilon=3.0, delta=1e-2))
    ledger.charge(under_first)
    with pytest.raises(ValueError, match=r"guarantee_for\(\["):
        ledger.charge(under_second)
    assert ledger.spent.releases == 1
    over_both = noise.guarantee_for([first, second])
    assert (over_both + noise.guarantee_for([second, first])).gdp >= truth * (1 - 1e-12)


def test_guarantees_of_different_windows_do_not_add():
    """Their sum would claim .753 for two windows of the vehicle, and 1.422 holds."""
    noise = cases.vehicle_noise(BOTH)
    A = pc.plants.vehicle().A
    back = [np.linalg.matrix_power(np.linalg.inv(A), t) for t in range(200)]
    truth = stacked_shift(
        [pc.plants.vehicle()] * 2, [0, 100], noise.factor, 100, np.hstack(back)
    )
    assert np.sqrt(2) * noise.guarantee.gdp == pytest.approx(0.753, abs=1e-3)
    assert truth == pytest.approx(1.422, abs=1e-3)
    later = continued(noise, 100)
    with pytest.raises(ValueError, match="different windows.*block_diag"):
        noise.guarantee + later
    ledger = pc.PrivacyLedger(pc.PrivacyBudget(epsilon=3.0, delta=1e-2))
    ledger.charge(noise.guarantee)
    with pytest.raises(ValueError, match="block_diag"):
        ledger.can_charge(later)
    # the recipe of the documentation
    of_window = noise.process.responses.reshape(100, -1)
    both = pc.GaussianNoise(scipy.linalg.block_diag(of_window, of_window))
    run = pc.output_query(pc.plants.vehicle(), 200)
    together = pc.Mechanism(run, both).guarantee(BOTH)
    assert together.gdp == pytest.approx(truth, rel=1e-6)
    with pytest.raises(ValueError, match="different horizons"):
        together + noise.guarantee


def test_equal_models_and_windows_add_whatever_the_plant_is_called():
    noise = cases.vehicle_noise(horizon=20)
    again = noise.guarantee_for([pc.plants.vehicle(), faint(1.0)])
    assert again.scope == noise.guarantee.scope
    assert (noise.guarantee + again).gdp == pytest.approx(ALLOWED * np.sqrt(2))
    later = continued(noise, 20)
    assert (later + later).gdp == pytest.approx(ALLOWED * np.sqrt(2))
    assert continued(noise, 0) == noise.guarantee
    assert "20 to 39 of the run" in later.sentence
    assert continued(noise.over(5), 20).scope == later.scope


@pytest.mark.parametrize(
    "change",
    [
        {"A": [[1.0, 0.1], [0.0, 0.999]]},
        {"B": [[0.005], [0.2]]},
        {"C": [[1.0, 1e-300]]},
        {"D": [[1.0]]},
        {"dt": 0.2},
        {"states": ["velocity", "position"]},
        {"inputs": ["v"]},
        {"outputs": ["z"]},
    ],
)
def test_every_public_number_and_name_of_a_plant_counts(change):
    given = dict(A=[[1.0, 0.1], [0.0, 1.0]], B=[[0.005], [0.1]], C=[[1.0, 0.0]])
    given |= dict(D=[[0.0]], dt=0.1, states=["position", "velocity"])
    given |= dict(inputs=["u"], outputs=["y"])

    def fingerprint(A, B, C, D, dt, **labels):
        plant = ct.ss(A, B, C, D, dt, **labels)
        return pc.output_query(plant, 1).plant.fingerprint

    assert fingerprint(**given) == fingerprint(**given | {"D": [[-0.0]]})
    assert fingerprint(**given) != fingerprint(**given | change)


def test_a_box_and_a_list_of_models_are_scopes_of_their_own():
    noise = cases.vehicle_noise(horizon=20, floor=1.0)
    boxes = [
        pc.PlantBox(pc.plants.vehicle(), A=[[width, 0], [0, 0]])
        for width in (1e-4, 2e-4)
    ]
    narrow, wide = (noise.guarantee_for(box) for box in boxes)
    for other in (wide, noise.guarantee):
        with pytest.raises(ValueError, match="different models"):
            narrow + other
    designed = cases.vehicle_noise(horizon=20, floor=1.0, models=boxes[0].corners())
    assert len(designed.guarantee.scope.models) == 3
    with pytest.raises(ValueError, match="different models"):
        designed.guarantee + noise.guarantee


def test_scopes_with_models_and_windows_survive_json():
    guarantee = continued(cases.vehicle_noise(horizon=20), 20)
    again = pc.PrivacyGuarantee.from_dict(json.loads(json.dumps(guarantee.to_dict())))
    assert again == guarantee
    assert again.scope.window == (20, 40)


def test_what_is_no_window_is_refused():
    noise = cases.vehicle_noise(horizon=20)
    for start in (-1, 1.5, "2", True):
        with pytest.raises((ValueError, TypeError), match="start"):
            continued(noise, start)


# -- what the outputs reveal exactly is what an eavesdropper finds exactly ------------------


def told_names(noise):
    """States that the guarantee says the outputs reveal exactly."""
    marker = ", which the outputs reveal exactly"
    for clause in noise.guarantee.scope.caveats:
        if clause.endswith(marker) and not clause.startswith("components"):
            names = clause.removesuffix(marker).replace(" and ", ", ")
            return set(names.split(", "))
    return set()


def test_states_of_which_the_outputs_tell_only_a_difference_are_not_called_told():
    """An output p0 - p1 tells neither of them, what has no noise."""
    pair = ct.ss(
        np.diag([0.9, 0.9, 0.5]), np.zeros((3, 1)), [[1, -1, 0], [0, 0, 1]], 0, 1
    )
    for states, told in ({"x[2]": 1.0}, set()), ({"x[0]": 1.0}, {"x[2]"}):
        noise = pc.design_output_noise(
            pair,
            horizon=5,
            budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
            adjacency=pc.StateAdjacency(states),
            models="exact",
        )
        assert told_names(noise) == told


@pytest.mark.parametrize("seed", few(range(40), of=8))
def test_states_called_told_are_those_that_an_eavesdropper_finds_exactly(seed):
    rng = np.random.default_rng(seed)
    order = int(rng.integers(2, 5))
    outputs = int(rng.integers(1, order + 1))
    A = np.triu(rng.integers(-1, 2, (order, order)) * 0.25, 1)
    A += np.diag(rng.choice([0.5, 0.75, 1.0], order))
    C = rng.integers(-1, 2, (outputs, order)).astype(float)
    protected = int(rng.integers(order))
    if not C.any():
        return
    plant = ct.ss(A, np.zeros((order, 1)), C, np.zeros((outputs, 1)), 1)
    adjacency = pc.StateAdjacency({f"x[{protected}]": 1.0}, times=0)
    try:
        noise = pc.design_output_noise(
            plant,
            horizon=6,
            budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
            adjacency=adjacency,
            models="exact",
        )
    except pc.PrivacyError as refusal:
        assert "no output depends" in str(refusal)
        return
    spy = pc.eavesdropper(noise)
    exact = spy.std.max(axis=1) <= 1e-12 * noise.std.max()  # up to rounding
    found = {plant.state_labels[k] for k in np.flatnonzero(exact)}
    told = told_names(noise) - {"all differences over time"}
    assert told <= found
    noisy = noise.factor.any(axis=1)
    for _ in range(order):
        noisy = noisy | (A != 0)[:, noisy].any(axis=1)
    assert told == {plant.state_labels[k] for k in np.flatnonzero(~noisy)} & found


def test_components_beside_told_states_are_named():
    """b(0) is read without noise at the first sample, however a moves b later."""
    A = [[0.9, 0, 0], [0.1, 0.8, 0], [0, 0, 0.7]]
    plant = ct.ss(A, np.zeros((3, 1)), np.eye(3), 0, 1, states=["a", "b", "d"])
    secret = pc.StateAdjacency({"a": 1.0}, times=0)
    caveats = caveats_of(plant, secret)
    assert caveats[:2] == (
        "d, which the outputs reveal exactly",
        "components outside the span of the noise, which the outputs reveal exactly",
    )
    # of a, b and the sum of b and c, which all stay as they are, two have no noise
    C = [[1, 0, 0], [0, 1, 1]]
    still = ct.ss(np.eye(3), np.zeros((3, 1)), C, 0, 1, states=["a", "b", "c"])
    found = caveats_of(still, pc.StateAdjacency({"a": 1.0}))
    assert found[0] == "all differences over time, which the outputs reveal exactly"
    assert found[1].startswith("components outside the span of the noise")
    # beyond 24 states nothing is decided in rationals
    many = ct.ss(0.5 * np.eye(25), np.zeros((25, 1)), np.eye(25), 0, 1)
    found = caveats_of(many, pc.StateAdjacency({"x[0]": 1.0}, times=0))
    assert found[0] == (
        "components outside the span of the noise, which the outputs may reveal exactly"
    )


def test_differences_of_outputs_that_are_scaled_carry_noise():
    """The noise of the position is one offset, times 1 or 2 as the gain of the output."""
    vehicle = pc.plants.vehicle()
    gains = [1.0, 2.0, 1.0, 2.0]
    labels = {
        "states": vehicle.state_labels,
        "inputs": vehicle.input_labels,
        "outputs": vehicle.output_labels,
    }
    A, B, C, D = vehicle.A, vehicle.B, vehicle.C, vehicle.D
    plants = [ct.ss(A, B, gain * C, D, vehicle.dt, **labels) for gain in gains]
    found = caveats_of(plants, pc.StateAdjacency({"position": 1.0}))
    assert found[0] == "velocity, which the outputs reveal exactly"
    found = caveats_of([vehicle] * 4, pc.StateAdjacency({"position": 1.0}))
    assert found[0].startswith("velocity and all differences over time")


def caveats_of(plant, secret):
    """The caveats of structured noise over four samples."""
    noise = pc.design_output_noise(
        plant,
        horizon=4,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=secret,
        models="exact",
    )
    return noise.guarantee.scope.caveats


@pytest.mark.parametrize("options", [{"times": [3]}, {}, {"norm": "l2"}])
def test_samples_that_no_secret_reaches_are_said_to_be_bare(options):
    """A delayed output shows all that came before, without noise."""
    lag = ct.ss(0.9, 1, 1, 0, 1, states=["x"], inputs=["u"], outputs=["y"])
    noise = pc.design_output_noise(
        lag,
        horizon=8,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.DisturbanceAdjacency({"u": 1.0}, **options),
        models="exact",
    )
    count = np.count_nonzero(noise.sample(50, rng=0)[0].std(axis=0) == 0)
    assert count == 1 + max(options.get("times", [0]))
    words = f"{count} of 8 samples, in which an output carries no noise"
    assert words in noise.guarantee.scope.caveats
