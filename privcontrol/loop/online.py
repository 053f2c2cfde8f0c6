"""The cloud's side of a loop as it runs, a sample at a time."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.errors import PrivacyError
from ..privacy.horizon import NO_HORIZON
from .controller import (
    Law,
    ObserverFeedback,
    answered,
)
from .data import LoopData, prior_mean, start_of
from .dense_filter import DenseKnowledge
from .kalman import Knowledge, Step
from .moments import knowledge
from .side import at_sample


class OnlineController:
    """The controller of a loop as it runs in the cloud, made by `PrivateLoop.online`.

    It holds what is public: the model, the design, and what was published. For the same
    readings it answers as `PrivateLoop.simulate` does. It does not know the limits of a
    saturation: in the filter form of a plant that passes inputs on at once, where an answer
    depends on the input that acts at the same sample, it answers otherwise at a limit.

    Attributes
    ----------
    time : int
        The sample that `step` takes next.
    estimate : ndarray, shape (n,), or None
        Of x at the last sample, after its reading, or before it in the predictor form;
        the prior's mean at first. None for a controller without an observer.
    """

    def __init__(self, loop: LoopData) -> None:
        side = loop.simulated
        self.time = 0
        self.estimate: NDArray[np.float64] | None = None
        self.law: Law = loop.law
        self._loop = loop
        self._side = side
        self._observer = loop.observer
        if loop.observer is not None:
            self.estimate = prior_mean(loop)
        self._horizon = NO_HORIZON if loop.noise is None else loop.noise.horizon
        self._through = side.through if side.through.any() else None
        self._memory = start_of(loop)[side.order :, None]
        self._reading: NDArray[np.float64] | None = None
        self._sensed = side.outputs  # the reading without what inputs add at once
        self._change = np.zeros_like(side.inputs)  # of the inputs, from rest
        self._silence = np.zeros((len(loop.law.references), 1))
        self._reference = self._silence
        # samples that were lost, after which gains are others, from the first step of
        # the filter on; it is in its steady state before where the noise has no horizon
        self._lost: set[int] = set()
        self._is_public = loop.noise is None and loop.knows_noise
        self._first = 0
        self._filtered = 0

    def step(
        self,
        yhat: ArrayLike | None,
        reference: ArrayLike | None = None,
        *,
        feedforward: ArrayLike | None = None,
        applied: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Take this sample's published outputs, and return the controller's inputs.

        Parameters
        ----------
        yhat : array_like, shape (p,), float, or None
            The published outputs. None is a sample that was lost: the prediction is
            used.
        reference : array_like, shape (n,) or (r,), optional
            Public reference, as in `PrivateLoop.simulate`.
        feedforward : array_like, shape (m,), optional
            Public ud of loops whose reference is one for the states.
        applied : array_like, shape (m,), optional
            The inputs that really acted at the sample before, where they were limited.

        Returns
        -------
        ndarray, shape (m,)

        Raises
        ------
        PrivacyError
            If the horizon has ended: nothing protects later publications.
        ValueError, control.ControlDimension
            If a sample is lost to a controller that predicts nothing, a reference or
            feedforward is given to one that takes none, or a shape does not fit.
        """
        t = self.time
        if t >= self._horizon:
            raise PrivacyError(
                f"yhat: the noise covers {self._horizon} samples, and all of them are "
                "taken; begin a run with loop.online(), with noise that is drawn again"
            )
        if t:
            self._follow(applied)
        elif applied is not None:
            raise ValueError("applied: no input acted before the first sample")
        self._reading = None
        if yhat is not None:
            given = _column(yhat, "yhat", len(self._side.outputs))
            self._reading = given - self._side.outputs
        self._reference = self._silence
        if reference is not None or feedforward is not None:
            self._reference = self._given(reference, feedforward)
        self._change = self._decide(t)
        self.time = t + 1
        return (self._change + self._side.inputs)[:, 0]

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Error covariance (n, n) of `estimate`, inf and nan where nothing is known.

        Without a horizon it counts from the steady state on.
        `ValueError` before the first reading, and for loops whose observer does not
        know the noise.
        """
        known = self._known
        before = self._loop.form == "predictor"
        if self._is_settled:
            return known.covariances(NO_HORIZON, predicted=before)
        if not self.time:
            raise ValueError("covariance: expected a sample first; call step")
        if isinstance(known, DenseKnowledge):
            return known.covariances(self._horizon, predicted=before)[self.time - 1]
        return known.covariance(self._filter(self.time - 1), predicted=before)

    @property
    def _is_settled(self) -> bool:
        """Whether the filter is in steady state, with no reading lost yet."""
        return self._loop.never_ends and not self._lost

    @cached_property
    def _known(self) -> Knowledge | DenseKnowledge:
        return knowledge(self._loop)

    @cached_property
    def _steps(self) -> Iterator[Step]:
        known = self._known
        if isinstance(known, DenseKnowledge):
            raise ValueError("expected noise of a finite state")
        if self._loop.never_ends:
            begun = known.settled()
            known = replace(known, start=begun.spread, unknown=begun.unknown)
        return known.steps(sys.maxsize, self._lost)

    def _filter(self, t: int) -> Step:
        """The filter's step at sample t, never one before the last that it gave."""
        while self._filtered <= t - self._first:
            self._step = next(self._steps)
            self._filtered += 1
        return self._step

    def _given(
        self, reference: ArrayLike | None, feedforward: ArrayLike | None
    ) -> NDArray[np.float64]:
        given = self._silence.copy()
        count = len(given)
        if self._loop.law.follows_states:
            count = self._loop.side.plant.order
        elif feedforward is not None:
            raise ValueError(
                "feedforward: only loops of an observer and a state feedback take one"
            )
        if reference is not None:
            given[:count] = _column(reference, "reference", count)
        if feedforward is not None:
            given[count:] = _column(feedforward, "feedforward", len(self._side.inputs))
        return given

    def _decide(self, t: int) -> NDArray[np.float64]:
        """The inputs that the controller asks for, in deviations from rest."""
        observer = self._observer
        reading = self._reading
        memory = self._memory
        predicts = observer is not None and not self.law.recalls
        if reading is None and not predicts:
            raise ValueError(
                "yhat: this controller predicts nothing, and cannot do without a sample"
            )
        if reading is None and self._loop.knows_noise:
            if self._is_settled:
                self._first = t
            self._lost.add(t - self._first)
        if observer is not None and (self._lost or self._is_public):
            self.law = observer = self._with_gains(observer, t)
        if reading is not None:
            self._sensed = reading
            if self._through is not None:
                given = (memory, reading, self._reference, self._through)
                asked = answered(self.law, t, *given)
                self._sensed = reading - self._through @ asked
        if observer is None:
            return self.law.decide(t, memory, self._sensed, self._reference)
        if reading is None:
            self._sensed = observer.expected(t, memory)
        estimate = observer.estimate(t, memory, self._sensed)
        self.estimate = estimate[:, 0] + self._side.rest
        return observer.feedback(t, estimate, memory, self._reference)

    def _follow(self, applied: ArrayLike | None) -> None:
        """Move on from the sample before, with the inputs that acted there."""
        change = self._change
        if applied is not None:
            change = _column(applied, "applied", len(change)) - self._side.inputs
            if self._through is not None and self._reading is not None:
                self._sensed = self._reading - self._through @ change
        given = (self._memory, self._sensed, change, self._reference)
        self._memory = self.law.follow(self.time - 1, *given)

    def _with_gains(self, observer: ObserverFeedback, t: int) -> ObserverFeedback:
        """The observer with the gains of sample t, other ones after a loss."""
        step = self._filter(t)
        correct = step.correct
        if self._loop.form == "predictor":
            correct = np.zeros_like(correct)
        K = at_sample(observer.K, t)
        return replace(observer, K=K, correct=correct, advance=step.advance)


def _column(value: ArrayLike, name: str, size: int) -> NDArray[np.float64]:
    array = np.asarray(value, float)
    if array.shape not in ((size,), ()) or (array.ndim == 0 and size > 1):
        raise ct.ControlDimension(
            f"{name}: expected shape ({size},), got {array.shape}"
        )
    if not all(map(math.isfinite, array.ravel().tolist())):
        raise ValueError(f"{name}: expected finite numbers")
    return array.reshape(size, 1)
