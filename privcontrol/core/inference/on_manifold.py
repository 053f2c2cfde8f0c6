"""Nonlinear queries of data on a manifold, by a Lipschitz constant along it.

DPAM names them as future work. Two data sets on the manifold differ by a tangent move, so
that what a model may amplify across the manifold does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from .._linalg import EPS, real_array, round_up, sequence_of
from .._random import Seed
from ..adjacency import Adjacency, checked_adjacency, checked_manifold
from ..budget import PrivacyBudget
from ..errors import UncertifiableError
from ..guarantee import PrivacyGuarantee, Scope
from ..lipschitz import LipschitzBound, feedforward_lipschitz
from ..manifold import AffineManifold
from ..mechanism import FRESH
from ..noise import family_of
from ..query import LinearQuery
from ..release import Step
from .perturbation import ROWS_ALONE, NoisyModel, real_outputs


@dataclass(frozen=True, eq=False)
class ManifoldPerturbation(NoisyModel):
    r"""``model(x) + noise`` for data x on a public affine manifold.

    The noise has independent entries of one size, the largest p-norm of a hidden move
    times the Lipschitz constant over what the budget allows.

    Parameters
    ----------
    model : callable
        As for `OutputPerturbation`.
    manifold : AffineManifold
        Where the data live.
    adjacency : Adjacency
        The hidden moves.
    budget : PrivacyBudget
        Of all `releases` together.
    lipschitz : LipschitzBound or float
        L with ||model(x) - model(x')||_q <= L ||x - x'||_p for all x, x' *on the
        manifold*; q = 2 for Gaussian and 1 for Laplace noise, p = 2 for a plain number.
        A constant for all of R^n will do. `lipschitz_along` gives a smaller one.
    family, releases : optional
        As for `InputPerturbation`, with its attributes and errors.

    Examples
    --------
    Two shares of one total, and a cost that depends on their difference:

    >>> import numpy as np
    >>> from privcontrol.core import *
    >>> shares = AffineManifold([[1.0, 1.0]], [-100.0])
    >>> private = ManifoldPerturbation(
    ...     lambda x: np.tanh((x[:1] - x[1:]) / 50.0),
    ...     shares,
    ...     ManifoldAdjacency(5.0),
    ...     PrivacyBudget(epsilon=1.0, delta=1e-2),
    ...     lipschitz=2**0.5 / 50.0,
    ... )
    >>> round(private.scale, 4), private([40.0, 60.0], rng=0).shape
    (0.3756, (1,))
    """

    model: Callable
    manifold: AffineManifold
    adjacency: Adjacency
    budget: PrivacyBudget
    _: KW_ONLY
    lipschitz: float
    family: str = "gaussian"
    releases: int = 1
    scale: float = field(init=False)
    guarantee: PrivacyGuarantee = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checked_manifold(self.manifold)
        checked_adjacency(self.adjacency)
        q = family_of(self.family).shift_norm
        steepness, p, source = self._claim(self.lipschitz, 2.0)
        everything = scipy.sparse.eye_array(self.manifold.size, format="csr")
        widest = LinearQuery(everything, self.manifold).sensitivity(self.adjacency, p)
        assumptions = (
            FRESH,
            f"along the manifold the model is {steepness:.6g}-Lipschitz from the "
            f"{p:g}-norm to the {q}-norm ({source})",
            *ROWS_ALONE,
        )
        scope = Scope.of(self.adjacency, self.manifold, assumptions=assumptions)
        self._calibrate(float(round_up(widest * steepness)), scope)

    def __call__(
        self,
        x: ArrayLike,
        rng: Seed = None,
        *,
        grid: Step | Sequence[Step] | None = None,
    ) -> NDArray:
        """The model's answer to x plus noise: released exactly, or simulated with `rng`.

        Parameters
        ----------
        x : array_like, shape (n,) or (batch, n)
            The private data, on the manifold. The guarantee is for each row.
        rng, grid : optional
            As for `InputPerturbation`; a step for each output is possible.

        Raises
        ------
        ValueError
            If x has another shape or is off the manifold.
        """
        data = real_array(x, "x")
        size = self.manifold.size
        if data.ndim not in (1, 2) or data.shape[-1] != size:
            raise ValueError(
                f"x: expected shape ({size},) or (batch, {size}), got {data.shape}"
            )
        if not all(map(self.manifold.contains, data.reshape(-1, size))):
            raise ValueError(
                "x is off the manifold D x + b = 0 (D x = c is b = -c): the guarantee "
                "does not cover it; check the constraints"
            )
        return self._noisy(real_outputs(self.model, data), rng, grid)


def lipschitz_along(
    manifold: AffineManifold,
    weights: Sequence[ArrayLike],
    *,
    method: str = "sdp",
    slopes: tuple[float, float] = (0, 1),
) -> LipschitzBound:
    """Bound a network's 2-norm gain for moves along a manifold, from above.

    The first layer sees of a tangent move what the orthogonal projection onto the
    manifold's directions leaves of it. The bound is that of the network whose first
    weight is projected, and a term for the rounding of the projection.

    Parameters
    ----------
    manifold : AffineManifold
        Where the inputs live.
    weights, method, slopes
        As for `feedforward_lipschitz`.

    Returns
    -------
    LipschitzBound
        With p = q = 2, at most that of the whole space up to rounding.

    Raises
    ------
    ValueError
        If the first weight does not take the manifold's data.
    UncertifiableError
        If the manifold's directions are too nearly parallel for double precision.

    Examples
    --------
    >>> shares = AffineManifold([[1.0, 1.0]])
    >>> weights = [[[3.0, 3.1]], [[1.0]]]  # sees the public total, little else
    >>> bound = lipschitz_along(shares, weights)
    >>> round(bound, 4), round(feedforward_lipschitz(weights), 4)
    (0.0707, 4.3139)
    """
    kernel = checked_manifold(manifold).kernel
    layers = sequence_of(weights, "weights", "matrices")
    if not len(layers):
        raise ValueError("weights: expected at least one matrix, got none")
    first = real_array(layers[0], "weights[0]", shape=(None, manifold.size))
    basis, _ = scipy.linalg.qr(kernel / np.linalg.norm(kernel, axis=0), mode="economic")
    projected = first @ basis @ basis.T
    rest = layers[1:]
    bound = feedforward_lipschitz([projected, *rest], method=method, slopes=slopes)
    behind = feedforward_lipschitz(
        [np.eye(len(first)), *rest], method="product", slopes=slopes
    )
    missed = _missed(first, projected, kernel, manifold.kernel_error)
    value = float(round_up(bound + behind * missed, 4))
    return LipschitzBound(value, p=2, q=2, method=bound.method)


def _missed(
    first: NDArray, projected: NDArray, kernel: NDArray, kernel_error: float
) -> float:
    """Bound ||(first - projected) v|| / ||v|| for tangent moves v, rounding included."""
    rounding = 8 * EPS * (len(kernel) + 4)
    difference = first - projected
    sizes = np.linalg.norm(first) + np.linalg.norm(projected)
    length = float(np.linalg.norm(kernel))
    left = np.linalg.norm(difference @ kernel) + rounding * sizes * length
    stray = kernel_error * np.sqrt(kernel.size)
    left += stray * sizes
    least = float(scipy.linalg.svdvals(kernel)[-1]) - rounding * length - stray
    if least <= 0:
        raise UncertifiableError(
            "the manifold's directions are too nearly parallel for double precision; "
            "rescale the data"
        )
    return float(left / least)
