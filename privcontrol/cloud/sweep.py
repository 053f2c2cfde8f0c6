"""What privacy costs: the exact cost of an LQG loop against epsilon, for several noise designs over one horizon.

Structured and independent noise are comparable over the same horizon only: the noise of either grows with it.
"""

from dataclasses import dataclass, replace

import control as ct
import matplotlib.pyplot as plt
import numpy as np

from .._trials import _checked_executor
from ..channel.design import NoiseRequest
from ..core._linalg import one_of
from ..core.budget import PrivacyBudget
from ..trajectory.modes import warn_of_costly_modes
from ..trajectory.plant import Plant
from .lqg import private_lqg

DESIGNS = {
    "trace": "structured, least variance",
    "loop": "structured, least loop cost",
    "iid": "independent, Kalman gain re-tuned",
    "codesign": "structured, gains and noise co-designed",
}


@dataclass(frozen=True)
class Tradeoff:
    """Exact costs of a loop against epsilon.

    Attributes
    ----------
    epsilons : ndarray, shape (E,)
    delta : float
    horizon : int
        Samples T over which cost and guarantee are counted, the same for all designs.
    costs : dict of str to tuple of LoopCost
        By design, one for each epsilon.
    public : LoopCost
        Of the loop without privacy noise, with the gains of ``ct.dlqr`` and ``ct.dlqe``.
    """

    epsilons: np.ndarray
    delta: float
    horizon: int
    costs: dict
    public: object

    def total(self, design):
        """Total costs (E,) of a design.

        Raises
        ------
        ValueError
            If the design was not asked for.
        """
        return np.array([cost.total for cost in self.costs[one_of(design, "design", tuple(self.costs))]])

    def plot(self, ax=None):
        """Plot the total cost against epsilon, both axes logarithmic.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        control.ControlPlot
        """
        if ax is None:
            ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
        lines = []
        for design, marker in zip(self.costs, "os^d"):
            lines += ax.loglog(self.epsilons, self.total(design), marker + "-", ms=4, label=DESIGNS[design])
        if self.public.total > 0:
            lines.append(ax.axhline(self.public.total, color="black", ls=":", label="no privacy"))
        ax.set(
            xlabel=f"privacy loss \N{GREEK SMALL LETTER EPSILON} "
            f"(\N{GREEK SMALL LETTER DELTA} = {self.delta:g}, {self.horizon} samples)",
            ylabel="expected LQ cost over the horizon",
        )
        ax.grid(alpha=0.3, which="major")
        legend = ax.legend(fontsize="small")
        return ct.ControlPlot(np.array([[lines]], dtype=object), np.array([[ax]]), ax.figure, legend=legend)

    def to_pandas(self):
        """One row per design and epsilon: ``total``, ``regulation``, ``disturbance`` and ``privacy``.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        rows = [
            {"design": design, "epsilon": epsilon, "total": cost.total} | vars(cost)
            for design, costs in self.costs.items()
            for epsilon, cost in zip(self.epsilons, costs)
        ]
        return pd.DataFrame(rows)

    def __repr__(self):
        span = f"epsilon {self.epsilons.min():g} .. {self.epsilons.max():g}"
        return f"Tradeoff({', '.join(self.costs)}; {span}, delta {self.delta:g}, {self.horizon} samples)"


def tradeoff(
    sys,
    Q,
    R,
    QN,
    RN,
    *,
    horizon,
    adjacency,
    epsilons,
    delta,
    designs=("trace", "loop", "iid"),
    G=None,
    N=None,
    form="predictor",
    reference=None,
    initial_state=None,
    executor=None,
    progress=False,
):
    """The exact expected cost of a private LQG loop against epsilon, for several designs of its noise.

    Parameters
    ----------
    sys, Q, R, QN, RN, G, N, form
        The loop, as in `private_lqg`. Disturbances of QN and RN are part of the cost.
    horizon : int
        Number of samples T, the same for all designs.
    adjacency : Adjacency
        What must be hidden.
    epsilons : array_like, shape (E,)
        Privacy losses in nats.
    delta : float
        In (0, 1).
    designs : sequence of str, optional
        ``"trace"``: structured noise of least variance; ``"loop"``: structured noise that costs this loop least; both
        with the gains of ``ct.dlqr`` and ``ct.dlqe``. ``"iid"``: independent noise and the Kalman gain that knows it.
        ``"codesign"``: gains and noise chosen for each other, see `private_lqg`.
    reference, initial_state : array_like, optional
        As in `PrivateLoop.simulate`, where regulation is to be part of the cost; zero by default.
    executor : concurrent.futures.Executor, optional
        Where designs are computed; the numbers do not depend on it.
    progress : bool, optional
        Show a tqdm bar.

    Returns
    -------
    Tradeoff

    Raises
    ------
    ValueError
        If a design is unknown, or an epsilon or delta is out of range.

    Examples
    --------
    >>> import privcontrol as pc
    >>> result = pc.tradeoff(pc.plants.vehicle(), 20, 1, 1e-3, 1e-2, horizon=20, delta=1e-2, epsilons=[0.1, 1.0],
    ...                      adjacency=pc.StateAdjacency({"position": 1.0}))
    >>> result
    Tradeoff(trace, loop, iid; epsilon 0.1 .. 1, delta 0.01, 20 samples)
    >>> bool((result.total("loop") <= result.total("iid")).all())
    True
    """
    plant, designs = Plant.of(sys), tuple(designs)
    for design in designs:
        one_of(design, "designs", tuple(DESIGNS))
    epsilons = np.atleast_1d(np.asarray(epsilons, float))
    request = NoiseRequest(horizon, PrivacyBudget(epsilon=1.0, delta=delta), adjacency)
    weights = {"Q": Q, "R": R, "QN": QN, "RN": RN, "G": G, "N": N, "form": form}
    signals = {"reference": reference, "initial_state": initial_state, "timepts": plant.step * np.arange(horizon)}
    tasks = [
        (plant, weights, signals, design, replace(request, budget=PrivacyBudget(epsilon=float(epsilon), delta=delta)))
        for design in designs
        for epsilon in epsilons
    ]
    warn_of_costly_modes(plant, adjacency, horizon, ("contracting", "chain", "unstable"))
    public = _cost(private_lqg(plant, **weights), signals)
    found = map(_evaluated, tasks) if executor is None else _checked_executor(executor).map(_evaluated, tasks)
    found = list(_with_bar(found, len(tasks)) if progress else found)
    costs = {design: tuple(found[i * len(epsilons) : (i + 1) * len(epsilons)]) for i, design in enumerate(designs)}
    return Tradeoff(epsilons, float(delta), int(horizon), costs, public)


def _evaluated(task):
    """The cost of one design for one budget; runs in workers."""
    plant, weights, signals, design, request = task
    public = private_lqg(plant, **weights)
    if design == "trace":
        return _cost(replace(public, noise=request.design(plant)), signals)
    if design == "iid":
        return _cost(private_lqg(plant, **weights, noise=request.design(plant, family="iid-gaussian")), signals)
    shaped = request.design(plant, weight=public)
    if design == "loop":
        return _cost(replace(public, noise=shaped), signals)
    return _cost(private_lqg(plant, **weights, noise=shaped, codesign=True), signals)


def _cost(loop, signals):
    return loop.cost(**signals, disturbance="design", measurement_noise="design")


def _with_bar(results, total):
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True draws a tqdm bar: pip install tqdm, or leave progress=False") from error
    return tqdm(results, total=total, unit="design")
