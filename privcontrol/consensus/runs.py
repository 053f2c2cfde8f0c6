"""Run trials of private consensus in blocks, and estimate its mean-square error.

Everything is centred. d(t) = y(t) - mean(x(0)) obeys d(t+1) = (I - L) d(t), because
constants are kept by the iteration, and the states follow from the messages as
x = y - gamma. A step of a large network is computed by parts of its rows, which stay in
the cache.

With y(t) = (I - L)^t (x(0) + gamma) and x(t) = y(t) - gamma both readouts are sums over
the modes of I - L. Where these cannot be computed, random probes estimate the trace
that the noise contributes.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from ..numerics.checks import (
    Seed,
    generator,
    instance_of,
    one_of,
    positive_integer,
    positive_number,
)
from ..numerics.errors import warn_user
from ..numerics.thresholds import BLOCK, MOST_STEPS
from ..privacy.guarantee import PrivacyGuarantee
from ..response import PrivateResponse, run_trials
from .message_noise import READOUTS, AgentNoise

#: Mean-square error of states over that of messages, above which readers are warned.
_FAR_BETTER = 10.0
_READ_MESSAGES = (
    "states: each stays off by its agent's own and shared noise, so the states never "
    "agree, and are more than three times as far from the average as the messages. "
    "Read the messages (response.outputs, readout='message'), which agree and are "
    "public"
)

#: Speed: numbers in a part of its rows. Smaller ones stay closer, but each reads all
#: messages.
_PART_NUMBERS = 1 << 19
#: Speed: parts at most, for the same reason.
_PARTS = 12

#: Share of the error probability that goes to a bound of the rate, and its products.
_RATE_SHARE = 0.1
_RATE_PRODUCTS = 60


def trial_block(numbers: int) -> int:
    """Trials in a block, between 10 and 250, by the numbers of a trial at a step."""
    fitting = [size for size in (250, 100, 50, 20) if size * numbers <= BLOCK]
    return max(fitting, default=10)


def row_parts(
    iteration: sparse.csr_array, block: int
) -> list[tuple[slice, sparse.csc_array]]:
    """Slices of the rows, and the matrices of these rows.

    By columns a product reads the messages in their order, which is twice as fast as by
    rows for a million nodes.
    """
    n = iteration.shape[0]
    count = min(_PARTS, math.ceil(n * block / _PART_NUMBERS))
    ends = np.linspace(0, n, count + 1).astype(int).tolist()
    parts = [slice(first, last) for first, last in pairwise(ends)]
    return [(rows, iteration[rows].tocsc()) for rows in parts]


@dataclass(frozen=True, repr=False)
class Propagation:
    """A block of trials of y(t+1) = (I - L) y(t), as a task for ``run_trials``.

    Entries of vectors are columns next to those of the other trials.
    """

    parts: list[tuple[slice, sparse.csc_array]]  # of I - L, from `row_parts`
    noise: AgentNoise  # of the first messages y(0) = x(0) + gamma
    deviation: NDArray[np.float64]  # x(0) - mean(x(0)), shape (n, d)
    average: NDArray[np.float64]  # mean(x(0)), shape (d,)
    steps: int
    #: Return the signals at every step, not the last messages.
    keep_states: bool = False
    #: Leave out the noise's average, whose error is known exactly.
    errors_only: bool = False

    def __call__(
        self, generator: np.random.Generator, block: int, keep: int
    ) -> dict[str, NDArray[np.float64] | None]:
        n, entries = self.deviation.shape
        kept = keep if self.keep_states else 0
        noise, eta = self.noise.draw(generator, block * entries, keep=kept > 0)
        if self.errors_only:
            noise -= noise.mean(axis=0)
        d = np.tile(self.deviation, block) + noise
        following = np.empty_like(noise)
        times = self.steps + 1
        errors = {readout: np.zeros((block, times)) for readout in READOUTS}
        signals: dict[str, Any] = {"messages": None, "states": None}
        if kept:  # memory of the trials beyond is never touched
            for name in signals:
                signals[name] = np.empty((block, n, entries, times))
        for t in range(times):
            for rows, weights in self.parts:
                if t == 0:
                    state = d[rows].copy()
                else:
                    state = weights @ d
                message = following[rows]
                message[:] = state
                state -= noise[rows]
                for readout, values in (("message", message), ("state", state)):
                    squares = np.einsum("ij,ij->j", values, values)
                    errors[readout][:, t] += squares.reshape(block, -1).sum(axis=1)
                    if kept:
                        where = signals[f"{readout}s"][:kept, rows, :, t]
                        np.add(self._by_trial(values)[:kept], self.average, out=where)
            d, following = following, d
        if not (kept or self.errors_only):
            spare = following.reshape(block, n, entries)
            signals["messages"] = np.add(self._by_trial(d), self.average, out=spare)
        for name, array in signals.items():
            if array is not None:
                signals[name] = array.reshape(block, n * entries, -1)
        if eta is not None:
            eta = self._by_trial(eta.T).reshape(block, -1)
        return {**signals, "eta": eta, **errors}

    def _by_trial(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Columns (k, block d) of trials and their entries as (block, k, d)."""
        split = columns.reshape(len(columns), -1, len(self.average))
        return split.transpose(1, 0, 2)


class ConsensusResponse(PrivateResponse):
    """Hold trials of private consensus; see `PrivateConsensus.simulate`.

    Outputs are the messages, states the private x_i(t). Use the messages, which agree.
    With noise that cancels the states stay apart by as much as it, however accurate the
    average. Who reads such states gets a `PrivacyWarning` once, and plots leave states
    out unless they are asked for by name. With
    ``keep_states=False`` it holds the messages of the last step only and no states. The
    squared errors cover all steps either way.

    Parameters
    ----------
    squared_errors : dict of ndarray, (trials, steps + 1)
        By readout.
    **signals
        As for `PrivateResponse`.

    Attributes
    ----------
    steps : ndarray, shape (steps + 1,)
        The step numbers 0, 1, ... of the squared errors.

    See Also
    --------
    PrivateConsensus.simulate, response.PrivateResponse, consensus.plot_error

    Examples
    --------
    >>> from privcontrol.consensus import private_consensus
    >>> from privcontrol.core import PrivacyBudget
    >>> budget = PrivacyBudget(epsilon=1)
    >>> pair = private_consensus([[0, 0.25], [0.25, 0]], budget, 1.0, family="laplace")
    >>> response = pair.simulate([0.0, 2.0], 3, trials=1000, rng=0, keep_states=False)
    >>> response.squared_error("state").shape, response.outputs.shape
    ((1000, 4), (2, 1000, 1))
    """

    _plots_states = False
    _numbered = "node"

    def __init__(
        self, squared_errors: dict[str, NDArray[np.float64]], **signals: Any
    ) -> None:
        instance_of(squared_errors, dict, "squared_errors", "PrivateConsensus.simulate")
        one_of("message", "squared_errors", tuple(squared_errors))
        for array in squared_errors.values():
            instance_of(
                array, np.ndarray, "squared_errors", "PrivateConsensus.simulate"
            )
        self._squared_errors = squared_errors
        for array in squared_errors.values():
            array.flags.writeable = False
        self.steps = np.arange(squared_errors["message"].shape[1])
        self._are_apart = False  # whether the states never come near the average
        super().__init__(**signals)

    def _kept_states(self) -> NDArray[np.float64]:
        """The states, with a warning where the messages are far better at the end."""
        states = super()._kept_states()
        message, state = (self.squared_error(of)[:, -1].mean() for of in READOUTS)
        if self._are_apart and message < state:
            self._are_apart = False  # said once
            warn_user(_READ_MESSAGES)
        return states

    def squared_error(self, readout: str = "message") -> NDArray[np.float64]:
        """Return sum_i (readout_i(t) - mean(x(0)))^2 of every trial.

        Parameters
        ----------
        readout : {"message", "state"}, optional

        Returns
        -------
        ndarray, shape (trials, steps + 1)
        """
        return self._squared_errors[one_of(readout, "readout", READOUTS)]

    def mean_square_error(
        self, readout: str = "message"
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean of `squared_error` over the trials, and its standard error.

        The standard error of one trial is NaN.

        Parameters
        ----------
        readout : {"message", "state"}, optional
            Estimate of the mean that an agent uses: its message or its state.

        Returns
        -------
        mean : ndarray, shape (steps + 1,)
            In the squared unit of the values.
        standard_error : ndarray, shape (steps + 1,)
            In the squared unit of the values.

        Examples
        --------
        >>> import privcontrol as pc
        >>> graph = pc.plants.ten_agent_graph()
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> agents = pc.private_consensus(graph, budget, 1.0)
        >>> run = agents.simulate(pc.plants.ten_agent_values(), 4, trials=2, rng=0)
        >>> mean, error = run.mean_square_error()
        >>> mean.shape, error.shape
        ((5,), (5,))
        """
        error = self.squared_error(readout)
        trials = len(error)
        mean = error.mean(axis=0)
        if trials == 1:
            return mean, np.full(len(mean), np.nan)
        spread = error.std(axis=0, ddof=1)
        return mean, spread / math.sqrt(trials)


def propagate(
    noise: AgentNoise,
    deviation: NDArray[np.float64],
    average: NDArray[np.float64],
    steps: int,
    trials: int,
    *,
    rng: Seed,
    executor: Executor | None = None,
    progress: bool = False,
    **options: bool,
) -> dict[str, NDArray[np.float64]]:
    """Arrays of all trials."""
    block = trial_block(deviation.size)
    parts = row_parts(noise.network.iteration, block * len(average))
    draws = noise.without_weights()
    task = Propagation(parts, draws, deviation, average, steps, **options)
    return run_trials(
        task, trials, rng=rng, executor=executor, progress=progress, block=block
    )


def consensus_response(
    blocks: dict[str, NDArray[np.float64]],
    noise: AgentNoise,
    guarantee: PrivacyGuarantee,
    dimension: int,
) -> ConsensusResponse:
    """The response of the arrays that `propagate` returns, without a copy."""
    labels = entry_labels(noise.network.labels, dimension)
    errors = {readout: blocks[readout] for readout in READOUTS}
    time = np.arange(errors["message"].shape[1], dtype=float)
    kept: dict[str, Any] = {}
    if blocks["states"] is None:
        time = time[-1:]
    else:
        kept["states"] = blocks["states"].transpose(1, 0, 2)
        kept["inputs"] = blocks["eta"].T[:, :, None]
        kept["state_labels"] = labels
        kept["input_labels"] = entry_labels(noise.labels, dimension)
    response = ConsensusResponse(
        errors,
        time=time,
        outputs=blocks["messages"].transpose(1, 0, 2),
        output_labels=labels,
        guarantee=guarantee,
        sysname="consensus",
        time_label="Step",
        **kept,
    )
    all_noise = noise.variance.sum()
    average = noise.own_variance.mean()
    response._are_apart = bool(all_noise - average > _FAR_BETTER * average)
    return response


def entry_labels(labels: list[str], dimension: int) -> list[str]:
    """Names ``label[k]`` of the entries of vectors, the labels for numbers."""
    if dimension == 1:
        return labels
    return [f"{label}[{k}]" for label in labels for k in range(dimension)]


# -- mean-square errors ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MeanSquareErrorEstimate:
    """Hold a mean-square error that was estimated by random probes.

    Its interval is proven for every number of probes.

    Attributes
    ----------
    value, lower, upper : ndarray, shape (steps + 1,)
        At each step separately, the interval holds the exact value with probability at
        least `confidence`.
    confidence : float
    probes : int

    See Also
    --------
    PrivateConsensus.estimate_mean_square_error

    Examples
    --------
    >>> import numpy as np
    >>> ends = np.array([1.0, 2.0])
    >>> MeanSquareErrorEstimate(1.1 * ends, ends, 1.2 * ends, 0.99, 50).probes
    50
    """

    value: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    confidence: float
    probes: int


def step_count(steps: int) -> int:
    """A number of averaging steps of at least one."""
    if positive_integer(steps, "steps") > MOST_STEPS:
        raise ValueError(f"steps: expected at most {MOST_STEPS}, got {steps}")
    return int(steps)


def deviation_from_mean(
    x: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """x - mean(x) over the nodes, (n, d), and mean(x), (d,), correctly rounded."""
    columns = x.reshape(len(x), -1)
    average = np.array([math.fsum(column) / len(x) for column in columns.T])
    return columns - average, average


def estimated_error(
    noise: AgentNoise,
    deviation: NDArray[np.float64],
    steps: int,
    readout: str,
    *,
    probes: int,
    confidence: float,
    rng: Seed,
) -> MeanSquareErrorEstimate:
    """`PrivateConsensus.mean_square_error` for networks of any size, with a random trace for the noise.

    A probe contributes ||(I - L)^t g||^2, with g drawn like Gaussian noise, and the
    mean over probes estimates the trace (Girard 1989; Hutchinson 1990). The consensus
    mode, which would dominate its variance, is split off and added exactly.
    """
    one_of(readout, "readout", READOUTS)
    probes = positive_integer(probes, "probes")
    if not positive_number(confidence, "confidence") < 1:
        raise ValueError(
            f"confidence: expected a probability in (0, 1), got {confidence}"
        )
    draws = generator(rng)
    iteration = noise.network.iteration
    probed = propagate(
        noise.as_gaussian(),
        np.zeros((len(deviation), 1)),
        np.zeros(1),
        steps,
        probes,
        rng=draws,
        errors_only=True,
    )
    mean = probed[readout].mean(axis=0)
    failure = 1 - confidence
    times = np.arange(steps + 1)
    if readout == "message":
        rate = _rate_bound(iteration, _RATE_SHARE * failure, draws)
        gains = np.maximum(rate ** (2 * times), 1e-300)  # below round-off
    else:  # no eigenvalue lies below -overshoot, by Gershgorin's circles
        overshoot = np.clip(1 - 2 * iteration.diagonal().min(), 0.0, 1.0)
        gains = (1 + overshoot**times) ** 2
    largest = noise.spread * gains
    log_odds = math.log(2 / (1 - _RATE_SHARE) / failure)
    lower, upper = trace_interval(mean, largest, probes, log_odds)
    exact = np.empty(steps + 1)
    for t in range(steps + 1):
        exact[t] = np.sum(deviation**2)
        deviation = iteration @ deviation
    entries = deviation.shape[1]  # with noise of the same law
    if readout == "message":
        exact += entries * noise.limit_error("message")
    value, low, high = (exact + entries * trace for trace in (mean, lower, upper))
    return MeanSquareErrorEstimate(value, low, high, confidence, probes)


def _rate_bound(
    iteration: sparse.csr_array, failure: float, rng: np.random.Generator
) -> float:
    """A number that exceeds the rate alpha with probability 1 - failure.

    Of m Gaussian vectors the slowest mode keeps alpha^2q chi2_m of the energy after q
    products, and all of them together keep no less.
    """
    n = iteration.shape[0]
    block = trial_block(n)
    vectors = rng.standard_normal((n, block))
    vectors -= vectors.mean(axis=0)
    for _ in range(_RATE_PRODUCTS):
        vectors = iteration @ vectors
    energy = float(np.sum(vectors**2))
    rate = (energy / chi2.ppf(failure, block)) ** (0.5 / _RATE_PRODUCTS)
    return min(1.0, max(0.1, rate))


def trace_interval(
    mean: NDArray[np.float64], largest: ArrayLike, probes: int, log_odds: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of an interval of the trace behind a mean over so many probes.

    A mean over m probes exceeds the trace T, with eigenvalues of at most a, by 2 F
    sqrt(x / m) + 2 min(a, T) x / m, or falls below it by 2 F sqrt(x / m), each with a
    probability of at most exp(-x); F^2 <= T min(a, T) is the sum of the squared
    eigenvalues (Laurent, Massart 2000, lemma 1).
    """
    step = math.sqrt(log_odds / probes)
    spread = step * np.sqrt(largest)
    root = np.sqrt(np.maximum(mean - spread**2, 0.0))
    lower = np.maximum(root - spread, 0.0) ** 2
    lower = np.maximum(lower, mean / (1 + 2 * step + 2 * step**2))
    upper = (spread + np.sqrt(spread**2 + mean)) ** 2
    if step < 0.5:
        upper = np.minimum(upper, mean / (1 - 2 * step))
    return lower, upper
