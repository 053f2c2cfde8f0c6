"""Gaussian calibration: time and accuracy against dp-accounting, autodp and opendp; the truth is ball arithmetic."""

import warnings

import numpy as np
import pytest
from benchmarks.measure import duration, peer
from flint import arb, ctx

from privcontrol.core import gaussian_std


def _dp_accounting():
    module = peer("dp_accounting.gaussian_mechanism")
    return module and (lambda epsilon, delta: module.get_sigma_gaussian(epsilon, delta))


def _autodp():
    if peer("autodp.rdp_acct") is None:  # must come first
        return None
    calibrate = peer("autodp.calibrator_zoo").ana_gaussian_calibrator()
    mechanism = peer("autodp.mechanism_zoo").ExactGaussianMechanism
    return lambda epsilon, delta: calibrate(
        mechanism, epsilon, delta, name="noise"
    ).params["sigma"]


def _opendp():
    dp = peer("opendp.prelude")
    if dp is None:
        return None
    dp.enable_features("contrib")
    space = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False), 1),
        dp.l2_distance(T=float),
    )

    def noise(delta):
        return lambda scale: dp.c.make_fix_delta(
            dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)), delta
        )

    return lambda epsilon, delta: dp.binary_search_param(
        noise(delta), d_in=1.0, d_out=(epsilon, delta)
    )


PEERS = {
    "dp-accounting get_sigma_gaussian": _dp_accounting,
    "autodp ana_gaussian_calibrator": _autodp,
    "opendp make_gaussian, zCDP to (epsilon, delta)": _opendp,
}


def _installed():
    made = {name: make() for name, make in PEERS.items()}
    return {name: function for name, function in made.items() if function is not None}


@pytest.mark.peers
def test_time(turns, table):
    rng = np.random.default_rng(0)
    epsilon, delta = rng.uniform(0.05, 5, 100_000), 10 ** rng.uniform(-12, -1, 100_000)
    functions = {"privcontrol, one budget": lambda: gaussian_std(1.0, 1e-5)}
    functions["privcontrol, 100,000 budgets"] = lambda: gaussian_std(epsilon, delta)
    functions |= {
        name: (lambda f=function: f(1.0, 1e-5))
        for name, function in _installed().items()
    }
    timed = turns(functions)
    out = table(
        "Calibration: time",
        "A budget of the second row is one of 100,000 in arrays. Goals: 20 us and 10 us. The last column compares with "
        "the first row.",
        *("calibration of one Gaussian budget", "wall", "processor", "ratio"),
    )
    for name in functions:
        number = 100_000 if "100,000" in name else 1
        processor = timed.processor[name] / number
        ratio = processor / timed.processor["privcontrol, one budget"]
        out.add(name, duration(timed.wall[name] / number), duration(processor), ratio)
    for name in set(PEERS) - set(functions):
        out.add(name, "not installed", None, None)


def true_std(epsilon, delta):
    """1 / y with kappa(epsilon, y) = delta to 40 digits: Newton's method in ball arithmetic, until its step is tiny."""
    with ctx.workprec(2400):
        epsilon, delta, root = arb(epsilon), arb(delta), arb(2).sqrt()
        y = 1 / arb(gaussian_std(float(epsilon), float(delta)))
        for _ in range(20):
            u, v = epsilon / y - y / 2, epsilon / y + y / 2
            excess = ((u / root).erfc() - epsilon.exp() * (v / root).erfc()) / 2 - delta
            step = excess * (2 * arb.pi()).sqrt() * (u * u / 2).exp()
            y = (y - step).mid()
            if abs(step) < y * arb(2) ** -130:
                return 1 / y
    raise ArithmeticError("no root found")


def _errors(function, budgets):
    errors, refused = [], 0
    for epsilon, delta in budgets:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                std = float(function(float(epsilon), float(delta)))
        except Exception:  # what a peer raises is a refusal here
            refused += 1
            continue
        with ctx.workprec(200):
            errors.append(float(arb(std) / true_std(float(epsilon), float(delta)) - 1))
    return np.array(errors), refused


@pytest.mark.peers
def test_accuracy(table):
    rng = np.random.default_rng(1)
    daily = np.column_stack([rng.uniform(0.05, 5, 60), 10 ** rng.uniform(-10, -1, 60)])
    extreme = np.column_stack(
        [10 ** rng.uniform(-6, 4, 60), 10 ** rng.uniform(-300, -0.31, 60)]
    )
    out = table(
        "Calibration: accuracy",
        "Relative error of the standard deviation against ball arithmetic on 60 budgets each: daily, epsilon 0.05 to 5 "
        "and delta 1e-10 to 0.1; extreme, epsilon 1e-6 to 1e4 and delta 1e-300 to 0.5. Below the truth is a broken "
        "promise. opendp's Gaussian is discrete and reckoned by zCDP, which is wider by design.",
        *("", "budgets", "below the truth", "most below", "most above", "refused"),
    )
    for name, function in {
        "privcontrol gaussian_std": gaussian_std,
        **_installed(),
    }.items():
        for kind, budgets in (("daily", daily), ("extreme", extreme)):
            errors, refused = _errors(function, budgets)
            least, most = (
                (min(errors.min(), 0.0), max(errors.max(), 0.0))
                if len(errors)
                else (None, None)
            )
            out.add(
                name,
                kind,
                f"{(errors < 0).mean():.0%}" if len(errors) else None,
                least,
                most,
                refused,
            )
            if function is gaussian_std:
                assert not refused
                assert (errors >= 0).all()
                assert errors.max() < 4e-15
