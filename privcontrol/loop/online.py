"""The cloud's side of a loop, a sample at a time."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import PrivacyError
from ._loop_data import LoopData
from .controller import ObserverFeedback, answered, gain_at
from .kalman import Knowledge, Step
from .margins import knowledge


class OnlineController:
    """The controller of a loop as it runs in the cloud, made by `PrivateLoop.online`.

    It holds what is public: the model, the design, and what was published. For the same
    readings it answers as `PrivateLoop.simulate` does.

    Attributes
    ----------
    time : int
        The sample that `step` takes next.
    estimate : ndarray, shape (n,), or None
        Of x at the last sample, after its reading; the prior's mean at first. None for
        a controller without an observer.
    """

    def __init__(self, loop: LoopData) -> None:
        side = loop.dynamics.side
        self.time = 0
        self.estimate: NDArray | None = None
        if loop.observer is not None:
            self.estimate = loop.prior_mean
        self._loop = loop
        self._law = loop.law
        self._observer = loop.observer
        self._predicts = loop.observer is not None and loop.observer.recall is None
        self._horizon = math.inf if loop.noise is None else loop.noise.horizon
        self._rest = loop.rest
        self._rest_outputs = side.outputs
        self._rest_inputs = side.inputs
        if loop.truth is not None:
            self._rest_outputs = loop.truth.outputs[:, None]
            self._rest_inputs = loop.truth.inputs[list(loop.controls), None]
        self._through = side.through
        self._passes_on = bool(side.through.any())
        self._memory = loop.start[side.order :, None]
        self._sensed: NDArray | None = None
        self._told = np.zeros_like(self._rest_outputs)
        self._silence = np.zeros((len(loop.law.references), 1))
        self._reference = self._silence
        self._asked = self._rest_inputs
        self._lost: set[int] = set()
        self._is_public = loop.noise is None and loop.knows_noise

    def step(
        self,
        yhat: ArrayLike | None,
        reference: ArrayLike | None = None,
        *,
        feedforward: ArrayLike | None = None,
        applied: ArrayLike | None = None,
    ) -> NDArray:
        """Take what is published at this sample, and return the inputs of the controller.

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
            If the horizon has ended: what is published later nothing protects.
        ValueError, control.ControlDimension
            If a sample is lost to a controller that predicts nothing, a reference or
            feedforward is given to one that takes none, or a shape does not fit.
        """
        if self.time >= self._horizon:
            raise PrivacyError(
                f"yhat: the noise covers {self._horizon} samples, and all of them are "
                "taken; begin a run with loop.online(), with noise that is drawn again"
            )
        if self.time:
            self._follow(applied)
        elif applied is not None:
            raise ValueError("applied: no input acted before the first sample")
        self._sensed = None
        if yhat is not None:
            given = _column(yhat, "yhat", len(self._rest_outputs))
            self._sensed = given - self._rest_outputs
        self._reference = self._silence
        if reference is not None or feedforward is not None:
            self._take_reference(reference, feedforward)
        asked = self._decide()
        self.time += 1
        self._asked = asked + self._rest_inputs
        return self._asked[:, 0].copy()

    @property
    def covariance(self) -> NDArray:
        """Error covariance (n, n) of `estimate`, with inf and nan where nothing is known.

        `ValueError` before the first reading, and for loops whose observer does not
        know the noise.
        """
        known = self._known
        if self._loop.never_ends:
            return known.covariances(math.inf)
        if not self.time:
            raise ValueError("covariance: expected a sample first; call step")
        if self._observer is not None and not self._predicts:
            return self._recalled[self.time - 1]
        return known.covariance(self._filtering.at(self.time - 1))

    @cached_property
    def _known(self) -> Any:
        return knowledge(self._loop)

    @cached_property
    def _recalled(self) -> NDArray:
        return self._known.covariances(int(self._horizon))

    @cached_property
    def _filtering(self) -> Filtering:
        return Filtering(self._known, self._lost)

    def _take_reference(
        self, reference: ArrayLike | None, feedforward: ArrayLike | None
    ) -> None:
        count = len(self._silence)
        self._reference = self._silence.copy()
        if self._loop.follows_states:
            count = self._loop.plant.order
        elif feedforward is not None:
            raise ValueError(
                "feedforward: only loops of an observer and a state feedback take one"
            )
        if reference is not None:
            self._reference[:count] = _column(reference, "reference", count)
        if feedforward is not None:
            m = len(self._rest_inputs)
            self._reference[count:] = _column(feedforward, "feedforward", m)

    def _decide(self) -> NDArray:
        """The inputs that the controller asks for, in deviations from rest."""
        t = self.time
        if self._sensed is None and not self._predicts:
            raise ValueError(
                "yhat: this controller predicts nothing, and cannot do without a sample"
            )
        observer = self._observer
        if observer is not None and self._predicts:
            self._law = observer = self._with_gains(observer, t)
        law = self._law
        memory = self._memory
        if self._sensed is None:
            self._told = np.zeros_like(self._rest_outputs)
        elif self._passes_on:
            given = (memory, self._sensed, self._reference, self._through)
            asked = answered(law, t, *given)
            self._told = law.told(t, memory, self._sensed - self._through @ asked)
        else:
            self._told = law.told(t, memory, self._sensed)
        if observer is None:
            return law.decide(t, memory, self._told, self._reference)
        estimate = observer.estimate(t, memory, self._told)
        self.estimate = estimate[:, 0] + self._rest
        return observer.feedback(t, estimate, memory, self._reference)

    def _follow(self, applied: ArrayLike | None) -> None:
        """Move on from the sample before, with the inputs that acted there."""
        t = self.time - 1
        acting = self._asked
        if applied is not None:
            acting = _column(applied, "applied", len(self._asked))
        change = acting - self._rest_inputs
        if self._passes_on and self._sensed is not None:
            sensed = self._sensed - self._through @ change
            self._told = self._law.told(t, self._memory, sensed)
        self._memory = self._law.follow(
            t, self._memory, self._told, change, self._reference
        )

    def _with_gains(self, observer: ObserverFeedback, t: int) -> ObserverFeedback:
        """The observer with the gains of sample t, computed again after one was lost."""
        if self._sensed is None and observer.varies:
            self._lost.add(t)
        if not self._lost and not self._is_public:
            return observer
        step = self._filtering.at(t)
        correct = step.correct
        if self._loop.form == "predictor":
            correct = np.zeros_like(correct)
        K = gain_at(observer.K, t)
        return replace(observer, K=K, correct=correct, advance=step.advance)


class Filtering:
    """A filter's steps as far as they were asked for, with samples that were lost."""

    def __init__(self, known: Knowledge, lost: set[int]) -> None:
        self._steps: Iterator[Step] = known.steps(sys.maxsize, lost)
        self._count = 0
        self._last: Step | None = None

    def at(self, t: int) -> Step:
        """Return the step at sample t, never one before the last that was asked for."""
        while self._count <= t:
            self._last = next(self._steps)
            self._count += 1
        if self._last is None:
            raise ValueError("t: expected a sample from 0 on")
        return self._last


def _column(value: ArrayLike, name: str, size: int) -> NDArray:
    array = np.asarray(value, float)
    if array.shape not in ((size,), ()) or (array.ndim == 0 and size > 1):
        raise ct.ControlDimension(
            f"{name}: expected shape ({size},), got {array.shape}"
        )
    if not math.isfinite(array.sum()):
        raise ValueError(f"{name}: expected finite numbers")
    return array.reshape(size, 1)
