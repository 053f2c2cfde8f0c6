"""PrivateResponse: python-control's accessors on trials, statistics over trials, and plots that stay readable."""

import copy
import pickle
import statistics
import time

import control as ct
import matplotlib.pyplot as plt
import numpy as np
import pytest

import privcontrol as pc
from privcontrol.response import PrivateResponse

TRIALS, SAMPLES = 7, 12
STATES, OUTPUTS = ["position", "velocity", "xhat[0]"], ["yhat[0]", "force"]
INPUTS = ["xd[0]", "ud[0]", "eta[0]", "eta[1]"]


def vehicle_loop():
    """A stable loop with a constant reference input, a feedforward and a noise that enters at k = 0 only."""
    A = [[0.9, 0.1, 0.0], [-0.2, 0.8, 0.1], [0.1, 0.0, 0.5]]
    B = [[0.0, 0.1, 1.0, 0.0], [0.3, 0.0, 0.0, 1.0], [0.0, 0.2, 0.1, 0.4]]
    C, D = (
        [[1.0, 0.0, 0.0], [0.0, 0.5, -1.0]],
        [[0.0, 0.0, 0.3, 0.0], [0.2, 0.0, 0.0, 0.1]],
    )
    return ct.ss(
        A, B, C, D, 0.1, states=STATES, inputs=INPUTS, outputs=OUTPUTS, name="vehicle"
    )


def simulated(trials=TRIALS, **changes):
    """The loop's trials as a response, and as the full arrays that it was made from, by python-control itself."""
    system, generator = vehicle_loop(), np.random.default_rng(3)
    t = 0.1 * np.arange(SAMPLES)
    xd, ud = np.full(SAMPLES, 2.0), np.sin(t)
    eta = generator.standard_normal((2, trials))
    u = np.zeros((4, trials, SAMPLES))
    u[0], u[1], u[2:, :, 0] = xd, ud, eta
    x, y = np.empty((trials, 3, SAMPLES)), np.empty((trials, 2, SAMPLES))
    for k in range(trials):
        run = ct.forced_response(system, t, u[:, k], [1.0, 0.0, 0.0])
        x[k], y[k] = run.states, run.outputs
    full = {
        "states": x.transpose(1, 0, 2),
        "outputs": y.transpose(1, 0, 2),
        "inputs": u,
    }
    labels = {
        "state_labels": STATES,
        "output_labels": OUTPUTS,
        "input_labels": INPUTS,
        "sysname": "vehicle",
    }
    lean = full | {"inputs": [xd[None, None, :], ud[None, None, :], eta[:, :, None]]}
    reference = [[2.0] * SAMPLES, np.cos(t)]
    return PrivateResponse(
        t, **(lean | labels | {"plant_states": 2, "reference": reference} | changes)
    ), full


@pytest.fixture
def response():
    return simulated()[0]


@pytest.fixture(scope="module")
def many():
    """A response of 1,000 trials of a scalar plant with two outputs."""
    x = np.random.default_rng(0).standard_normal((1, 1000, 30)).cumsum(axis=-1)
    return PrivateResponse(
        0.1 * np.arange(30), states=x, outputs=np.vstack([x + 1, -x]), reference=[0.5]
    )


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def test_it_is_a_python_control_response_with_the_arrays_of_the_stock_one():
    response, full = simulated()
    stock = ct.TimeResponseData(
        response.time, issiso=False, squeeze=False, sysname="vehicle", **full
    )
    assert isinstance(response, ct.TimeResponseData)
    for name in ("y", "x", "u", "t", "outputs", "states", "inputs", "time"):
        assert np.array_equal(getattr(response, name), getattr(stock, name)), name
    for name in (
        "ninputs",
        "noutputs",
        "nstates",
        "ntraces",
        "issiso",
        "squeeze",
        "transpose",
        "params",
        "success",
    ):
        assert getattr(response, name) == getattr(stock, name), name
    assert set(vars(stock)) <= set(dir(response))
    assert list(response.trace_labels) == [f"trial[{k}]" for k in range(TRIALS)]
    assert [response.state_labels, response.output_labels, response.input_labels] == [
        STATES,
        OUTPUTS,
        INPUTS,
    ]


@pytest.mark.parametrize("k", [0, 4])
def test_forced_response_on_its_inputs_replays_a_trial(response, k):
    run = ct.forced_response(
        vehicle_loop(), response.time, response.inputs[:, k], [1.0, 0.0, 0.0]
    )
    assert np.array_equal(run.outputs, response.outputs[:, f"trial[{k}]"])
    assert np.array_equal(run.states, response.states[:, k])


@pytest.mark.parametrize("trials", [1, 3])
@pytest.mark.parametrize("signals", [1, 2])
@pytest.mark.parametrize("default", [None, True, False])
def test_arrays_keep_three_axes_for_one_signal_and_one_trial(trials, signals, default):
    x = np.arange(signals * trials * 5.0).reshape(signals, trials, 5)
    with ct.config.defaults({"control.squeeze_time_response": default}):
        response = PrivateResponse(range(5), states=x, outputs=x, inputs=x)
        assert (
            response.outputs.shape
            == response.states.shape
            == response.inputs.shape
            == (signals, trials, 5)
        )
        assert np.array_equal(response.outputs[:, "trial[0]"], x[:, 0])


def test_construction_copies_nothing_and_takes_no_time_for_20000_trials():
    x = np.zeros((20_000, 4, 100)).transpose(1, 0, 2)
    inputs = [np.zeros((2, 1, 100)), np.zeros((2, 20_000, 1))]
    seconds = []
    for _ in range(5):
        start = time.process_time()
        response = PrivateResponse(range(100), states=x, outputs=x[:2], inputs=inputs)
        seconds.append(time.process_time() - start)
    assert np.shares_memory(response.states, x)
    assert np.shares_memory(response.outputs, x)
    assert response.states["x[3]", "trial[19999]"].shape == (100,)
    assert statistics.median(seconds) < 0.005


def test_the_arrays_it_gives_are_read_only():
    response, full = simulated()
    for array in (
        response.states,
        response.y,
        response.u,
        response.reference,
        response.time,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[..., 0] = 0.0
    assert full["states"].flags.writeable


def test_repeated_inputs_are_neither_built_nor_pickled_until_they_are_read():
    x = np.zeros((1, 2000, 100))
    blocks = [np.ones((3, 1, 100)), np.zeros((1, 1, 100)), np.full((2, 2000, 1), 5.0)]
    response = PrivateResponse(range(100), outputs=x, inputs=blocks)
    lean = len(pickle.dumps(response))
    assert response.ninputs == 6
    assert lean < 1.1 * x.nbytes
    assert response.inputs.shape == (6, 2000, 100)
    assert (response.u[:3] == 1).all()
    assert (response.u[3] == 0).all()
    assert (response.u[4:, :, 0] == 5).all()
    assert (response.u[4:, :, 1:] == 0).all()
    assert response.u is response.u
    assert len(pickle.dumps(response)) == lean


def test_signals_and_trials_are_indexed_by_name():
    response, full = simulated()
    x = full["states"]
    assert np.array_equal(response.states["velocity"], x[1])
    assert np.array_equal(response.states["velocity", "trial[5]"], x[1, 5])
    assert np.array_equal(response.states[["xhat[0]", "position"]], x[[2, 0]])
    assert np.array_equal(
        response.states["position", ["trial[6]", "trial[2]"]], x[0, [6, 2]]
    )
    assert np.array_equal(response.states["velocity", np.int64(5)], x[1, 5])
    assert np.array_equal(response.outputs[1:, "trial[4]"], full["outputs"][1:, 4])
    assert response.outputs["force", "trial[1]", 3] == full["outputs"][1, 1, 3]
    assert np.array_equal(response.states[:, x[0, :, -1] > 0], x[:, x[0, :, -1] > 0])


@pytest.mark.parametrize(
    "use",
    [
        lambda r: r.states["speed"],
        lambda r: r.states["position", "trial[7]"],
        lambda r: r.states["position", "trial[03]"],
        lambda r: r.states[["position", "speed"]],
        lambda r: r.outputs["position"],
        lambda r: r.outputs["trial[0]"],
        lambda r: r.states[..., "trial[0]"],
        lambda r: r.states["position", "trial[0]", "trial[0]"],
        lambda r: r.states.swapaxes(0, 1)["position"],
    ],
)
def test_a_name_is_refused_where_its_place_is_not_certain(response, use):
    with pytest.raises(ValueError, match="name"):
        use(response)


def test_what_is_taken_out_or_computed_is_a_plain_array(response):
    for array in (response.states[1:], response.states - 1, response.states.mean(0)):
        assert type(array) is np.ndarray
    assert type(response.states.sum()) is np.float64


def test_calling_it_squeezes_and_transposes_with_the_names_in_place():
    single = simulated(trials=1)[0](squeeze=True)
    assert single.outputs.shape == (2, SAMPLES)
    assert single.states["velocity"].shape == (SAMPLES,)
    x = np.arange(6.0).reshape(1, 2, 3)
    scalar = PrivateResponse(range(3), states=x, outputs=x)(squeeze=True)
    assert np.array_equal(scalar.outputs["trial[1]"], x[0, 1])
    with pytest.raises(ValueError, match="unknown signal name"):
        scalar.outputs["y[0]"]
    response, full = simulated()
    turned = response(transpose=True)
    stock = ct.TimeResponseData(
        response.time, issiso=False, squeeze=False, transpose=True, **full
    )
    assert np.array_equal(turned.outputs, stock.outputs)
    assert np.array_equal(turned.outputs[:, "force", "trial[2]"], full["outputs"][1, 2])
    assert response(state_labels=["a", "b", "c"]).states["c"].shape == (TRIALS, SAMPLES)
    assert response.state_labels == STATES


def test_calling_it_with_anything_else_is_refused(response):
    with pytest.raises(TypeError, match="unrecognized keywords"):
        response(squeez=True)


def test_it_unpacks_like_a_tuple(response):
    t, y = response
    assert len(response) == 2
    assert np.array_equal(t, response.time)
    assert np.array_equal(y, response.outputs)
    t, y, x = response(return_x=True)
    assert len(response(return_x=True)) == 3
    assert np.array_equal(x, response.states)
    assert np.array_equal(response[0], t)
    assert np.array_equal(response[2]["velocity"], response.states["velocity"])


def test_python_control_combines_and_plots_it(response):
    joined = ct.combine_time_responses([response, simulated(trials=2)[0]])
    assert joined.y.shape == (2, TRIALS + 2, SAMPLES)
    assert joined.trace_labels[-1] == "trial[1]"
    assert np.array_equal(joined.u[:, :TRIALS], response.u)
    bare = simulated(inputs=None, input_labels=None)[0]
    assert bare.inputs.shape == (0, TRIALS, SAMPLES)
    assert ct.combine_time_responses([bare, bare]).ninputs == 0
    figure = ct.time_response_plot(response, plot_inputs=True)
    assert figure.axes.shape == (6, TRIALS)
    drawn = figure.lines[1, 3][0].get_ydata()
    assert np.array_equal(drawn, response.outputs["force", "trial[3]"])


def test_to_pandas_is_python_controls_frame():
    response, full = simulated()
    pandas = pytest.importorskip("pandas")
    stock = ct.TimeResponseData(
        response.time,
        issiso=False,
        **full,
        state_labels=STATES,
        output_labels=OUTPUTS,
        input_labels=INPUTS,
        trace_labels=list(response.trace_labels),
    ).to_pandas()
    frame = response.to_pandas()
    assert list(frame.columns) == list(stock.columns)
    pandas.testing.assert_frame_equal(
        frame.assign(trace=frame.trace.astype(stock.trace.dtype)), stock
    )
    picked = frame[frame.trace == "trial[4]"]
    assert np.array_equal(picked["force"], response.outputs["force", "trial[4]"])


def test_to_pandas_keeps_signals_that_share_a_label():
    pytest.importorskip("pandas")
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    frame = PrivateResponse(
        range(4),
        states=x,
        outputs=-x,
        state_labels=["a", "time"],
        output_labels=["a", "b"],
    ).to_pandas()
    assert list(frame.columns) == [
        "time",
        "trace",
        "outputs.a",
        "b",
        "states.a",
        "states.time",
    ]
    assert np.array_equal(frame["states.a"], x[0].ravel())
    assert np.array_equal(frame["outputs.a"], -x[0].ravel())
    assert np.array_equal(frame["time"], np.tile(np.arange(4), 3))


@pytest.mark.parametrize(
    "copied", [lambda r: pickle.loads(pickle.dumps(r)), copy.copy, copy.deepcopy]
)
def test_it_pickles_and_copies(copied):
    response = simulated(guarantee={"epsilon": 1.0})[0]
    response.inputs  # noqa: B018  built before it is copied
    other = copied(response)
    for name in ("t", "y", "x", "u", "reference"):
        assert np.array_equal(getattr(response, name), getattr(other, name)), name
    assert other.guarantee == {"epsilon": 1.0}
    assert other.trace_labels == response.trace_labels
    assert np.array_equal(
        other.states["velocity", "trial[2]"], response.states["velocity", 2]
    )
    assert np.array_equal(other.mse(), response.mse())
    assert repr(other) == repr(response)


def test_its_text_is_short_and_shows_nothing_private():
    x = np.full((40, 3, 5), 123.456)
    response = PrivateResponse(
        range(5), states=x, outputs=x, guarantee="(1, 0.01)-DP", sysname="grid"
    )
    text = str(response)
    assert text == repr(response)
    assert "123" not in text
    assert len(text) < 120
    assert "'grid'" in text
    assert "3 trials of 5 samples" in text
    assert "40 in all" in text


def test_mean_and_quantile_over_trials_by_brute_force(response):
    mean, median = response.mean(), response.quantile(0.5)
    deciles = response.quantile([0.1, 0.9], ["force", "xhat[0]", "eta[1]"])
    assert mean.shape == median.shape == (2, SAMPLES)
    assert deciles.shape == (
        2,
        3,
        SAMPLES,
    )
    for t in range(SAMPLES):
        for i, name in enumerate(["position", "velocity"]):
            trials = sorted(response.states[name, k, t] for k in range(TRIALS))
            assert mean[name][t] == pytest.approx(
                statistics.fmean(trials), rel=1e-12, abs=1e-14
            )
            assert median[i, t] == trials[TRIALS // 2]
        forces = sorted(response.outputs["force", k, t] for k in range(TRIALS))
        expected = statistics.quantiles(forces, n=10, method="inclusive")
        assert deciles[0, 0, t] == pytest.approx(expected[0])
        assert deciles[1, "force", t] == pytest.approx(expected[-1])
    assert np.array_equal(deciles[1, 2, 1:], np.zeros(SAMPLES - 1))


def test_mse_over_trials_by_brute_force(response):
    mse = response.mse()
    assert mse.shape == response.reference.shape == (2, SAMPLES)
    for i in range(2):
        for t in range(SAMPLES):
            errors = [
                (response.x[i, k, t] - response.reference[i, t]) ** 2
                for k in range(TRIALS)
            ]
            assert mse[i, t] == pytest.approx(statistics.fmean(errors), rel=1e-12)
    assert np.allclose(
        response.mse([1.0, 2.0])["velocity"], ((response.x[1] - 2) ** 2).mean(axis=0)
    )
    assert np.allclose(response.mse(0, signals="outputs"), (response.y**2).mean(axis=1))


def test_without_states_everything_published_still_works():
    response = simulated(
        states=None, state_labels=None, reference=None, plant_states=None
    )[0]
    assert response.x is None
    assert response.nstates == 0
    for use in (
        lambda: response.states,
        response.mean,
        lambda: response.quantile(0.5),
        lambda: response.mse(0),
    ):
        with pytest.raises(ValueError, match="keep_states=True"):
            use()
    assert response.mean("outputs").shape == (2, SAMPLES)
    assert response.plot().axes.shape == (2, 1)
    assert response.band_plot().axes.shape == (
        2,
        1,
    )
    assert ct.combine_time_responses([response, response]).x is None
    assert "position" not in response.to_pandas().columns


def test_a_signal_may_be_called_like_a_group():
    """Tables and plots left out all others of the group without a word."""
    x = np.arange(24.0).reshape(2, 3, 4)
    names = {"state_labels": ["a", "states"], "output_labels": ["b", "outputs"]}
    response = PrivateResponse(range(4), states=x, outputs=2 * x, **names)
    table = response.to_pandas()
    assert list(table) == ["time", "trace", "b", "outputs", "a", "states"]
    assert np.array_equal(table["b"], 2 * x[0].ravel())
    assert len(response.plot().axes.ravel()) == 4
    no_states = PrivateResponse(range(4), outputs=x, output_labels=["b", "outputs"])
    assert len(no_states.band_plot().axes.ravel()) == 2


def test_signals_with_one_label_in_two_groups_must_say_which():
    x = np.ones((2, 3, 4))
    response = PrivateResponse(
        range(4),
        states=x,
        outputs=2 * x,
        state_labels=["a", "b"],
        output_labels=["a", "outputs"],
    )
    with pytest.raises(ValueError, match=r"'outputs\.a' or 'states\.a'"):
        response.mean("a")
    both = response.mean(["states.a", "outputs.a", "b", "outputs"])
    assert [both[name][0] for name in ("states.a", "outputs.a", "b", "outputs")] == [
        1,
        2,
        1,
        2,
    ]


def legend_texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_plot_of_1000_trials_shows_median_band_samples_and_reference(many):
    start = time.process_time()
    drawn = many.plot()
    drawn.figure.canvas.draw()
    assert time.process_time() - start < 3
    assert isinstance(drawn, ct.ControlPlot)
    assert drawn.axes.shape == drawn.lines.shape == (2, 2)
    assert legend_texts(drawn.legend) == [
        "5–95 % of 1000 trials",
        "single trials",
        "median",
        "reference",
    ]
    assert [ax.get_ylabel() for ax in drawn.axes.flat if ax.get_visible()] == [
        "x[0]",
        "y[0]",
        "y[1]",
    ]
    assert [drawn.axes[0, 0].get_xlabel(), drawn.axes[1, 1].get_xlabel()] == [
        "Time [s]"
    ] * 2
    lines = drawn.lines[0, 0]
    assert len(lines) == 5  # three trials, the median, the reference
    assert np.array_equal(lines[2].get_ydata(), many.x[0, 2])
    assert np.allclose(
        lines[3].get_ydata(), np.sort(many.x[0], axis=0)[499:501].mean(axis=0)
    )
    assert (lines[4].get_ydata() == 0.5).all()
    assert lines[4].get_linestyle() == "--"
    edges = drawn.axes[0, 0].collections[0].get_paths()[0].vertices
    inside = (many.x[0] >= many.quantile(0.05)) & (many.x[0] <= many.quantile(0.95))
    assert inside.mean() == pytest.approx(0.9, abs=1e-3)
    assert np.allclose(edges[:, 1].max(), many.quantile(0.95).max())
    assert np.allclose(edges[:, 1].min(), many.quantile(0.05).min())


def test_plot_of_a_few_trials_draws_each_and_no_band(response):
    drawn = response.plot()
    assert drawn.axes.shape == (2, 2)
    assert len(drawn.lines[0, 0]) == TRIALS + 1
    assert not drawn.axes[0, 0].collections
    assert legend_texts(drawn.legend) == ["7 trials", "reference"]
    assert legend_texts(simulated(trials=1)[0].plot("force").legend) == ["1 trial"]


def test_of_many_trials_without_a_band_a_hundred_are_drawn(many):
    """A band of all but 1 in 10,000 has no end among 1000 trials."""
    drawn = many.band_plot("x[0]", quantiles=(1e-4, 1 - 1e-4), reference=False)
    assert len(drawn.lines[0, 0]) == 100


def test_plot_of_many_signals_says_what_it_leaves_out():
    x = np.zeros((50, 2, 4))
    drawn = PrivateResponse(range(4), states=x, outputs=x, time_label="Step").plot()
    assert drawn.axes.shape == (6, 2)
    assert "first 6 of 50" in drawn.axes[0, 0].get_title()
    assert drawn.axes[-1, 0].get_xlabel() == "Step"


def test_band_plots_of_two_responses_share_axes_and_legend(many):
    first = many.band_plot(["x[0]", "y[1]"], label="structured", quantiles=(0.1, 0.9))
    second = many.band_plot(
        ["x[0]", "y[1]"], label="i.i.d.", ax=first.axes, reference=False
    )
    assert second.figure is first.figure
    assert len(second.figure.legends) == 1
    assert legend_texts(second.legend) == [
        "structured: 10–90 % of 1000 trials",
        "structured: median",
        "reference",
        "i.i.d.: 5–95 % of 1000 trials",
        "i.i.d.: median",
    ]
    assert first.lines[0, 0][0].get_color() != second.lines[0, 0][0].get_color()


def test_more_than_six_panels_stand_in_two_columns(many):
    signals = ["x[0]", "y[0]", "y[1]"] * 3
    tall = many.band_plot(signals[:6])
    assert tall.axes.shape == (6, 1)
    wide = many.band_plot(signals[:7])
    assert wide.axes.shape == (4, 2)
    labels = [ax.get_ylabel() for ax in wide.axes.flat if ax.get_visible()]
    assert labels[:6] == [ax.get_ylabel() for ax in tall.axes.flat]
    assert len(labels) == 7
    again = many.band_plot(signals[:7], ax=wide.axes, label="again")
    assert again.axes.shape == (4, 2)
    assert again.axes[2, 1].get_ylabel() == labels[5]
    one = many.band_plot(signals[:7], ax=plt.figure().subplots(7))
    assert one.axes.shape == (7, 1)


def test_plots_use_an_empty_current_figure_and_given_axes(many):
    figure = plt.figure()
    assert many.plot().figure is figure
    assert many.plot().figure is not figure
    own, ax = plt.subplots()
    drawn = many.band_plot("x[0]", ax=ax)
    assert drawn.figure is own
    assert drawn.legend is ax.get_legend()
    drawn.set_plot_title("A title")
    assert own.get_suptitle() == "A title"


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda r: r.plot("speed"), "unknown signal 'speed'"),
        (
            lambda r: r.plot(["x[0]", "y[0]"], ax=plt.figure().add_subplot()),
            "2 x 1 axes",
        ),
        (lambda r: r.plot(samples=-1), "samples: expected"),
        (lambda r: r.plot(samples="all"), "samples: expected"),
        (lambda r: r.plot(signals=[]), "at least one"),
        (lambda r: r.band_plot(quantiles=(0.9, 0.1)), "quantiles: expected"),
        (lambda r: r.quantile(1.5), "q: expected .* from 0 to 1"),
        (lambda r: r.mse(signals="outputs"), "pass reference"),
        (lambda r: r.mse(np.zeros(4)), "reference: expected"),
    ],
)
def test_wrong_requests_say_what_was_expected(many, call, message):
    with pytest.raises(ValueError, match=message):
        call(many)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        (
            {"outputs": np.zeros((2, SAMPLES))},
            ValueError,
            r"outputs: expected shape \(signals, trials, 12\)",
        ),
        (
            {"states": np.zeros((3, 6, SAMPLES))},
            ValueError,
            r"states: expected shape \(signals, 7, 12\)",
        ),
        (
            {"outputs": np.zeros((2, TRIALS, SAMPLES), complex)},
            TypeError,
            "outputs: expected real",
        ),
        ({"inputs": [np.zeros((4, 3, 1))]}, ValueError, "inputs: expected blocks"),
        ({"inputs": np.zeros((4, 6, 1))}, ValueError, "inputs: expected blocks"),
        ({"input_labels": ["a"]}, ValueError, "input_labels: expected 4"),
        ({"output_labels": ["a", "a"]}, ValueError, "output_labels: expected distinct"),
        ({"state_labels": "abc"}, ValueError, "state_labels: expected 3"),
        (
            {"plant_states": 4},
            ValueError,
            "plant_states: expected at most the 3 states",
        ),
        ({"plant_states": -1}, ValueError, "plant_states"),
        ({"reference": np.zeros((3, SAMPLES))}, ValueError, "reference: expected"),
        ({"speed": 3}, TypeError, "speed"),
    ],
)
def test_wrong_arguments_are_named(changes, error, message):
    with pytest.raises(error, match=message):
        simulated(**changes)


def test_a_message_and_a_state_of_one_agent_are_told_apart_in_a_plot():
    graph = pc.plants.ten_agent_graph()
    agents = pc.private_consensus(
        graph, pc.PrivacyBudget(epsilon=1.0), 1.0, family="laplace"
    )
    response = agents.simulate(np.arange(10.0), 3, trials=5, rng=0)
    axes = response.plot(["outputs.2", "states.2"]).axes.ravel()
    assert [axis.get_ylabel() for axis in axes] == ["outputs.2", "states.2"]


# -- units are labels ------------------------------------------------------------------------------------------------


def heated(dt=0.25):
    """A room counted in hours, under integral action, with its heating one sample late."""
    room = ct.ss(0.9, 0.1, 1, 0, dt, states=["air"], inputs=["heat"], outputs=["T"])
    late = pc.with_delays(room, {"heat": 2})
    noise = pc.design_output_noise(
        late,
        horizon=24,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"air": 0.1}, times=0),
        family="iid-gaussian",
    )
    Q = np.diag([1.0, 0, 0])
    return noise, pc.private_lqg(late, Q, 1.0, 1e-3, 1e-3, noise, integral=["T"])


def labels(drawn):
    axes = [ax for ax in drawn.axes.flat if ax.get_visible()]
    return {ax.get_xlabel() for ax in axes} - {""}, [ax.get_ylabel() for ax in axes]


def test_plots_name_the_units_they_are_told_and_no_state_of_a_delay():
    noise, loop = heated()
    run = loop.simulate(reference=[0.5], trials=40, rng=0)
    drawn = run.plot(time_unit="h", units={"air": "K", "T": "K", "heat": "kW"})
    assert labels(drawn) == (
        {"Time [h]"},
        ["air [K]", "published\nT [K]", "heat [kW]"],
    )
    published = drawn.axes[0, 1]
    goal = [line for line in published.lines if line.get_label() == "reference"]
    assert len(goal) == 1
    assert set(goal[0].get_ydata()) == {0.5}
    assert labels(run.band_plot(["air", "T"])) == (
        {"Time [s]"},
        ["air", "published\nT"],
    )
    assert labels(run.band_plot("heat_1", time_unit="min"))[1] == ["heat_1"]
    assert labels(run.band_plot())[1] == ["air"]
    assert labels(noise.plot(time_unit="h", units={"T": "K"})) == (
        {"Time [h]"},
        ["noise on\nT [K]"],
    )
    spy = pc.eavesdropper(noise)
    assert labels(spy.plot(units={"air": "K"}))[1][0].startswith("error of\nair [K]")
    for draw in (run.plot, run.band_plot, noise.plot, spy.plot):
        with pytest.raises(ValueError, match=r"units: expected names among .*got wall"):
            draw(units={"wall": "K"})
        with pytest.raises(TypeError, match="time_unit: expected text"):
            draw(time_unit=3600)


def test_spectra_and_reports_name_the_units_they_are_told(tmp_path):
    loop = heated()[1]
    secret = pc.DisturbanceAdjacency({"heat": 1.0})
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    room = ct.ss(0.9, 0.1, 1, 0, 0.25, inputs=["heat"], outputs=["T"])
    endless = pc.design_output_noise(
        room, horizon=np.inf, budget=budget, adjacency=secret
    )
    axis = endless.plot(time_unit="h", units={"T": "K"}).axes[0, 0]
    assert axis.get_xlabel() == "Frequency [cycles per h]"
    assert axis.get_ylabel() == "Amplitude [K]"
    told = loop.report(tmp_path / "told.html", time_unit="h", units={"T": "K"})
    page = told.read_text()
    assert "The run takes 6 h." in page
    assert "<td>T [K]</td>" in page
    assert "The run takes 6 s." in loop.report(tmp_path / "plain.html").read_text()
    with pytest.raises(ValueError, match="units"):
        loop.report(tmp_path / "wrong.html", units={"wall": "K"})
