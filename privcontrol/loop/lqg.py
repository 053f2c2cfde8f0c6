"""From weights, a prior and noise to the gains of an LQG loop.

The regulator is that of the LQ recursion. The observer is the Kalman filter that knows
the prior of x(0) and the law of the noise, or that of the papers, with constant gains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..designs.output_noise import OutputNoise
from ..noise.parts import White
from ..numerics.checks import one_of, sample_count
from ..numerics.errors import UncertifiableError, warn_user
from ..numerics.objects import ByContent
from ..numerics.saved import Saved
from ..numerics.thresholds import NEGLIGIBLE
from ..privacy.horizon import NO_HORIZON, Horizon, Run, horizon_of
from ..systems.linear import Plant, semidefinite, singular_root
from ..systems.varying import VaryingPlant
from .controller import FunctionLaw, Gains, Law, ObserverFeedback, OwnLaw
from .dense_filter import DenseKnowledge, is_dense, noise_covariance
from .kalman import Knowledge, Step
from .regulator import Regulation
from .side import LinearSide, Weights

#: Noise drawn once that a filter knows, relative to what is uncertain at the outputs
#: without it, with a prior of x(0) and without one. Costs have five right digits there,
#: and covariances three.
_MOST = 1 / NEGLIGIBLE
_MOST_DIFFUSE = 1e8

#: Forms of an observer, whose estimate at t has not seen the reading at t or has.
FORMS = ("predictor", "filter")


def knowledge_of(
    plant: Plant,
    weights: Weights,
    noise: OutputNoise | None,
    P0: NDArray[np.float64] | None,
) -> Knowledge | DenseKnowledge:
    """Return the prior of a filter that knows the noise, of any kind."""
    if noise is not None and is_dense(noise.process):
        return DenseKnowledge.of(plant, weights, noise_covariance(noise.process), P0)
    if noise is None or noise.horizon.ends:
        _check_sizes(plant, weights, noise, P0)
    return Knowledge.of(plant, weights, noise, P0)


def _check_sizes(
    plant: Plant,
    weights: Weights,
    noise: OutputNoise | None,
    P0: NDArray[np.float64] | None,
) -> None:
    """Refuse sizes so large that rounding hides the information of the readings."""
    p = plant.output_count

    def sizes(columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sizes (p,) at the outputs of n samples of states that are drawn once."""
        count = plant.order
        if isinstance(plant, VaryingPlant):
            count = min(count, plant.samples)
        response = plant.free_response(columns, count)
        return np.linalg.norm(response.reshape(-1, p, columns.shape[1]), axis=(0, 2))

    roots = weights.at(0).drive_roots  # where they vary, those of the first sample
    read = np.linalg.norm(roots["noise"], axis=1)
    fresh = np.hypot(sizes(roots["disturbance"]), read)
    start = np.zeros(p)
    drawn = np.zeros(p)
    if P0 is not None:
        start = sizes(singular_root(P0))
    if noise is not None:
        fresh = np.hypot(fresh, noise.process.total.white)
        if noise.factor is not None:
            drawn = sizes(noise.factor)
    ratio = _times(drawn, np.hypot(start, fresh))
    if ratio > (_MOST_DIFFUSE if P0 is None else _MOST):
        raise UncertifiableError(
            f"noise: it is {ratio:.1e} times the uncertainty of the outputs without it, and "
            "a filter that knows it subtracts numbers of that size; "
            f"double precision allows {_MOST:.0e} times ({_MOST_DIFFUSE:.0e} without P0). "
            "Moves at late times of a mode that decays make it so large: protect fewer "
            'times, StateAdjacency(times=...), or pass estimator="observer"'
        )
    ratio = _times(start, np.hypot(drawn, fresh))
    if ratio > _MOST:
        raise UncertifiableError(
            f"P0: x(0) is {ratio:.1e} times as uncertain at the outputs as the rest, and "
            f"double precision allows {_MOST:.0e} times. Where nothing is known of x(0) "
            'leave P0 out and pass estimator="kalman"; where disturbances and readings '
            "are exact pass QN=0 and RN=0"
        )


def _times(sizes: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """How many times as large as others sizes are, where the others are not zero."""
    beside = others > 0
    return float(np.max(sizes[beside] / others[beside], initial=0.0))


def constant_filter(
    side: LinearSide, weights: Weights, noise: OutputNoise | None
) -> Step:
    """Return the filter of ``ct.dlqe``, which knows independent noise and no other."""
    return Knowledge.of(side.plant, weights, noise, None, kind=White).settled()


def _horizon(horizon: int | None, noise: OutputNoise | None, estimator: str) -> Horizon:
    """The samples of a run of an LQG loop, infinity where they are not known."""
    if horizon is None:
        return NO_HORIZON if noise is None else noise.horizon
    samples = Run(sample_count(horizon, "horizon"))
    if noise is not None and samples != noise.horizon:
        raise ValueError(
            f"horizon: the noise has {noise.horizon:g} samples, got {samples}; leave it "
            "out, or design the noise for another horizon"
        )
    if estimator != "kalman":
        raise ValueError(
            "horizon: the constant gains of estimator='observer' are those of runs of "
            "any length; pass P0, the covariance of x(0), or estimator='kalman', which "
            "without P0 knows nothing of x(0)"
        )
    return samples


@dataclass(frozen=True, eq=False)
class LqgDesign(ByContent, Saved):
    """Hold the request of an LQG loop, so it can be designed for other noise.

    Attributes
    ----------
    estimator : {"kalman", "observer"}
    form : {"filter", "predictor"}
    P0 : ndarray, shape (n, n), or None
        Public covariance of x(0).
    initial_state : ndarray, shape (n,), or None
        Public mean of x(0).
    terminal : ndarray, shape (n + j, n + j), or None
        Weight of the state after the run; None is the solution of the Riccati equation.
    tracked : tuple of int
        The outputs with integral action.
    prices : tuple of float
        Weights of their sums.
    cap : float
        Largest noise of a co-design, relative to the noise of least variance.
    horizon : float
        Samples of a run of a loop without noise, infinity where it is not known.
    """

    estimator: str
    form: str
    P0: NDArray[np.float64] | None = None
    initial_state: NDArray[np.float64] | None = None
    terminal: NDArray[np.float64] | None = None
    tracked: tuple[int, ...] = ()
    prices: tuple[float, ...] = ()
    cap: float = 10.0
    horizon: Horizon = NO_HORIZON

    def __post_init__(self) -> None:
        """Take a file's number of samples as the horizon that it is."""
        object.__setattr__(self, "horizon", horizon_of(self.horizon))

    @classmethod
    def of(
        cls,
        side: LinearSide,
        weights: Weights,
        noise: OutputNoise | None,
        *,
        estimator: str | None,
        form: str | None,
        prior: tuple[NDArray[np.float64] | None, NDArray[np.float64] | None],
        terminal: ArrayLike | str,
        sums: Mapping[int, float],
        horizon: int | None,
    ) -> LqgDesign:
        """Return the request of `private_lqg`, checked.

        ``prior`` is the covariance and the mean of x(0), and ``sums`` has the weights of
        the outputs' sums with integral action.
        """
        varies = side.plant.varies or weights.samples is not None
        if estimator is None:
            estimator = "observer" if prior[0] is None and not varies else "kalman"
        one_of(estimator, "estimator", ("kalman", "observer"))
        if varies and estimator == "observer":
            raise ValueError(
                "estimator: the constant gains of an observer are those of a plant and "
                'weights that stay the same, got a list; pass estimator="kalman", with or '
                "without P0"
            )
        if form is None:
            reads_now = estimator == "kalman" and not side.through.any()
            form = "filter" if reads_now else "predictor"
        one_of(form, "form", FORMS)
        if (estimator, form) == ("kalman", "filter") and side.through.any():
            raise ValueError(
                "form: the plant has direct feedthrough, so an output published at t would "
                "depend on itself if the controller read it; pass "
                'form="predictor"'
            )
        if horizon is None and noise is None:
            horizon = weights.samples
            if isinstance(side.plant, VaryingPlant):
                horizon = side.plant.samples
        samples = _horizon(horizon, noise, estimator)
        last = None
        if isinstance(terminal, str):
            one_of(terminal, "terminal", ("dare",))
        else:
            samples.count(
                "terminal: without a horizon no state is the last one; pass "
                '"dare", or noise with a horizon (horizon=... where there is no noise)'
            )
            last = semidefinite(terminal, "terminal", side.order + len(sums))
        followed = (tuple(sums), tuple(sums.values()))
        alone = NO_HORIZON if noise is not None else samples
        return cls(estimator, form, *prior, last, *followed, horizon=alone)

    def law(
        self,
        side: LinearSide,
        weights: Weights,
        noise: OutputNoise | None,
        samples: Horizon | None = None,
    ) -> Law:
        """Return the controller for a noise, or without it for some samples.

        They are those of the design's horizon if it has one.
        """
        samples = samples or self.horizon
        if noise is not None:
            samples = noise.horizon
        K = self.regulator(side, weights, samples)
        knows_noise = self.is_kalman if samples.ends else noise is not None
        if knows_noise:
            gains = knowledge_of(side.plant, weights, noise, self.P0).gains(samples)
        else:
            step = constant_filter(side, weights, noise)
            gains = Gains.of(side.plant, step.correct, step.advance)
        return ObserverFeedback.of(side, K, gains, self.form, self.tracked)

    def regulator(
        self,
        side: LinearSide,
        weights: Weights,
        samples: Horizon = NO_HORIZON,
    ) -> NDArray[np.float64]:
        """Return K (m, n + j), or (T, m, n + j) for another terminal weight.

        The weight of constant gains is the solution of the Riccati equation.
        """
        task = self.regulation(side, weights)
        varies = self.terminal is not None and self.is_kalman
        varies = varies or bool(task.every)
        if not (varies and samples.ends):
            return task.settled[0]
        return task.gains(samples.count())[0]

    def regulation(self, side: LinearSide, weights: Weights) -> Regulation:
        """Return the regulator's problem."""
        tracked = dict(zip(self.tracked, self.prices, strict=True))
        return Regulation.of(side, weights, self.terminal, tracked)

    @property
    def is_kalman(self) -> bool:
        """Return whether its filter knows the prior and the noise."""
        return self.estimator == "kalman"

    def lacks_start(self, horizon: Horizon) -> bool:
        """Return whether the best noise depends on a prior of x(0) that is not there."""
        return horizon.ends and not (self.is_kalman and self.P0 is not None)


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnDesign(LqgDesign):
    """Hold the public prior of a controller of the user's own, with its own gains."""

    own: OwnLaw

    def law(
        self,
        side: LinearSide,
        weights: Weights,
        noise: OutputNoise | None,
        samples: Horizon | None = None,
    ) -> Law:
        """Return it with the filter that knows the noise, given QN, RN and a prior."""
        is_unknown = weights.QN is None or weights.RN is None
        if self.P0 is not None and is_unknown:
            raise ValueError(
                "P0: the estimate that starts from it needs the covariances of the "
                "plant's disturbances and readings; pass QN and RN"
            )
        if noise is None or is_unknown:
            return self.own
        if self.P0 is None and is_dense(noise.process):
            if isinstance(self.own, FunctionLaw):
                warn_user(
                    "controller: its estimate is None, since with this noise an "
                    "estimate needs the public covariance of x(0); pass P0"
                )
            return self.own
        known = knowledge_of(side.plant, weights, noise, self.P0)
        none = np.zeros((len(side.controls), side.order))
        gains = known.gains(noise.horizon)
        return self.own.knowing(ObserverFeedback.of(side, none, gains, self.form))
