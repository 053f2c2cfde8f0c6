"""Output noise: what is added to a plant's outputs over one horizon, in time order.

Structured noise is the plant's own free response gamma(t) = C A^t S eta from a random initial state, drawn once per
horizon; independent noise is drawn afresh at each sample. Neither may be used beyond its horizon.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core._linalg import positive_integer
from ..core._random import generator
from ..core.design import NoiseDesign
from ..core.guarantee import PrivacyGuarantee
from ..trajectory.manifold import free_outputs
from ..trajectory.plant import Plant


@dataclass(frozen=True, repr=False)
class OutputNoise:
    """Noise for the outputs of a plant with its guarantee; made by `design_output_noise`.

    Attributes
    ----------
    factor : ndarray, shape (n, r), or None
        S of the structured noise gamma(t) = C A^t S eta; None for independent noise.
    scale : ndarray, shape (p,), or None
        Size of independent noise at each output: standard deviation (Gaussian) or scale (Laplace).
    horizon : int
        Number of samples T that the guarantee covers.
    guarantee : PrivacyGuarantee
    design : NoiseDesign
        Cost, certified gap, and the moves at which the guarantee is attained.
    request : NoiseRequest or None
        What it was designed for; ``request.design(sys, weight=...)`` designs again.

    Examples
    --------
    >>> import privcontrol as pc
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100, adjacency=pc.StateAdjacency({"position": 1.0}),
    ...                                budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
    >>> noise
    OutputNoise(gaussian, structured rank 1, 1 output, horizon 100)
    >>> noise.sample(trials=3, rng=0).shape
    (1, 3, 100)
    """

    plant: Plant
    horizon: int
    law: str
    factor: np.ndarray | None
    scale: np.ndarray | None
    guarantee: PrivacyGuarantee
    design: NoiseDesign
    request: object = None
    correlated: np.ndarray | None = None

    @property
    def variance(self):
        """Variance of one entry of eta: 1 for Gaussian, 2 for Laplace noise of scale one."""
        return 2.0 if self.law == "laplace" else 1.0

    @property
    def timepts(self):
        """Time points (T,) of the horizon in seconds."""
        return self.plant.step * np.arange(self.horizon)

    @property
    def channels(self):
        """Number of entries of eta at one sample: the inputs ``eta[i]`` of the python-control systems."""
        return self.factor.shape[1] if self.scale is None else len(self.scale)

    @property
    def initial_state_covariance(self):
        """Covariance v S S^T (n, n) of the random initial state; None for independent noise."""
        return None if self.factor is None else self.variance * self.factor @ self.factor.T

    @cached_property
    def responses(self):
        """C A^t S as an array (T, p, r); None for independent noise."""
        if self.factor is None:
            return None
        frames = free_outputs(self.plant, self.factor, self.horizon).reshape(self.horizon, len(self.plant.C), -1)
        frames.flags.writeable = False
        return frames

    def covariance(self, t, s=None):
        """Covariance (p, p) of gamma(t) and gamma(s), by sample index; s = t by default.

        Raises
        ------
        ValueError
            If an index is outside the horizon.
        """
        s = t if s is None else s
        for index in (t, s):
            if not 0 <= index < self.horizon:
                raise ValueError(f"t: expected a sample index in 0 .. {self.horizon - 1}, got {index}")
        if self.factor is None:
            return self.variance * np.diag(self.scale**2) * (t == s)
        return self.variance * self.responses[t] @ self.responses[s].T

    def draw(self, rng, trials):
        """Standard entries eta for some trials from a Generator: (trials, r), or (trials, T, p) if independent.

        Trial by trial in time order, so that fewer trials are a prefix of more.
        """
        shape = (trials, self.channels) if self.scale is None else (trials, self.horizon, self.channels)
        return rng.laplace(size=shape) if self.law == "laplace" else rng.standard_normal(shape)

    def sample(self, trials=1, rng=None):
        """Draw the noise of whole horizons.

        Parameters
        ----------
        trials : int, optional
        rng : None, int, SeedSequence or Generator, optional

        Returns
        -------
        ndarray, shape (p, trials, T)
        """
        eta = self.draw(generator(rng), positive_integer(trials, "trials"))
        if self.factor is None:
            return np.moveaxis(eta * self.scale, 2, 0)
        gamma = np.zeros((len(self.plant.C), trials, self.horizon))
        for k in range(self.channels):  # one term at a time: the same sums whatever the number of trials
            gamma += eta[:, k, None] * self.responses[:, :, k].T[:, None, :]
        return gamma

    def stream(self, rng=None):
        """Yield gamma(t), shape (p,), one sample at a time in constant memory; ends after the horizon.

        For the same seed the values are those of ``sample(1, rng)``.
        """
        rng = generator(rng)
        state = None if self.factor is None else self.factor @ self.draw(rng, 1)[0]
        for _ in range(self.horizon):
            if state is None:
                eta = rng.laplace(size=self.channels) if self.law == "laplace" else rng.standard_normal(self.channels)
                yield self.scale * eta
            else:
                yield self.plant.C @ state
                state = self.plant.A @ state

    def to_statespace(self):
        """The noise as a python-control system from eta to gamma; see `create_noise_iosystem`."""
        from .iosystem import create_noise_iosystem

        return create_noise_iosystem(self)

    def __repr__(self):
        shape = "independent" if self.factor is None else f"structured rank {self.channels}"
        outputs = len(self.plant.C)
        return f"OutputNoise({self.law}, {shape}, {outputs} output{'s' * (outputs > 1)}, horizon {self.horizon})"
