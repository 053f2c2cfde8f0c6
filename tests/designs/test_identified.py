"""Plants from recorded data: the right parameters, the right region, the right words.

The confidence intervals of their regressions hold as often as they say, each in its own
setting.
"""

import math
from dataclasses import replace
from pathlib import Path

import control as ct
import numpy as np
import pytest
from scipy import stats

import privcontrol as pc
from privcontrol.designs.designed import designed
from privcontrol.noise.process import promising
from privcontrol.regions.identified import (
    energy_bound,
    first_samples,
    independent_intervals,
    predictable_weights,
    sequential_intervals,
)

A = np.array([[0.9, 0.2], [-0.1, 0.8]])
B = np.array([[0.5], [1.0]])
TRUTH = ct.ss(A, B, [[1.0, 0.0]], 0, 0.5, states=["heat", "flow"], outputs=["y"])


def recorded(samples, seed=0, gain=0.0, std=0.1):
    rng = np.random.default_rng(seed)
    x = np.zeros((2, samples))
    u = rng.normal(size=(1, samples))
    for t in range(samples - 1):
        u[:, t] -= gain * x[0, t]
        noise = std * rng.normal(size=2)
        x[:, t + 1] = A @ x[:, t] + B @ u[:, t] + noise
    return x, u


@pytest.mark.parametrize("data", ["feedback", "open-loop"])
def test_more_data_give_a_smaller_region_that_holds_the_truth(data):
    widths = []
    for samples in (200, 800, 3200):
        x, u = recorded(samples, gain=0.3 if data == "feedback" else 0.0)
        found = pc.identify_states(TRUTH, x, u, confidence=0.999, data=data)
        assert found.contains(TRUTH)
        assert found.contains(TRUTH)
        widths.append(found.box.A.max())
    assert widths[0] > widths[1] > widths[2]
    assert widths[2] < 0.4 * widths[0]
    assert found.system.state_labels == ["heat", "flow"]
    assert found.system.dt == 0.5


def test_a_confidence_of_one_half_is_the_least():
    x, u = recorded(100)
    found = pc.identify_states(TRUTH, x, u, confidence=0.5, data="open-loop")
    surer = pc.identify_states(TRUTH, x, u, confidence=0.6, data="open-loop")
    assert found.box.miss == 0.5
    assert (found.box.A < surer.box.A).all()
    with pytest.raises(ValueError, match="at least 0.5"):
        pc.identify_states(TRUTH, x, u, confidence=0.49, data="open-loop")


def test_known_entries_stay_what_they_are():
    x, u = recorded(300)
    unknown = [[False, True], [False, False]]
    nothing = [[False], [False]]
    found = pc.identify_states(TRUTH, x, u, A=unknown, B=nothing, confidence=0.999)
    assert len(found.box.widths) == 1
    assert np.array_equal(found.box.A > 0, unknown)
    assert np.array_equal(found.plant.B, B)
    assert found.contains(TRUTH)
    all_unknown = pc.identify_states(TRUTH, x, u, confidence=0.999)
    assert found.box.A[0, 1] < all_unknown.box.A[0, 1]


def test_outputs_are_realised_with_the_same_response():
    rng = np.random.default_rng(1)
    count, order = 4000, 2
    first = np.array([[1.2, 0.1], [0.0, 0.9]])
    second = np.array([[-0.4, 0.0], [0.1, -0.2]])
    driven = np.array([[1.0], [0.5]])
    y, u = np.zeros((2, count)), rng.normal(size=(1, count))
    for t in range(2, count):
        y[:, t] = first @ y[:, t - 1] + second @ y[:, t - 2] + driven @ u[:, t - 2]
        y[:, t] += 0.02 * rng.normal(size=2)
    found = pc.identify_outputs(y, u, order=order, dt=1.0, data="open-loop")
    markov = [np.zeros((2, 1)), np.zeros((2, 1))]
    for t in range(8):
        later = first @ markov[-1] + second @ markov[-2] + (t == 1) * driven
        markov.append(later)
    plant = found.system
    response = [
        plant.C @ np.linalg.matrix_power(plant.A, t) @ plant.B for t in range(8)
    ]
    assert np.array(response) == pytest.approx(np.array(markov[2:]), abs=0.02)
    truth = ct.ss(
        np.block([[first, np.eye(2)], [second, np.zeros((2, 2))]]),
        np.vstack([0 * driven, driven]),
        np.eye(2, 4),
        0,
        1.0,
    )
    assert found.contains(truth)
    assert found.contains(truth)


def test_several_runs_count_like_one_long_run():
    runs = [recorded(60, seed) for seed in range(10)]
    found = pc.identify_states(
        TRUTH,
        [x for x, _ in runs],
        [u for _, u in runs],
        data="open-loop",
        confidence=0.999,
    )
    assert found.samples == 590
    assert found.contains(TRUTH)


@pytest.mark.parametrize(
    "change, cause",
    [
        ({"states": np.zeros((3, 50))}, r"expected shape \(2, any\)"),
        ({"states": recorded(20)[0], "inputs": recorded(20)[1]}, "at least 40 steps"),
        ({"inputs": np.ones((1, 40))}, "shape"),
        ({"confidence": 1.0}, "probability"),
        ({"data": "closed"}, "open-loop"),
        ({"A": [[2, 1], [1, 1]]}, "True for unknown"),
        ({"A": np.zeros((2, 2), bool), "B": np.zeros((2, 1), bool)}, "at least one"),
    ],
)
def test_what_does_not_fit_is_refused(change, cause):
    x, u = recorded(100)
    given = {"states": x, "inputs": u, **change}
    with pytest.raises(ValueError, match=cause):
        pc.identify_states(TRUTH, **given)


def test_data_without_noise_are_refused():
    x, u = recorded(100, std=0.0)
    with pytest.raises(ValueError, match="PlantBox"):
        pc.identify_states(TRUTH, x, u)


def identified_room():
    """A room with a heater, identified from 1500 samples at a confidence of 99.5 %."""
    room = ct.ss([[0.9]], [[0.5]], [[1.0]], 0, 1.0, states=["air"], inputs=["heat"])
    rng = np.random.default_rng(0)
    x, u = np.zeros((1, 1500)), rng.normal(size=(1, 1500))
    for t in range(1499):
        x[:, t + 1] = 0.9 * x[:, t] + 0.5 * u[:, t] + 0.1 * rng.normal()
    return pc.identify_states(room, x, u, confidence=0.995, data="open-loop")


def test_noise_for_an_identified_plant_counts_the_miss_in_delta(tmp_path):
    found = identified_room()
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    request = {
        "horizon": 10,
        "budget": budget,
        "adjacency": pc.StateAdjacency({"air": 1.0}, times=0),
    }
    noise = pc.design_output_noise(found.system, models=found, floor=0.5, **request)
    guarantee = noise.guarantee
    assert guarantee.satisfies(budget)
    assert guarantee.epsilon(1e-2) == pytest.approx(1.0, abs=2e-3)
    assert guarantee.delta(50.0) == pytest.approx(
        found.miss
    )  # what no noise takes away
    assert not guarantee.satisfies(pc.PrivacyBudget(epsilon=50.0, delta=0.004))
    # second route: the shift of corners of the box, and the sum of both probabilities
    shift = max(noise.guarantee_for([plant]).gdp for plant in found.box.corners())
    total = found.miss + pc.core.kappa(1.0, shift)
    assert total <= 1e-2
    assert total == pytest.approx(1e-2, rel=2e-2)
    assert noise.guarantee_for(found).delta(1.0) == pytest.approx(
        guarantee.delta(1.0), rel=1e-6
    )
    assert "counted in delta" in guarantee.sentence
    assert "recorded samples that need no protection" in guarantee.sentence
    louder = noise.with_std(3 * float(noise.std.max()))
    assert found.miss <= louder.guarantee.delta(1.0) < guarantee.delta(1.0)
    louder.save(tmp_path / "louder.json")
    assert pc.load(tmp_path / "louder.json") == louder
    with pytest.raises(ValueError, match="part of delta"):
        pc.design_output_noise(
            found.system,
            models=found,
            floor=0.5,
            **{**request, "budget": pc.PrivacyBudget(epsilon=1.0, delta=0.004)},
        )
    noise.save(tmp_path / "noise.json")
    again = pc.load(tmp_path / "noise.json")
    assert again == noise
    assert again.guarantee.scope.models == (found.box.fingerprint,)
    assert again.guarantee_for(again.request.region).delta(1.0) <= guarantee.delta(1.0)
    assert designed(again.request, found.system).guarantee.satisfies(budget)
    surer = replace(noise.request, region=replace(found.box, miss=1e-9))
    promising(noise, request=surer).save(tmp_path / "altered.json")
    with pytest.raises(pc.PrivacyError, match="does not keep"):
        pc.load(tmp_path / "altered.json")


def test_noise_without_a_horizon_counts_the_miss_as_well():
    found = identified_room()
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    request = {"horizon": np.inf, "adjacency": pc.DisturbanceAdjacency({"heat": 1.0})}
    noise = pc.design_output_noise(found.system, models=found, budget=budget, **request)
    assert noise.guarantee.satisfies(budget)
    assert not noise.guarantee.satisfies(pc.PrivacyBudget(epsilon=50.0, delta=0.004))
    assert "counted in delta" in noise.guarantee.sentence
    # second route: the shift of corners of the box, and the sum of both probabilities
    shift = max(noise.guarantee_for([plant]).gdp for plant in found.box.corners())
    total = found.miss + pc.core.kappa(1.0, shift)
    assert 0.85e-2 < total <= 1e-2


def test_noise_that_is_designed_again_counts_the_miss_again():
    """For another weight or budget, as trade-offs and co-design do."""
    x, u = recorded(1500)
    unknown = {"A": [[1, 0], [0, 0]], "B": [[0], [1]]}
    found = pc.identify_states(TRUTH, x, u, confidence=0.995, **unknown)
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    secret = pc.DisturbanceAdjacency({"u[0]": 1.0})
    noise = pc.design_output_noise(
        found.system,
        horizon=10,
        budget=budget,
        adjacency=secret,
        models=found,
        floor=0.1,
    )
    assert noise.request.budget == budget
    again = designed(noise.request, found.system, weight=np.diag([2.0]))
    wider = pc.PrivacyBudget(epsilon=2.0, delta=1e-2)
    other = designed(noise.request, found.system, budget=wider)
    for promise, allowed in ((again.guarantee, budget), (other.guarantee, wider)):
        assert promise.satisfies(allowed)
        assert not promise.satisfies(pc.PrivacyBudget(epsilon=50.0, delta=0.004))
        assert "counted in delta" in promise.sentence


def test_rows_share_the_probability_that_the_box_misses():
    """Four rows that each missed with 30 % would all hold in 24 % of the records.

    Of 150 records the box holds in 70 % to 78 %, known within 19 %.
    """
    rng = np.random.default_rng(6)
    plant = ct.ss(0.5 * np.eye(4), np.zeros((4, 1)), np.eye(4), 0, 1.0)
    hits = 0
    for _ in range(150):
        starts = rng.normal(size=(40, 4))
        steps = 0.5 * starts + 0.3 * rng.normal(size=(40, 4))
        runs = [np.column_stack(pair) for pair in zip(starts, steps)]
        found = pc.identify_states(
            plant,
            runs,
            A=np.eye(4, dtype=bool),
            B=np.zeros((4, 1), bool),
            confidence=0.7,
            data="independent",
        )
        hits += found.contains(plant)
    assert 0.7 - 0.19 < hits / 150 < 0.78 + 0.19


# -- intervals of regressions ------------------------------------------------------------

THETA = np.array([0.8, -0.5, 0.3])
FITS = 1000
# five standard deviations of a share of 1000 fits at 90 %
SPREAD = 5 * math.sqrt(0.9 * 0.1 / FITS)


def holds(intervals, theta):
    centre, widths = intervals
    return bool((np.abs(theta - centre) <= widths).all())


def test_independent_regressors_have_intervals_of_nominal_coverage():
    rng = np.random.default_rng(0)
    regressors = rng.normal(size=(25, 3)) @ np.array(
        [[1, 0.8, 0], [0, 1, 0.5], [0, 0, 2]]
    )
    hits = 0
    for _ in range(FITS):
        targets = regressors @ THETA + 0.1 * rng.normal(size=25)
        hits += holds(independent_intervals(regressors, targets, 0.1), THETA)
    assert -SPREAD < hits / FITS - 0.9 < SPREAD + 0.005


def test_one_parameter_has_the_interval_of_student():
    rng = np.random.default_rng(1)
    x, e = rng.normal(size=(2, 20))
    centre, widths = independent_intervals(x[:, None], 2 * x + e, 0.05)
    energy = x @ x
    estimate = x @ (2 * x + e) / energy
    std = math.sqrt(np.sum((2 * x + e - estimate * x) ** 2) / 19 / energy)
    assert centre == pytest.approx(estimate)
    assert widths == pytest.approx(stats.t.isf(0.025, 19) * std, rel=1e-5)


def autoregression(rng, pole, count):
    y = np.zeros(count + 1)
    u = rng.normal(size=count)
    e = rng.normal(size=count)
    for t in range(count):
        y[t + 1] = pole * y[t] + u[t] + e[t]
    return y, u


def random_walk(rng, count):
    """A random walk and its unknown drift of zero: the regression of Dickey and Fuller."""
    e = rng.normal(size=count)
    y = np.cumsum(np.r_[0.0, e])
    return np.column_stack([y[:-1], np.ones(count)]), y[1:], e


@pytest.mark.slow
def test_weighted_noise_has_the_law_of_constant_weights_in_a_loop():
    """The instruments' ratios against Student's law; those of least squares fail it.

    Of 1500 ratios a distance of the two laws of 0.06 is found with a probability of 0.5.
    """
    rng = np.random.default_rng(2)
    ratios = []
    naive = []
    for _ in range(1500):
        regressors, _, e = random_walk(rng, 40)
        first = first_samples(regressors)
        told, rest = regressors[first:], e[first:]
        weights = predictable_weights(regressors, first)
        inner = weights.T @ rest
        ratios.append(inner * np.sqrt((len(rest) - 1) / (rest @ rest - inner**2)))
        error = np.linalg.lstsq(told, rest, rcond=None)[0]
        left = rest - told @ error
        sizes = np.diag(np.linalg.inv(told.T @ told)) * (left @ left) / (len(rest) - 2)
        naive.append(error / np.sqrt(sizes))
    law = stats.t(len(rest) - 1).cdf
    for column in np.array(ratios).T:
        assert stats.kstest(column, law).pvalue > 1e-3
    assert stats.kstest(np.array(naive)[:, 0], law).pvalue < 1e-9


def test_weights_know_nothing_of_later_samples_and_have_norm_one():
    rng = np.random.default_rng(3)
    y, u = autoregression(rng, 0.9, 300)
    regressors = np.column_stack([y[:-1], u])
    first = first_samples(regressors)
    weights = predictable_weights(regressors, first)
    assert np.sum(weights**2, axis=0) == pytest.approx([1.0, 1.0], rel=1e-12)
    for now in (first, 150, 290, 298):
        changed = regressors.copy()
        changed[now + 1 :] = 10 * rng.normal(size=changed[now + 1 :].shape)
        others = predictable_weights(changed, first)
        upto = now - first + 1
        assert np.array_equal(others[:upto], weights[:upto])
        assert now == 298 or not np.array_equal(others, weights)
    slopes = weights.T @ regressors[first:]
    beside = np.abs(slopes - np.diag(np.diag(slopes))).sum(axis=1)
    assert (beside < 0.03 * np.diag(slopes)).all()


def test_past_states_as_regressors_break_least_squares_and_not_the_instruments():
    rng = np.random.default_rng(2)
    truth = np.array([1.0, 0.0])
    fits = 300
    hits = np.zeros(2)
    for _ in range(fits):
        regressors, targets, _ = random_walk(rng, 60)
        for k, intervals in enumerate((independent_intervals, sequential_intervals)):
            hits[k] += holds(intervals(regressors, targets, 0.1), truth)
    assert hits[0] / fits < 0.8
    assert hits[1] / fits > 0.9 - 5 * math.sqrt(0.09 / fits)


def test_intervals_of_a_loop_are_little_wider_than_those_of_least_squares():
    """Nor is more lost where the feedback's dither is small."""
    rng = np.random.default_rng(4)
    truth = np.array([0.9, 1.0])
    for dither in (1.0, 0.05):
        hits = 0
        ratios = []
        for _ in range(50):
            y = np.zeros(1001)
            u = dither * rng.normal(size=1000)
            for t in range(1000):
                u[t] -= 0.4 * y[t]
                y[t + 1] = 0.9 * y[t] + u[t] + rng.normal()
            regressors = np.column_stack([y[:-1], u])
            found = sequential_intervals(regressors, y[1:], 0.1)
            hits += holds(found, truth)
            ratios.append(found[1] / independent_intervals(regressors, y[1:], 0.1)[1])
        assert np.median(ratios) < (1.1 if dither == 1.0 else 1.35)
        assert hits / 50 > 0.9 - 5 * math.sqrt(0.09 / 50)


def test_the_energy_is_bounded_by_the_ratio_of_predicted_to_largest_likelihood():
    rng = np.random.default_rng(3)
    y, u = autoregression(rng, 0.7, 80)
    regressors, targets = np.column_stack([y[:-1], u]), y[1:]
    first = 10
    bound = energy_bound(regressors, targets, first, 0.05)
    predicted = 0.0
    for t in range(first, 80):
        before, known = regressors[:t], targets[:t]
        estimate, residue, *_ = np.linalg.lstsq(before, known, rcond=None)
        freedom = t - 2
        row = regressors[t]
        spread = 1 + row @ np.linalg.solve(before.T @ before, row)
        scale = math.sqrt(residue[0] / freedom * spread)
        predicted += stats.t.logpdf(targets[t], freedom, row @ estimate, scale)
    size = math.sqrt(bound / 70)
    best = stats.norm.logpdf(0.0, scale=size) * 70 - bound / size**2 / 2
    assert predicted - best == pytest.approx(math.log(1 / 0.05), abs=1e-6)


@pytest.mark.parametrize("intervals", [independent_intervals, sequential_intervals])
def test_units_change_the_intervals_by_their_factor_alone(intervals):
    rng = np.random.default_rng(6)
    y, u = autoregression(rng, 0.7, 200)
    regressors = np.column_stack([y[:-1], u])
    units = np.array([1e-9, 1e8])
    centre, widths = intervals(regressors, y[1:], 0.1)
    scaled_centre, scaled_widths = intervals(regressors * units, 1e3 * y[1:], 0.1)
    assert scaled_centre == pytest.approx(1e3 * centre / units, rel=1e-9)
    assert scaled_widths == pytest.approx(1e3 * widths / units, rel=1e-9)


def test_an_input_that_starts_late_is_waited_for():
    rng = np.random.default_rng(5)
    y, u = autoregression(rng, 0.7, 200)
    regressors = np.column_stack([y[:-1], u])
    assert first_samples(regressors) == 10
    regressors[:30, 1] = 0.0
    assert first_samples(regressors) == 40
    assert np.isfinite(sequential_intervals(regressors, y[1:], 0.1)[1]).all()


@pytest.mark.parametrize("intervals", [independent_intervals, sequential_intervals])
@pytest.mark.parametrize(
    "regressors, targets, cause",
    [
        (np.ones((30, 2)), np.arange(30.0), "do not identify"),
        (
            np.random.default_rng(0).normal(size=(30, 2)),
            np.random.default_rng(0).normal(size=(30, 2)) @ [1.0, 2.0],
            "to the last digits",
        ),
    ],
)
def test_data_that_tell_nothing_are_refused(intervals, regressors, targets, cause):
    with pytest.raises(ValueError, match=cause):
        intervals(regressors, targets, 0.1)


@pytest.mark.slow
def test_parameters_share_the_probability_of_a_miss(monkeypatch):
    """Six intervals that each missed with 20 % would all hold in a quarter of the fits.

    The energy is the true one here, so nothing but the shares decides. A share of .8
    of 600 fits is found within .08.
    """
    rng = np.random.default_rng(5)
    regressors = rng.normal(size=(150, 6))
    theta = rng.normal(size=6)
    hits = 0
    for _ in range(600):
        e = rng.normal(size=150)
        energy = float(np.sum(e[first_samples(regressors) :] ** 2))
        bound = "privcontrol.regions.identified.energy_bound"
        monkeypatch.setattr(bound, lambda *_, known=energy: known)
        hits += holds(
            sequential_intervals(regressors, regressors @ theta + e, 0.2), theta
        )
    assert hits / 600 > 0.8 - 0.08


def test_a_clock_in_the_table_is_not_taken_for_an_output():
    pandas = pytest.importorskip("pandas")
    x, u = recorded(300)
    table = pandas.DataFrame({"level": x[0], "valve": u[0]})
    options = {"order": 2, "dt": 0.5, "data": "open-loop", "input_names": ["valve"]}
    known = pc.identify_outputs(table, **options)
    seconds = 0.5 * np.arange(300)
    dates = pandas.to_datetime(seconds, unit="s")
    for name, clock in (("s", seconds), ("k", np.arange(300)), ("day", dates)):
        log = table.assign(**{name: clock})
        cause = f"{name!r} (grows|holds times).* output_names="
        with pytest.raises(ValueError, match=cause):
            pc.identify_outputs(log, **options)
        assert (
            pc.identify_outputs(log, output_names=["level"], **options).box == known.box
        )
    # a clock that misses a beat does not grow evenly, but its name tells
    late = table.assign(time=np.where(np.arange(300) < 9, seconds, seconds + 1))
    with pytest.raises(ValueError, match="'time' holds times"):
        pc.identify_outputs(late, **options)
    # an output that rests, or drifts with noise, is no clock
    pc.identify_outputs(table.assign(drift=seconds + x[1]), **options)


def _logged(count=300):
    """A log of `recorded` data whose rows have a date, and its plant."""
    pandas = pytest.importorskip("pandas")
    x, u = recorded(count)
    log = pandas.DataFrame({"level": x[0], "flow": x[1], "valve": u[0]})
    log["when"] = pandas.date_range("2026-01-01", periods=count, freq="15min")
    plant = ct.ss(np.zeros((2, 2)), np.zeros((2, 1)), np.eye(2), 0, 0.25,
                  states=["level", "flow"], inputs=["valve"])  # fmt: skip
    return log, plant


def test_rows_that_are_missing_or_out_of_order_are_refused():
    log, plant = _logged()
    gap = log.drop(index=[40, 41])
    numbered = gap.reset_index(drop=True)
    wrong = {
        "the index": [
            gap.drop(columns="when"),
            gap.set_index("when"),
            log.sample(frac=1, random_state=0),
            log.iloc[::-1],
        ],
        "the column 'when'": [numbered],
        "the column 'Time'": [
            numbered.assign(when=numbered.when.astype(str)).rename(
                columns={"when": "Time"}
            ),
            numbered.assign(Time=900.0 * gap.index).drop(columns="when"),
        ],
    }
    for where, tables in wrong.items():
        for table in tables:
            with pytest.raises(ValueError, match=f"states: {where} does not grow"):
                pc.identify_states(plant, table)
    with pytest.raises(ValueError, match="from row 39 of the table to the next"):
        pc.identify_states(plant, numbered)
    with pytest.raises(ValueError, match="outputs: the index does not grow"):
        pc.identify_outputs(gap[["level"]], order=1, dt=0.25)
    inputs = gap[["valve"]]
    with pytest.raises(ValueError, match="inputs: the index does not grow"):
        pc.identify_states(plant, log.iloc[2:], inputs)


def test_the_advice_for_missing_rows_holds_when_it_is_followed():
    log, plant = _logged()
    runs = [log.iloc[:40], log.iloc[42:]]
    found = pc.identify_states(plant, runs)
    arrays = [run[["level", "flow"]].to_numpy().T for run in runs]
    driven = [run[["valve"]].to_numpy().T for run in runs]
    assert found.box == pc.identify_states(plant, arrays, driven).box
    assert found.samples == 39 + 257  # no step leads over the gap
    follow = log.drop(columns="when").drop(index=[40, 41]).reset_index(drop=True)
    assert pc.identify_states(plant, follow).samples == 297
    shuffled = log.sample(frac=1, random_state=0)
    ordered = pc.identify_states(plant, shuffled.sort_values("when"))
    assert ordered.box == pc.identify_states(plant, log).box


def test_clocks_that_tremble_and_other_columns_are_no_gaps():
    log, plant = _logged()
    pandas = pytest.importorskip("pandas")
    known = pc.identify_states(plant, log).box
    tremble = pandas.to_timedelta(
        np.random.default_rng(0).uniform(0, 200, 300), unit="s"
    )
    zoned = log.when.dt.tz_localize("Europe/Berlin")
    for table in (
        log.assign(when=log.when + tremble),
        log.assign(when=zoned),
        log.assign(when=zoned).set_index("when"),
        log.assign(time=["noon"] * 300),
        log.assign(note=["a", "b", "c"] * 100, shift=[1, 2, 2] * 100),
        log.set_index(np.array(["a", "b", "c"] * 100)),
    ):
        assert pc.identify_states(plant, table).box == known


def test_what_holds_no_recording_says_what_to_pass():
    log, plant = _logged()
    with pytest.raises(TypeError, match=r"states: .* str of a file; read .*read_csv"):
        pc.identify_states(plant, "log.csv")
    with pytest.raises(TypeError, match="outputs: .* a file"):
        pc.identify_outputs(Path("log.csv"), order=1, dt=1)
    hole = log.assign(flow=log.flow.where(log.index != 7))
    with pytest.raises(ValueError, match=r"states: a sample is missing \(NaN\)"):
        pc.identify_states(plant, hole)
    u = np.ones((1, 9))
    u[0, 3] = np.nan
    with pytest.raises(ValueError, match="inputs: a sample is missing"):
        pc.identify_outputs(np.ones((1, 9)), u, order=1, dt=1)


def test_recordings_that_stand_or_lie_wrongly_say_how_to_turn_them():
    x, u = recorded(300)
    options = {"order": 2, "dt": 0.5, "data": "open-loop"}
    with pytest.raises(
        ValueError, match=r"outputs: .* pass one signal as a row, y\[np"
    ):
        pc.identify_outputs(x[0], u, **options)
    with pytest.raises(ValueError, match="inputs: .* pass one signal as a row"):
        pc.identify_outputs(x[:1], u[0], **options)
    with pytest.raises(ValueError, match=r"got one of 1; .* pass y\.T"):
        pc.identify_outputs(x[:1].T, u.T, **options)
