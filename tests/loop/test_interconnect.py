"""The parts fit python-control's own: gate, estimator and state feedback connected by name give the loop's trial."""

import cases
import control as ct
import numpy as np
import pytest

import privcontrol as pc


def connected(plant, loop, K, QN, RN, P0):
    """Plant, gate, ``ct.create_estimator_iosystem`` and ``ct.create_statefbk_iosystem``, connected by signal names."""
    gate = pc.create_channel_iosystem(loop.noise)
    estimator = ct.create_estimator_iosystem(
        plant, QN, RN, P0=P0, measurement_labels=gate.output_labels
    )
    feedback, _ = ct.create_statefbk_iosystem(plant, K, estimator=estimator)
    drives = [label for label in gate.input_labels if label.startswith("eta")]
    goals = [
        label for label in feedback.input_labels if label not in estimator.output_labels
    ]
    return ct.interconnect(
        [plant, gate, estimator, feedback],
        inputs=[*goals, *drives],
        outputs=[*gate.output_labels, *plant.input_labels],
    )


@pytest.mark.parametrize("family", ["gaussian", "iid-gaussian"])
@pytest.mark.parametrize(
    "plant",
    [pc.plants.vehicle(), cases.random_plant(1, states=3)],
    ids=["vehicle", "mimo"],
)
def test_estimator_and_state_feedback_of_python_control_give_the_same_trajectory(
    plant, family
):
    n, m = plant.nstates, plant.ninputs
    adjacency = pc.StateAdjacency(1.0, times=range(3))
    noise = pc.design_output_noise(
        plant, horizon=40, budget=cases.BUDGET, adjacency=adjacency, family=family
    )
    QN, RN = (
        0.3 * np.eye(m),
        0.2 * np.eye(plant.noutputs),
    )  # disturbances at the inputs, as python-control has them
    known = RN if noise.process.scale is None else RN + np.diag(noise.process.scale**2)
    loop = pc.private_lqg(plant, 2, 1, QN, RN, noise, G=plant.B)
    rng = np.random.default_rng(0)
    goal, push, start = (
        rng.normal(size=(n, 40)),
        rng.normal(size=(m, 40)),
        rng.normal(size=n),
    )
    trial = loop.simulate(
        reference=goal, feedforward=push, initial_state=start, trials=2, rng=1
    )
    _, P0, _ = ct.dlqe(plant, QN, known)
    system = connected(plant, loop, loop.K, QN, known, P0)
    assert system.input_labels == loop.system.input_labels
    initial = np.zeros(system.nstates)
    initial[:n] = start
    covariance = [k for k, label in enumerate(system.state_labels) if "P[" in label]
    initial[covariance] = P0.ravel()
    response = ct.input_output_response(
        system, trial.time, np.asarray(trial.inputs)[:, 1], initial
    )
    size = np.abs(trial.outputs).max()
    np.testing.assert_allclose(
        response.outputs, np.asarray(trial.outputs)[:, 1], atol=1e-10 * size, rtol=0
    )


def test_gate_and_noise_blocks_connect_by_name_and_publish_only_the_private_output():
    vehicle, loop = (
        pc.plants.vehicle(),
        pc.private_lqg(pc.plants.vehicle(), 20, 1, 2, 1, cases.vehicle_noise()),
    )
    gate = pc.create_channel_iosystem(loop.noise)
    private = ct.interconnect(
        [vehicle, gate], inputs=["u", "eta[0]"], outputs=["yhat[0]"]
    )
    draw = np.zeros((2, 100))
    draw[1, 0] = 0.7
    published = ct.forced_response(private, loop.noise.timepts, draw).outputs[0]
    gamma = loop.noise.process.responses[:, 0, 0] * 0.7
    np.testing.assert_allclose(published, gamma, atol=1e-12)
    analysed = ct.forced_response(
        pc.create_noise_iosystem(loop.noise), loop.noise.timepts, draw[1:]
    ).outputs
    np.testing.assert_allclose(analysed, gamma, atol=1e-12)


def test_the_loops_systems_take_pythoncontrols_tools():
    loop = pc.private_lqg(
        pc.plants.vehicle(), 20, 1, 2, 1, cases.vehicle_noise(), form="filter"
    )
    assert type(loop.system) is ct.StateSpace
    assert loop.system.dt == 0.1
    assert np.abs(loop.closed_loop.poles()).max() < 1
    assert np.abs(loop.system.poles()).max() == pytest.approx(
        1
    )  # it carries the noise model's poles
    gain = loop.closed_loop["u", "gamma[0]"]
    assert np.isfinite(ct.system_norm(gain, 2))
    assert abs(gain(1)) == pytest.approx(abs(loop.closed_loop.dcgain()[1, 3]))
    assert ct.bode_plot(gain).axes.size == 2


@pytest.mark.parametrize("make", [pc.create_noise_iosystem, pc.create_channel_iosystem])
@pytest.mark.parametrize("which", ["inputs", "outputs", "states"])
def test_names_of_another_number_are_counted_in_the_error(make, which):
    """They ended in dimensions of a B matrix."""
    with pytest.raises(ValueError, match=f"{which}: expected .* names.*got 7"):
        make(cases.vehicle_noise(), **{which: list("abcdefg")})
