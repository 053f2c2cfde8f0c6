"""Noise on the input or on the output of a model.

These are the mechanisms Gauss-Input, Gauss-Output and Lap-Output of the paper "Inference
Privacy" (IP), and Lap-Input. The model is any callable on arrays. What is hidden is a move
of one input by at most a public radius. A radius, a Lipschitz constant or a noise size that
depends on the input would publish it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.balls import Rational
from ..numerics.checks import Seed, checked_norm, positive_integer, positive_number
from ..numerics.errors import answer
from ..numerics.linalg import float_above, round_up
from ..privacy.budget import PrivacyBudget, checked_budget
from ..privacy.guarantee import PrivacyGuarantee
from ..privacy.hidden import rounded_down
from ..privacy.release import Step
from .adjacency import Adjacency, BallAdjacency, checked_adjacency, checked_manifold
from .lipschitz import LipschitzBound
from .manifold import AffineManifold
from .model_input import InBall, ModelInput, OnManifold, check_callable, model_input
from .row_noise import RowLaw, RowNoise, row_law, size_for

#: What a metric adds to the assumptions.
_METRIC = "the metric's map and its constant are as given"
#: What every mechanism with noise on its output assumes of the model.
ROWS_ALONE = (
    "its round-off, and that of its inputs to doubles, is small against the noise",
    "it answers each row of a batch on its own",
)


class Released(ABC):
    """Something that is called with an input and a generator, and holds a guarantee."""

    guarantee: PrivacyGuarantee
    scale: float | NDArray[np.float64]

    @abstractmethod
    def __call__(self, x: ArrayLike, rng: Seed = None) -> Any:
        """The release for the input x."""

    def then(self, function: Callable[..., Any]) -> PostProcessed:
        """Return the same release and guarantee, post-processed (IP, Proposition 1).

        The function gets the released array, batched as the release is, and must see
        nothing else of the input. Its errors pass as they are, and may show the
        release.

        Parameters
        ----------
        function : callable
            Of the released array, and of nothing else that depends on the input.

        Returns
        -------
        PostProcessed
            Is called as this one, and returns the function's values.

        Examples
        --------
        >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
        >>> private = InputPerturbation(np.tanh, budget, radius=0.1)
        >>> labels = private.then(lambda outputs: outputs.argmax(axis=1))
        >>> labels(np.zeros((5, 3)), rng=0).shape
        (5,)
        """
        return PostProcessed(self, function)


@dataclass(frozen=True, eq=False)
class PostProcessed(Released):
    """A mechanism followed by a function of its release, made by ``mechanism.then``."""

    mechanism: Released
    function: Callable[..., Any]
    guarantee: PrivacyGuarantee = field(init=False, repr=False)
    scale: float | NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_callable(self.function, "function")
        object.__setattr__(self, "guarantee", self.mechanism.guarantee)
        object.__setattr__(self, "scale", self.mechanism.scale)

    def __call__(self, x: ArrayLike, rng: Seed = None) -> Any:
        return self.function(self.mechanism(x, rng=rng))


@dataclass(frozen=True, eq=False)
class _Perturbation(Released):
    """A model with noise of one size, which hides the moves of one input."""

    model: Callable[..., Any]
    budget: PrivacyBudget
    _: KW_ONLY
    radius: float | Sequence[float] | None = None
    norm: float = 2
    family: str = "gaussian"
    releases: int = 1
    size: int | None = None
    domain: tuple[ArrayLike, ArrayLike] | None = None
    metric: tuple[Callable[..., Any], float] | None = None
    scale: float | NDArray[np.float64] = field(init=False)
    guarantee: PrivacyGuarantee = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_callable(self.model, "model")
        self._set("releases", positive_integer(self.releases, "releases"))
        if self.size is not None:
            self._set("size", positive_integer(self.size, "size"))
        inputs = self._inputs
        self._set("size", inputs.size)
        self._set("norm", checked_norm(self.norm))
        if self.domain is None and isinstance(inputs.hidden, BallAdjacency):
            self._set("radius", inputs.hidden.radius)
        scope = inputs.scope(self._assumptions())
        widest = self._sensitivity()
        budget = checked_budget(self.budget)
        size, guarantee = size_for(self._law, widest, budget, self.releases, scope)
        self._set("scale", self._scale(size))
        self._set("guarantee", guarantee)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @cached_property
    def _inputs(self) -> ModelInput:
        """The moves that are hidden."""
        return model_input(self.radius, self.norm, self.size, self.domain, self.metric)

    @abstractmethod
    def _sensitivity(self) -> float:
        """Return the largest norm of what the noise must hide, rounded up."""

    @abstractmethod
    def _assumptions(self) -> tuple[str, ...]:
        """Return clauses for the guarantee's text."""

    @abstractmethod
    def _dimension(self) -> int:
        """Return how many entries of a row are noisy, for noise that has to know it."""

    def _scale(self, size: float) -> float | NDArray[np.float64]:
        """Return the size of each entry's noise."""
        return size

    @cached_property
    def _law(self) -> RowLaw:
        """The law of one row's noise."""
        budget = checked_budget(self.budget)
        return row_law(self.family, self._dimension, budget, self.releases)

    def _noisy(
        self,
        values: NDArray[np.float64],
        rng: Seed,
        grid: Step | None,
        exact: list[Rational] | None = None,
    ) -> NDArray[np.float64]:
        """Return values plus noise, of their `exact` numbers where these differ."""
        noise = RowNoise(self.family, self._law, self.scale)
        if rng is None:
            return noise.released(values, exact, grid)
        return noise.simulated(values, rng, grid)


@dataclass(frozen=True, eq=False)
class InputPerturbation(_Perturbation):
    """Put noise on a model's input, ``model(x + noise)``.

    The noise is sigma eta with eta standard Gaussian and sigma = sup ||x - x'||_2 /
    kappa_eps^-1(delta), or Laplace of scale sup ||x - x'||_1 / epsilon. The guarantee holds
    for every model, which only post-processes the noisy input. It is exact for an
    injective model and an upper bound otherwise.

    Parameters
    ----------
    model : callable
        From an array of inputs to an array of outputs, the batch on axis 0 when there
        is one. An error of the model is not shown.
    budget : PrivacyBudget
        For one input (one row of a batch), all `releases` together.
    radius : float or sequence of float
        alpha, the largest move of an input, in its own unit; it is public. With one
        radius for each entry, moves and noise are measured in these units, and ||v||_p
        <= 1. inf: any two inputs of a public box, the `domain` (local differential
        privacy, IP Remark 1).
    norm : float, optional
        p of this move's norm, from 1 to inf, over all entries of a row.
    family : {"gaussian", "laplace", "ball", "truncated"}, optional
        Laplace noise gives (epsilon, 0); a delta of the budget is not used up. "ball" and
        "truncated" are radial noise of the ``size`` entries of a row (see `BallNoise`),
        smaller than Gaussian noise where there are few of them.
    releases : int, optional
        The budget covers that many releases of the same input.
    size : int, optional
        Entries of one row, required where the noise depends on it (``norm=inf``, and
        ``norm=2`` with Laplace noise). When given, other rows are refused.
    domain : (low, high), optional
        Public ends of the entries, numbers or shape (size,), with ``radius=inf``. Inputs
        are clipped to it, and each entry moves by at most its width. `norm` is then that
        of a Lipschitz constant only.
    metric : (callable, float), optional
        For a radius in a metric d of your own (IP Remark 2), such as one with a unit for
        each entry: a map f into a normed space,
        and a constant L with ||f(x) - f(x')||_p <= L d(x, x') for *all* inputs, p being
        `norm`. The release is then ``model(f(x) + noise)``; `size`, `grid` and
        `resolution` are about f(x). Nothing checks L: prove it, and write the proof down.
        The map is public, answers each row of a batch on its own, and is a function with
        a name, which distinguishes metrics in guarantees.

    Attributes
    ----------
    scale : float or numpy.ndarray, shape (size,)
        Standard deviation or Laplace scale, in the unit of the input, or of f(x); one for
        each entry where the radius, or the domain, has one for each.
    guarantee : PrivacyGuarantee
        Of one release of one row.

    Raises
    ------
    ValueError
        If an argument is out of range, or `size` is needed.

    See Also
    --------
    OutputPerturbation, feedforward_lipschitz

    References
    ----------
    IP, Definition 5 (Gauss-Input) and Proposition 1
    (the model only post-processes).

    Examples
    --------
    >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    >>> private = InputPerturbation(np.tanh, budget, radius=0.1)
    >>> round(private.scale, 4), private(np.zeros((5, 3)), rng=0).shape
    (0.3731, (5, 3))
    >>> labels = private.then(lambda outputs: outputs.argmax(axis=1))
    >>> labels(np.zeros((5, 3)), rng=0).shape, labels.guarantee.satisfies(budget)
    ((5,), True)

    Hours of the day, whose distance goes round the clock:

    >>> def on_the_clock(hours):
    ...     angle = 2 * np.pi * np.asarray(hours) / 24
    ...     return np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    >>> metric = (on_the_clock, 2 * np.pi / 24)
    >>> late = InputPerturbation(np.tanh, budget, radius=0.5, metric=metric)
    >>> round(late.scale, 4), late([23.75, 0.0], rng=0).shape
    (0.4883, (2, 2))

    Any two rooms, in degrees and ppm, are hidden from each other (local differential privacy):

    >>> anything = InputPerturbation(np.tanh, budget, radius=np.inf,
    ...                              domain=([15.0, 400.0], [30.0, 2000.0]))
    >>> anything.scale.round(1), anything.guarantee.scope.statement[:40]
    (array([  79.1, 8441.5]), 'the data move anywhere in a public box, ')
    """

    def __call__(
        self,
        x: ArrayLike,
        rng: Seed = None,
        *,
        grid: Step | None = None,
        resolution: Step | None = None,
        counts: bool = False,
    ) -> Any:
        """The model's answer to x plus noise, released exactly or simulated with `rng`.

        Parameters
        ----------
        x : array_like
            One input, or with more than one dimension a batch of them along axis 0
            (scikit-learn: ``x[None]``).
        rng : None, int, SeedSequence or Generator, optional
            None releases x plus noise in real numbers, rounded once. A generator or a seed
            simulates in double precision: repeatable, and not to be published.
        grid : number, optional
            Round what is released to multiples of this step; by default to the nearest
            doubles.
        resolution : number, optional
            The entries of x are multiples of this step, but for round-off. Others are
            refused, or rounded where there is a domain. A number of any type is a value.
        counts : bool, optional
            The entries of x are integers that count steps of the resolution.

        Raises
        ------
        ValueError
            If an entry is not finite or off the grid, a row has another size, or the model
            returns another batch. No message contains an entry.
        RuntimeError
            If the model raised an exception. Its text is withheld, since it may show the
            noisy input. Where the model runs with somebody else, charge the failed call.
        """
        exact, inputs = self._inputs.read(x, resolution, counts, rng)
        return _answer(self.model, self._noisy(inputs, rng, grid, exact))

    def _dimension(self) -> int:
        if self.size is None:
            raise ValueError(
                f"size: radial noise of a row has as many numbers as an input; pass size= "
                f"for family={self.family!r}"
            )
        return self.size

    def _assumptions(self) -> tuple[str, ...]:
        return () if self.metric is None else (_METRIC, *ROWS_ALONE)

    def _sensitivity(self) -> float:
        return cast("InBall", self._inputs).reach_in_units(self._law.shift_norm)

    def _scale(self, size: float) -> float | NDArray[np.float64]:
        radii = cast("InBall", self._inputs).radii
        if radii is None:
            return size
        scale = round_up(size * radii)
        scale.flags.writeable = False
        return scale


@dataclass(frozen=True, eq=False)
class OutputPerturbation(_Perturbation):
    """Put noise on a model's answer, ``model(x) + noise``.

    The noise is sigma eta with eta standard Gaussian and sigma = alpha L_{p -> 2} /
    kappa_eps^-1(delta), or Laplace of scale alpha L_{p -> 1} / epsilon. The Lipschitz
    constant must hold for all inputs, from the radius's norm to the noise's.

    Parameters
    ----------
    model : callable
        From an array of inputs to an array of real outputs, as for `InputPerturbation`.
        Each row must be answered on its own: a model that mixes the rows of a batch leaks
        one row through the others' outputs.
    budget, radius, norm, family, releases, size, domain
        As for `InputPerturbation`.
    metric : (callable, float), optional
        As for `InputPerturbation`: the release is ``model(f(x)) + noise``, and
        `lipschitz` is the constant of the model on f(x), from the p-norm there (IP
        Remark 2).
    adjacency : Adjacency, optional
        In place of a radius, with a ``manifold``: the moves to hide, such as
        ``ManifoldAdjacency(1.0)`` (DPAM Definition 4) for a nonlinear query. The Lipschitz
        constant needs to hold for inputs on the manifold only, which all inputs must be.
    manifold : AffineManifold, optional
        Where the inputs are, which is public.
    lipschitz : LipschitzBound or float
        From norm p of an input, in its own unit, to the 1-norm (Laplace) or the 2-norm (all
        others), over all entries of a row. A plain number is taken at your word. A
        `LipschitzBound` for other norms is refused; where ``size`` is given, any norm of
        inputs will do.
    outputs : int, optional
        Entries of one row of the answer, required for "ball" and "truncated". When given,
        other answers are refused.

    Attributes
    ----------
    scale, guarantee
        As for `InputPerturbation`, in the unit of the output; an upper bound.

    Raises
    ------
    ValueError
        If the norms of the Lipschitz bound do not fit. Others as for `InputPerturbation`.

    See Also
    --------
    InputPerturbation, feedforward_lipschitz

    References
    ----------
    IP, Definition 3 (Lap-Output) and Definition 4 (Gauss-Output); DPAM, Definition 4
    (the moves of a manifold). Their variances follow from ``PrivacyBudget(gdp=1 /
    gaussian_std(epsilon, delta, method="classical"))``.

    Examples
    --------
    >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    >>> gain = LipschitzBound(1.0, p=2, q=2, method="slope")
    >>> private = OutputPerturbation(np.tanh, budget, radius=0.1, lipschitz=gain)
    >>> round(private.scale, 4), private(np.zeros(3), rng=0).shape
    (0.3731, (3,))
    """

    _: KW_ONLY
    lipschitz: float
    adjacency: Adjacency | None = None
    manifold: AffineManifold | None = None
    outputs: int | None = None

    def __post_init__(self) -> None:
        if self.outputs is not None:
            checked = positive_integer(self.outputs, "outputs")
            object.__setattr__(self, "outputs", checked)
        super().__post_init__()

    def _dimension(self) -> int:
        if self.outputs is None:
            raise ValueError(
                "outputs: radial noise of a row has as many numbers as an answer; pass "
                f"outputs= for family={self.family!r}"
            )
        return self.outputs

    @cached_property
    def _inputs(self) -> ModelInput:
        if self.adjacency is None and self.manifold is None:
            return super()._inputs
        others = (self.radius, self.domain, self.metric)
        if any(other is not None for other in others):
            raise ValueError(
                "adjacency: it says by itself which moves are hidden; leave radius, domain "
                "and metric out"
            )
        adjacency = checked_adjacency(self.adjacency)
        manifold = checked_manifold(self.manifold)
        if self.size not in (None, manifold.size):
            raise ValueError(
                f"size: expected that of the manifold, {manifold.size}, got {self.size}"
            )
        return OnManifold(adjacency, manifold.size, manifold)

    def __call__(
        self,
        x: ArrayLike,
        rng: Seed = None,
        *,
        grid: Step | None = None,
        resolution: Step | None = None,
        counts: bool = False,
    ) -> NDArray[np.float64]:
        """The model's answer to x, plus noise, released exactly or simulated with `rng`.

        Arguments and errors are those of `InputPerturbation.__call__`. Integers or labels,
        which no Lipschitz constant bounds, are a ``TypeError``.
        """
        _, inputs = self._inputs.read(x, resolution, counts, rng)
        answers = real_outputs(self.model, inputs)
        rows = len(inputs) if inputs.ndim > 1 else 1
        if self.outputs is not None and answers.size != rows * self.outputs:
            raise ValueError(
                f"model: expected {self.outputs} outputs of a row, as in outputs=, got "
                f"shape {answers.shape}"
            )
        return self._noisy(answers, rng, grid)

    def _sensitivity(self) -> float:
        steepness, p, _ = self._claim()
        return float_above(self._inputs.reach(p) * steepness, 2)

    def _assumptions(self) -> tuple[str, ...]:
        steepness, p, source = self._claim()
        q = self._law.shift_norm
        return (
            f"the model is {rounded_down(steepness)}-Lipschitz from the {p:g}-norm to the "
            f"{q}-norm ({source})",
            *(() if self.metric is None else (_METRIC,)),
            *ROWS_ALONE,
        )

    def _claim(self) -> tuple[float, float, str]:
        """Return the Lipschitz constant, its norm of inputs and its source."""
        bound = self.lipschitz
        if isinstance(bound, (int, float)) and bound == 0:
            raise ValueError(
                "lipschitz: 0 means that the output never changes; publish it without noise"
            )
        steepness = positive_number(bound, "lipschitz")
        if not isinstance(bound, LipschitzBound):
            return steepness, self.norm, "as given"
        p = self.norm
        q = self._law.shift_norm
        of_radius = self.size is None or self.manifold is not None
        if bound.q != q or (of_radius and bound.p != p):
            raise ValueError(
                f"lipschitz: expected a bound from the {p:g}-norm of a move to the "
                f"{q}-norm of {self.family} noise, got one for p={bound.p}, "
                f"q={bound.q}; compute it with p={p:g}, q={q}, or pass size= and "
                "a bound for p=q"
            )
        return steepness, bound.p, f"certified, {bound.method}"


def real_outputs(
    model: Callable[..., Any], x: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The model's answer to a copy of x: finite real numbers."""
    outputs = _answer(model, x.copy(), np.asarray)
    if outputs.dtype.kind != "f":
        raise TypeError(
            f"model: expected real outputs, got dtype {outputs.dtype}; labels jump and "
            "have no Lipschitz constant: return scores, and take labels with "
            ".then(function)"
        )
    if not np.isfinite(outputs).all():
        raise ValueError(
            "model: expected finite outputs, got NaN or infinity; check the model on "
            "public inputs"
        )
    return outputs


def _answer(
    model: Callable[..., Any],
    x: NDArray[np.float64],
    read: Callable[..., Any] = lambda outputs: outputs,
) -> Any:
    """The model's answer, read and checked where nothing that it raises is shown."""

    def ask(x: NDArray[np.float64]) -> tuple[Any, tuple[int, ...]]:
        outputs = read(model(x))
        return outputs, np.shape(outputs) if x.ndim > 1 else ()

    advice = (
        "Try the model on public inputs of this shape; one that wants a batch, as "
        "scikit-learn's do, takes x[None]"
    )
    outputs, shape = answer(ask, "model", advice, x)
    if x.ndim > 1 and shape[:1] != (len(x),):
        raise ValueError(
            f"model: expected one output for each of {len(x)} rows along axis 0, got "
            f"shape {shape}"
        )
    return outputs
