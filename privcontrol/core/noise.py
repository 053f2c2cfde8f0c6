"""Noise laws: a factor times independent standard entries, drawn from an explicit generator."""

from abc import ABC, abstractmethod

import numpy as np
import scipy.linalg

from ._linalg import EPS, column_norms, rank_tolerance, real_array
from ._random import generator


class Noise(ABC):
    """gamma = factor @ eta with independent standard entries eta.

    Parameters
    ----------
    factor : array_like, shape (m, r) or (m,)
        Lambda. A vector stands for a diagonal matrix: independent noise of these sizes, never formed densely.
    """

    #: Variance of one entry of eta, whatever the factor; that of the noise is `covariance` or `std`.
    unit_variance = 1.0

    def __init__(self, factor):
        factor = real_array(factor, "factor")
        if factor.ndim not in (1, 2) or not factor.size:
            raise ValueError(
                f"factor: expected shape (m, r), or (m,) for independent entries, got {factor.shape}"
            )
        self.factor = factor

    @property
    def size(self):
        """Number of noisy entries m."""
        return len(self.factor)

    @property
    def covariance(self):
        """Covariance (m, m) of gamma, formed on access."""
        if self.factor.ndim == 1:
            return self.unit_variance * np.diag(self.factor**2)
        return self.unit_variance * self.factor @ self.factor.T

    @property
    def std(self):
        """Standard deviation (m,) of each entry of gamma, in the unit of the published entry.

        Examples
        --------
        >>> GaussianNoise([[3.0], [4.0]]).std, LaplaceNoise([3.0]).std.round(4)
        (array([3., 4.]), array([4.2426]))
        """
        sizes = (
            np.abs(self.factor)
            if self.factor.ndim == 1
            else column_norms(self.factor.T)
        )
        return np.sqrt(self.unit_variance) * sizes

    @abstractmethod
    def _standard(self, rng, shape):
        """Standard entries eta of the given shape."""

    def sample(self, size=None, rng=None):
        """Draw gamma.

        Parameters
        ----------
        size : int, optional
            Number of draws; None gives one draw without the leading axis.
        rng : None, int, SeedSequence or Generator, optional

        Returns
        -------
        ndarray, shape (m,) or (size, m)

        Raises
        ------
        TypeError
            If size is no integer.
        """
        if size is not None and not isinstance(size, (int, np.integer)):
            raise TypeError(
                f"size: expected None or an integer number of draws, got {type(size).__name__}"
            )
        eta = self._standard(
            generator(rng), (1 if size is None else size, self.factor.shape[-1])
        )
        gamma = eta * self.factor if self.factor.ndim == 1 else eta @ self.factor.T
        return gamma[0] if size is None else gamma

    def whiten(self, images, doubt=None):
        """Lambda^+ s: what the noise must hide of images s, in units of its entries.

        Parameters
        ----------
        images : ndarray, shape (m, M)
            The images as columns.
        doubt : ndarray, shape (m, M), optional
            Bounds of their errors.

        Returns
        -------
        shifts : ndarray, shape (r, M)
            Of minimum norm.
        bare, errors : ndarray, shapes (m, M) and (r, M)
            What is left of each column, |s - Lambda shifts|, and bounds of the errors of ``shifts``; None without doubt.
        """
        if self.factor.ndim == 1:
            silent = (self.factor == 0)[:, None]
            size = np.where(silent, np.inf, self.factor[:, None])
            shifts = images / size
            if doubt is None:
                return shifts, None, None
            return (
                shifts,
                np.where(silent, np.abs(images), 0.0),
                doubt / np.abs(size) + EPS * np.abs(shifts),
            )
        scale = column_norms(self.factor)
        scale[scale == 0] = 1.0
        U, s, vt = scipy.linalg.svd(self.factor / scale, full_matrices=False)
        rank = int(np.sum(s > rank_tolerance(self.factor, s)))
        if (
            rank < self.factor.shape[1]
        ):  # dependent columns: the minimum-norm answer belongs to the factor as it is
            U, s, vt = scipy.linalg.svd(self.factor, full_matrices=False)
            rank, scale = (
                int(np.sum(s > rank_tolerance(self.factor, s))),
                np.ones_like(scale),
            )
        U, s, vt = U[:, :rank], s[:rank], vt[:rank]
        coordinates = U.T @ images
        shifts = (vt.T @ (coordinates / s[:, None])) / scale[:, None]
        if doubt is None:
            return shifts, None, None
        errors = np.abs((vt.T / s) @ U.T / scale[:, None]) @ doubt
        if rank:
            relative = 8 * EPS * (len(scale) + 8) * (s[0] / s[-1])
            errors += relative * column_norms(coordinates / s[:, None]) / scale[:, None]
        return shifts, np.abs(images - self.factor @ shifts), errors

    def __repr__(self):
        draws = self.size if self.factor.ndim == 1 else self.factor.shape[1]
        return f"{type(self).__name__}(size={self.size}, draws={draws})"


class GaussianNoise(Noise):
    """gamma = factor @ eta, eta standard normal (DPAM eq. (5)).

    Examples
    --------
    >>> noise = GaussianNoise([[1.0], [2.0]])
    >>> noise.covariance, noise.std
    (array([[1., 2.],
           [2., 4.]]), array([1., 2.]))
    """

    def _standard(self, rng, shape):
        return rng.standard_normal(shape)


class LaplaceNoise(Noise):
    """gamma = factor @ eta, eta Laplace of scale one, hence of variance two (DPAM section 4).

    Examples
    --------
    >>> noise = LaplaceNoise([3.0])
    >>> noise.covariance, noise.std.round(3)
    (array([[18.]]), array([4.243]))
    """

    unit_variance = 2.0

    def _standard(self, rng, shape):
        return rng.laplace(size=shape)
