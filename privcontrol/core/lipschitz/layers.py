"""Networks that are 1-Lipschitz by construction: SDP-based Lipschitz layers (Araujo, Havens, Delattre, Allauzen and
Hu, ICLR 2023) as a numpy forward pass. Training is left to others; every layer here carries its certificate."""

from dataclasses import dataclass, field

import numpy as np
from flint import arb

from privcontrol.core._balls import ball_matrix, upper_float, working_bits
from privcontrol.core._linalg import EPS, real_array
from privcontrol.core._withheld import private_array
from privcontrol.core.lipschitz.bound import LipschitzBound
from privcontrol.core.lipschitz.norms import induced_norm


@dataclass(frozen=True, eq=False, repr=False)
class SLLLayer:
    r"""The map :math:`x - 2 W T^{-1} \mathrm{relu}(W^T x + b)`, T_ii = sum_j |W'W|_ij q_j / q_i.

    Parameters
    ----------
    weight : array_like, (n, m)
        W. A zero column, where T vanishes, contributes nothing.
    bias : array_like, (m,)
        b.
    q : array_like, (m,)
        Positive scales, in training q = exp(r). Any of them gives a 1-Lipschitz layer.

    Attributes
    ----------
    inverse_T : ndarray, (m,)
        The diagonal of T^{-1}, rounded down.

    Raises
    ------
    ValueError
        If the shapes do not fit, or an entry of q is not positive.

    Examples
    --------
    >>> layer = SLLLayer([[1.0, 0.5], [0.0, 1.0]], [0.0, 0.1], [1.0, 1.0])
    >>> layer([1.0, 2.0]).shape, layer.certificate() <= 1, float(layer.lipschitz)
    ((2,), True, 1.0)

    Notes
    -----
    T - W'W, scaled by q, is diagonally dominant, hence W'W <= T; a slope matrix S in [0, I] then gives the
    Jacobian I - 2 B S B', B = W T^{-1/2}, ||B|| <= 1, with eigenvalues in [-1, 1].
    """

    weight: np.ndarray
    bias: np.ndarray
    q: np.ndarray
    inverse_T: np.ndarray = field(init=False, repr=False)

    def __post_init__(self):
        weight = real_array(self.weight, "weight", ndim=2)
        m = weight.shape[1]
        bias, q = (
            real_array(getattr(self, name), name, shape=(m,)) for name in ("bias", "q")
        )
        if not (q > 0).all():
            raise ValueError(
                "q: expected positive scales, got zero or negative ones; use q = exp(r)"
            )
        rows = np.abs(weight.T @ weight) @ q / q
        shrink = (
            1 - 8 * (sum(weight.shape) + 4) * EPS
        )  # more than the round-off of the row sums
        inverse = np.divide(shrink, rows, out=np.zeros(m), where=weight.any(axis=0))
        inverse.flags.writeable = False
        for name, value in (
            ("weight", weight),
            ("bias", bias),
            ("q", q),
            ("inverse_T", inverse),
        ):
            object.__setattr__(self, name, value)
        if not self.certificate() <= 1 + 1e-9:
            raise ValueError(
                "SLL layer: weight and q span too many decades for a certificate; rescale them"
            )

    def __repr__(self):
        return f"SLLLayer(width={self.weight.shape[0]}, neurons={self.weight.shape[1]})"

    def __call__(self, x):
        """The layer's output for x of shape (n,) or, with a batch on axis 0, (batch, n)."""
        x = private_array(x, "x")
        if x.ndim not in (1, 2) or x.shape[-1] != len(self.weight):
            raise ValueError(
                f"x: expected shape ({len(self.weight)},) or (batch, {len(self.weight)}), got {x.shape}"
            )
        return (
            x
            - 2
            * (np.maximum(x @ self.weight + self.bias, 0) * self.inverse_T)
            @ self.weight.T
        )

    def certificate(self):
        """A proven upper bound c of the largest eigenvalue of T^{-1/2} W'W T^{-1/2}; the layer needs c <= 1.

        It is the largest of T_ii^{-1} sum_j |W'W|_ij q_j / q_i in ball arithmetic, for the T in use.
        """
        with working_bits():
            W = ball_matrix(self.weight)
            q, inverse = self.q.tolist(), self.inverse_T.tolist()
            rows = (W.transpose() * W).tolist()
            sums = [
                sum((abs(g) * scale for g, scale in zip(row, q)), arb(0))
                for row in rows
            ]
            return max(
                upper_float(total * arb(t) / arb(scale))
                for total, t, scale in zip(sums, inverse, q)
            )

    @property
    def lipschitz(self):
        """The l2 constant max(1, 2c - 1), c the certificate, as a ``LipschitzBound``."""
        with working_bits():
            return LipschitzBound(
                max(1.0, upper_float(2 * arb(self.certificate()) - 1)),
                p=2,
                q=2,
                method="sll",
            )


@dataclass(frozen=True, eq=False, repr=False)
class SLLNetwork:
    """SLL layers of one width, and an affine head.

    Parameters
    ----------
    layers : sequence of SLLLayer
        All on R^n.
    head : array_like, (outputs, n)
        Weight of the last, affine map.
    head_bias : array_like, (outputs,), optional
        Its bias, zero by default.

    Raises
    ------
    TypeError
        If one of the layers is not an ``SLLLayer``.
    ValueError
        If the widths differ.

    Examples
    --------
    >>> layer = SLLLayer(np.eye(2), [0.0, 0.1], [1.0, 1.0])
    >>> network = SLLNetwork([layer, layer], [[0.6, 0.8]])
    >>> network(np.zeros((5, 2))).shape, round(network.lipschitz, 12)
    ((5, 1), 1.0)

    Notes
    -----
    A head with unit rows (as in the paper) may have a spectral norm up to the square root of the number of
    classes: ``.lipschitz`` counts it. The map is continuous in exact arithmetic; round-off is not counted.
    """

    layers: tuple
    head: np.ndarray
    head_bias: np.ndarray = None

    def __post_init__(self):
        layers, head = tuple(self.layers), real_array(self.head, "head", ndim=2)
        for layer in layers:
            if not isinstance(layer, SLLLayer):
                raise TypeError(
                    f"layers: expected SLLLayer objects, got {type(layer).__name__}"
                )
            if len(layer.weight) != head.shape[1]:
                raise ValueError(
                    f"layers: expected width {head.shape[1]} as in the head, got {len(layer.weight)}"
                )
        bias = np.zeros(len(head)) if self.head_bias is None else self.head_bias
        bias = real_array(bias, "head_bias", shape=(len(head),))
        for name, value in (("layers", layers), ("head", head), ("head_bias", bias)):
            object.__setattr__(self, name, value)

    def __repr__(self):
        return f"SLLNetwork({len(self.layers)} layers, outputs={len(self.head)})"

    def __call__(self, x):
        """The outputs (outputs,) or (batch, outputs) for x of shape (n,) or (batch, n)."""
        x = private_array(x, "x")
        if x.ndim not in (1, 2) or x.shape[-1] != self.head.shape[1]:
            width = self.head.shape[1]
            raise ValueError(
                f"x: expected shape ({width},) or (batch, {width}), got {x.shape}"
            )
        for layer in self.layers:
            x = layer(x)
        return x @ self.head.T + self.head_bias

    @property
    def lipschitz(self):
        """The l2 constant of all layers and the head's spectral norm, as a ``LipschitzBound``."""
        with working_bits():
            product = arb(float(induced_norm(self.head, 2, 2)))
            for layer in self.layers:
                product *= arb(float(layer.lipschitz))
            return LipschitzBound(upper_float(product), p=2, q=2, method="sll")
