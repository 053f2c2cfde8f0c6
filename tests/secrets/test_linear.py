"""Linear systems of arrays, balls and rationals.

The second route is the transfer function C (z I - A)^-1 B + D at a point, and python-control.
"""

import control as ct
import numpy as np
import pytest

from privcontrol.core._balls import ball_matrix, midpoints, working_bits
from privcontrol.systems.linear import LinearSystem, reached_states

Z = 0.7 + 0.9j


def drawn(seed, states=3, inputs=2, outputs=2):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(states, states))
    A *= 0.8 / np.abs(np.linalg.eigvals(A)).max()
    B, C = rng.normal(size=(states, inputs)), rng.normal(size=(outputs, states))
    return LinearSystem(A, B, C, rng.normal(size=(outputs, inputs)))


def at(system, z=Z):
    resolvent = np.linalg.inv(z * np.eye(system.order) - system.A)
    return system.C @ resolvent @ system.B + system.D


def as_given(system):
    return system


def through_balls(system):
    return system.in_balls()


@pytest.mark.parametrize("kind", [as_given, through_balls])
def test_systems_of_systems_have_the_transfer_functions_they_should_have(kind):
    G, H = kind(drawn(0)), kind(drawn(1, states=2))
    g, h = at(drawn(0)), at(drawn(1, states=2))
    with working_bits():
        found = {
            "after": G.after(H),
            "inverse": G.inverse(),
            "plus": G.plus(H),
            "beside": G.beside(H),
            "scaled": G.scaled(-3),
            "entered": G.entered_by([1]),
        }
    expected = {
        "after": g @ h,
        "inverse": np.linalg.inv(g),
        "plus": np.hstack([g, h]),
        "beside": np.block([[g, np.zeros((2, 2))], [np.zeros((2, 2)), h]]),
        "scaled": -3 * g,
        "entered": g[:, [1]],
    }
    for name, system in found.items():
        if kind is through_balls:
            system = system.in_doubles()
        np.testing.assert_allclose(at(system), expected[name], rtol=1e-11, err_msg=name)


def test_coordinates_change_nothing_between_input_and_output():
    with working_bits():
        basis = ball_matrix(np.random.default_rng(2).normal(size=(3, 3)))
        moved = drawn(0).in_balls().transformed(basis).in_doubles()
    np.testing.assert_allclose(at(moved), at(drawn(0)), rtol=1e-11)


def test_rounded_columns_hold_what_was_rounded():
    system = drawn(0)
    balls = system.in_balls(rounded=[1])
    assert all(balls.B[i, 0].rad() == 0 for i in range(3))
    assert all(
        balls.B[i, 1].contains(np.nextafter(system.B[i, 1], np.inf).item())
        for i in range(3)
    )


def test_responses_over_time_are_those_of_python_control():
    system, T = drawn(3), 9
    other = ct.ss(*system.matrices, 1.0)
    rng = np.random.default_rng(0)
    inputs, start = rng.normal(size=(4, T, 2)), rng.normal(size=(4, 3))
    outputs, last = system.run(start, inputs)
    for k in range(4):
        response = ct.forced_response(other, np.arange(T), inputs[k].T, start[k])
        np.testing.assert_allclose(outputs[k].T, response.outputs, atol=1e-12)
        final = system.A @ response.states[:, -1] + system.B @ inputs[k, -1]
        np.testing.assert_allclose(last[k], final, atol=1e-12)
    side_by_side = system.respond(inputs.transpose(1, 2, 0))
    rested, _ = system.run(np.zeros((4, 3)), inputs)
    np.testing.assert_array_equal(side_by_side.transpose(2, 0, 1), rested)
    impulse = system.impulse_response(T)
    unit = np.zeros((1, T, 2))
    unit[0, 0, 1] = 1.0
    answered, _ = system.run(np.zeros((1, 3)), unit)
    np.testing.assert_allclose(impulse[:, :, 1], answered[0], atol=1e-13)
    free = system.free_response(start.T, T).reshape(T, 2, 4)
    silent, _ = system.run(start, np.zeros((4, T, 2)))
    np.testing.assert_allclose(free.transpose(2, 0, 1), silent, atol=1e-12)


def test_free_responses_of_all_kinds_agree():
    system, states = drawn(4), np.eye(3)
    plain = system.free_response(states, 6)
    with working_bits():
        balls = system.in_balls().free_response(ball_matrix(states), 6)
    exact = system.in_rationals()
    rationals = ball_matrix(exact.free_response(exact.A**0, 6))
    for other in (balls, rationals):
        np.testing.assert_allclose(midpoints(other), plain, rtol=1e-12, atol=1e-14)


def test_a_queue_gives_its_values_to_the_system_behind_it():
    system, shape = drawn(5, inputs=1), np.array([1.0, -2.0, 0.5])
    queued = system.after(LinearSystem.queue(3))
    start = np.append(shape, np.zeros(3))[:, None]
    values = np.zeros((1, 8, 1))
    values[0, :3, 0] = shape
    expected, _ = system.run(np.zeros((1, 3)), values)
    found = queued.free_response(start, 8).reshape(8, 2)
    np.testing.assert_allclose(found, expected[0], atol=1e-13)


def test_energies_are_sums_over_a_long_response():
    system = drawn(6)
    impulse = system.impulse_response(400)
    energies = np.sum(impulse**2, axis=(0, 1))
    np.testing.assert_allclose(system.energies(), energies, rtol=1e-12)
    np.testing.assert_allclose(
        system.variances(), np.sum(impulse**2, axis=(0, 2)), rtol=1e-12
    )


def test_states_are_reached_along_links():
    links = np.eye(4, k=-1, dtype=bool)  # a chain 0 -> 1 -> 2 -> 3
    start = np.array([False, True, False, False])
    assert reached_states(links, start).tolist() == [False, True, True, True]
    assert reached_states(links, start, 1).tolist() == [False, True, True, False]
