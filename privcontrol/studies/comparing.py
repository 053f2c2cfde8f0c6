"""Compute the cost of a loop against epsilon, each design of noise for each budget.

Structured and independent noise are comparable over the same horizon and for the same
gains only. Of two given gains every design takes the better.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import product

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.adjacency import Adjacency
from ..designs.request import Request, joined
from ..loop.assembly import private_lqg
from ..loop.data import LoopData
from ..loop.loop import PrivateLoop
from ..loop.lqg import constant_filter
from ..loop.moments import Expected, InSteadyState, OverRun
from ..numerics.arguments import helpful_arguments
from ..numerics.checks import one_of, positive_number, real_array
from ..numerics.progress import progress_bar
from ..privacy.budget import PrivacyBudget
from ..privacy.horizon import Horizon, horizon_of
from ..response import checked_executor
from ..secrets.modes import warn_of_costly_modes
from ..systems.linear import semidefinite
from .candidates import Result, evaluated, let_fall, unmeasured
from .tradeoffs import DESIGNS, Tradeoff

#: The designs of loops that never stop.
ENDLESS_DESIGNS = ("trace", "loop", "iid", "codesign")


@partial(
    helpful_arguments,
    advice="it takes the plant and the weights of private_lqg, and no loop",
)
def tradeoff(
    sys: ct.StateSpace,
    Q: ArrayLike,
    R: ArrayLike,
    QN: ArrayLike,
    RN: ArrayLike,
    *,
    horizon: float,
    adjacency: Adjacency | Sequence[Adjacency],
    epsilons: ArrayLike,
    delta: float,
    designs: Sequence[str] = ("trace", "loop", "iid"),
    controls: Sequence[str | int] | None = None,
    G: ArrayLike | None = None,
    N: ArrayLike | None = None,
    form: str | None = None,
    P0: ArrayLike | None = None,
    estimator: str | None = None,
    reference: ArrayLike | None = None,
    initial_state: ArrayLike | None = None,
    executor: Executor | None = None,
    progress: bool = False,
) -> Tradeoff:
    """Compute the exact cost of a private LQG loop against epsilon, by design of noise.

    The cost counts reference, initial state, disturbances of QN and RN, and privacy
    noise. Every design is computed for the Kalman gain of ``ct.dlqe``, for the gain
    re-tuned to the independent noise of the same budget, for the gains of stricter
    budgets, and without measurements (L = 0) unless the plant is strictly unstable; the
    best one is kept. So, without a reference, no design costs more than the open loop
    unless the plant is strictly unstable, and no cost rises with epsilon.

    Parameters
    ----------
    sys, Q, R, QN, RN, controls, G, N, form
        The loop, as in `private_lqg`.
    horizon : int or inf
        Number of samples T, the same for all designs. With ``np.inf`` the costs are per
        sample in steady state: of the designs there are "trace", "loop", "iid" and
        "codesign", each with the observer that knows its noise, and reference, initial
        state and ``P0`` do not count.
    adjacency : Adjacency or list of them
        The secret, as in `design_output_noise`.
    epsilons : array_like, shape (E,)
        Privacy losses in nats.
    delta : float
        In (0, 1).
    designs : sequence of str, optional
        ``"trace"``: structured noise of least variance; ``"loop"``: structured noise
        that costs this loop least with the filter of the public loop; ``"iid"``:
        independent noise; ``"codesign"``: noise and filter chosen together, which over a
        horizon needs ``P0``, see `private_lqg`; ``"laplace"``: structured Laplace noise for this loop, which
        promises epsilon at delta = 0, not for a disturbance; ``"ball"``, ``"truncated"``:
        structured radial noise of this law, of least variance, with the same epsilon and
        delta; ``"auto"``: structured noise of the law of least variance, Gaussian noise
        among them.
    P0 : array_like, shape (n, n), optional
        Covariance of the initial state; the steady-state covariance of the Kalman
        filter by default. If it is given, it is public, and every design has the filter
        that knows it and the gains of least cost over the horizon, see `private_lqg`
        with ``terminal=0``.
    estimator : {"kalman", "observer"}, optional
        "observer" keeps the gains of the papers with ``P0``.
    reference, initial_state : array_like, optional
        Public reference and mean of the initial state, as in `PrivateLoop.simulate`;
        zero by default.
    executor : concurrent.futures.Executor, optional
        Where designs are computed; the numbers do not depend on it.
    progress : bool, optional
        Show a tqdm bar with the time that is left.

    Returns
    -------
    Tradeoff

    Raises
    ------
    ValueError, TypeError
        If a design is unknown, an epsilon or delta is out of range, or "codesign" over
        a horizon has no P0. Errors as for `private_lqg` and `design_output_noise`.

    See Also
    --------
    horizon_growth, options, studies.Tradeoff

    Examples
    --------
    >>> import privcontrol as pc
    >>> result = pc.tradeoff(pc.plants.vehicle(), 20, 1, 1, 1e-2, horizon=20,
    ...                      delta=1e-2, epsilons=[0.1, 1.0],
    ...                      adjacency=pc.StateAdjacency({"position": 1.0}))
    >>> result
    Tradeoff(trace, loop, iid; epsilon 0.1 .. 1, delta 0.01, 20 samples)
    >>> bool((result.total("loop") <= result.total("iid")).all())
    True
    """
    if isinstance(sys, list | tuple):
        raise ct.ControlArgument(
            "sys: the loops that are compared begin with the constant gains of one plant, "
            "got a list of plants; for noise of each epsilon call private_lqg(sys, ..., "
            "P0=..., noise=noise).cost(disturbance='design', measurement_noise='design', "
            "initial_state='design')"
        )
    samples = horizon_of(horizon)
    names = _checked_designs(designs, samples)
    secret = joined(adjacency)
    losses = _checked_epsilons(epsilons)
    delta = positive_number(delta, "delta")
    budgets = [PrivacyBudget(epsilon=float(loss), delta=delta) for loss in losses]
    if executor is not None:
        executor = checked_executor(executor)
    knows_prior = P0 is not None and samples.ends and estimator != "observer"
    if "codesign" in names and samples.ends and not knows_prior:
        raise ValueError(
            "designs: over a horizon the co-designed noise depends on the prior of x(0); "
            "pass its public covariance P0"
        )
    public = private_lqg(
        sys,
        Q,
        R,
        QN,
        RN,
        controls=controls,
        G=G,
        N=N,
        form=form,
        estimator=estimator,
        P0=P0 if knows_prior else None,
        initial_state=initial_state if knows_prior else None,
        # the costs count no state after the run
        terminal=0 if knows_prior else "dare",
        horizon=samples.count() if knows_prior else None,
    ).data
    plant = public.side.plant
    if P0 is None:
        P0 = constant_filter(public.side, public.weights, None).covariance
    expected: Expected = InSteadyState()
    if samples.ends:
        prior = semidefinite(P0, "P0", plant.order)
        times = plant.step * np.arange(samples, dtype=float)
        expected = OverRun(prior, times, reference, initial_state)
        kinds = ("contracting", "chain", "unstable")
        warn_of_costly_modes(plant, secret, int(samples), kinds)
    with np.errstate(over="ignore", invalid="ignore"):  # an unstable plant
        open_cost = expected.cost(unmeasured(public, samples))
    requests = [Request(samples, budget, secret) for budget in budgets]
    tasks = [(public, expected, *one) for one in product(names, requests)]
    results = _results(tasks, executor, progress)
    costs = {}
    loops = {}
    for k, name in enumerate(names):
        found = results[k * len(budgets) : (k + 1) * len(budgets)]
        let_fall(found, losses, delta, expected, name)
        costs[name], cheapest = zip(*found, strict=True)
        loops[name] = tuple(map(PrivateLoop, cheapest))
    public_cost = expected.cost(public)
    return Tradeoff(
        losses, delta, samples, costs, public_cost, open_cost, loops, expected
    )


def _checked_designs(designs: object, samples: Horizon) -> list[str]:
    """Return the names of designs that loops of so many samples may have."""
    if isinstance(designs, str):
        designs = (designs,)
    if not isinstance(designs, Sequence) or not designs:
        raise TypeError(
            f"designs: expected names among {', '.join(DESIGNS)}, got "
            f"{type(designs).__name__}"
        )
    known = tuple(DESIGNS) if samples.ends else ENDLESS_DESIGNS
    return [one_of(design, "designs", known) for design in designs]


def _checked_epsilons(epsilons: ArrayLike) -> NDArray[np.float64]:
    """Return one epsilon or more as an array (k,)."""
    losses = np.atleast_1d(real_array(epsilons, "epsilons"))
    if losses.ndim != 1 or not losses.size:
        raise ValueError(
            "epsilons: expected one or more numbers, such as [0.1, 1.0], got shape "
            f"{losses.shape}"
        )
    return losses


def _results(
    tasks: Sequence[tuple[LoopData, Expected, str, Request]],
    executor: Executor | None,
    progress: bool,
) -> list[Result]:
    """Return the cheapest loop of each design and budget, as they come in."""
    spread = map if executor is None else executor.map
    results: list[Result] = []
    faster = "pass fewer epsilons or designs, or progress=True"
    with progress_bar(len(tasks), progress, "design", faster) as bar:
        for result in spread(evaluated, tasks):
            results.append(result)
            bar.update(1)
    return results
