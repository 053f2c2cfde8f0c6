"""The cloud's side of a loop, a sample at a time."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import control as ct
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..channel.endless_noise import EndlessNoise
from ..core.errors import PrivacyError
from .controller import ObserverFeedback, answer
from .kalman import Knowledge, Step
from .margins import knowledge

if TYPE_CHECKING:
    from .loop import PrivateLoop


class OnlineController:
    """The controller of a loop as it runs in the cloud, made by `PrivateLoop.online`.

    It holds what is public: the model, the design, and what was published. For the same
    readings it answers as `PrivateLoop.simulate` does.

    Attributes
    ----------
    time : int
        The sample that `step` takes next.
    estimate : ndarray, shape (n,), or None
        Of x at the last sample, after its reading; the prior's mean at first. None for a
        controller without an observer.
    """

    def __init__(self, loop: PrivateLoop) -> None:
        plant = loop.plant
        self.time = 0
        self._loop = loop
        self._horizon = math.inf if loop.noise is None else loop.noise.horizon
        self._rest_outputs = np.zeros(len(plant.C))
        self._rest_inputs = np.zeros(len(loop.controls))
        if loop.truth is not None:
            self._rest_outputs = loop.truth.outputs
            self._rest_inputs = loop.truth.inputs[list(loop.controls)]
        self._through = plant.D[:, list(loop.controls)]
        self._passes_on = bool(self._through.any())
        self._memory = np.zeros(loop.law.order)
        self.estimate: NDArray | None = None
        self._observer = loop.observer
        self._recalls = self._observer is not None and self._observer.recall is not None
        self._rest = loop.rest
        if loop.estimates:
            self._memory[: plant.order] = loop.prior_mean - self._rest
        if self._observer is not None:
            self.estimate = loop.prior_mean
        self._reading: NDArray | None = None
        self._silence = np.zeros(len(loop.law.references))
        self._reference = self._silence
        self._asked = self._rest_inputs
        self._advance = np.zeros((0, 0))
        self._lost: set[int] = set()
        self._filter: Filtering | None = None
        if loop.noise is None and loop.design is not None and loop.design.is_kalman:
            self._filter = Filtering(knowledge(loop), self._lost)

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
            The published outputs. None is a sample that was lost: the prediction is used.
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
        self._reading = None
        if yhat is not None:
            given = _vector(yhat, "yhat", len(self._rest_outputs))
            self._reading = given - self._rest_outputs
        self._reference = self._silence
        if reference is not None or feedforward is not None:
            self._take_reference(reference, feedforward)
        observer = self._observer
        if observer is None or self._recalls:
            asked = self._decide()
        else:
            asked = self._observe(observer)
        self.time += 1
        self._asked = asked + self._rest_inputs
        return self._asked.copy()

    @property
    def covariance(self) -> NDArray:
        """Error covariance (n, n) of `estimate`, with inf and nan where nothing is known.

        `ValueError` before the first reading, and for loops whose observer does not know
        the noise.
        """
        loop = self._loop
        if isinstance(loop.noise, EndlessNoise):
            return loop.estimate_covariance
        if not self.time:
            raise ValueError("covariance: expected a sample first; call step")
        if self._recalls:
            return loop.estimate_covariance[self.time - 1]
        if self._filter is None:
            self._filter = Filtering(knowledge(loop), self._lost)
        step = self._filter.at(self.time - 1)
        return self._filter.known.covariance(step)

    def _take_reference(
        self, reference: ArrayLike | None, feedforward: ArrayLike | None
    ) -> None:
        n = self._loop.plant.order
        count = len(self._reference)
        self._reference = self._silence.copy()
        if not self._loop.follows_states:
            if feedforward is not None:
                raise ValueError(
                    "feedforward: only loops of an observer and a state feedback take one"
                )
            if reference is not None:
                self._reference[:] = _vector(reference, "reference", count)
            return
        if reference is not None:
            self._reference[:n] = _vector(reference, "reference", n)
        if feedforward is not None:
            m = len(self._rest_inputs)
            self._reference[n:] = _vector(feedforward, "feedforward", m)

    def _observe(self, observer: ObserverFeedback) -> NDArray:
        """The inputs that the state feedback asks for, in deviations from rest."""
        t = self.time
        n = observer.order_of_plant
        K, correct, self._advance = self._gains(observer, t)
        predicted = self._memory[: len(observer.A)]
        estimate = predicted[:n]
        if self._reading is not None:
            innovation = self._reading - observer.C @ predicted
            estimate = estimate + correct[:n] @ innovation
        self.estimate = estimate + self._rest
        if observer.tracked:
            sums = self._memory[len(observer.A) :]
            return -K[:, :n] @ estimate - K[:, n:] @ sums
        if self._reference is self._silence:
            return -K @ estimate
        return K @ (self._reference[:n] - estimate) + self._reference[n:]

    def _decide(self) -> NDArray:
        """The inputs that a controller of another kind asks for, in deviations from rest."""
        law = self._loop.law
        if self._reading is None:
            raise ValueError(
                "yhat: this controller predicts nothing, and cannot do without a sample"
            )
        columns = (self._memory[:, None], self._reading[:, None])
        if self._observer is not None:
            found = self._observer.estimate(self.time, *columns)[:, 0]
            self.estimate = found + self._rest
        given = (*columns, self._reference[:, None])
        return answer(law, self.time, *given, self._through)[0][:, 0]

    def _follow(self, applied: ArrayLike | None) -> None:
        """Move on from the sample before, with the inputs that acted there."""
        acting = self._asked
        if applied is not None:
            acting = _vector(applied, "applied", len(self._asked))
        change = acting - self._rest_inputs
        observer = self._observer
        if observer is not None and not self._recalls:
            self._predict(observer, change)
        elif self._reading is not None:
            sensed = self._reading - self._through @ change
            columns = (self._memory, sensed, change, self._reference)
            shaped = [column[:, None] for column in columns]
            self._memory = self._loop.law.follow(self.time - 1, *shaped)[:, 0]

    def _predict(self, observer: ObserverFeedback, change: NDArray) -> None:
        predicted = self._memory[: len(observer.A)]
        seen = observer.C @ predicted
        moved = observer.A @ predicted + observer.B @ change
        sensed = seen
        if self._reading is not None:
            sensed = self._reading
            if self._passes_on:
                sensed = sensed - observer.through @ change
            moved += self._advance @ (sensed - seen)
        if observer.tracked:
            picked = list(observer.tracked)
            read = sensed[picked] + observer.through[picked] @ change
            sums = self._memory[len(observer.A) :] + self._reference - read
            moved = np.concatenate([moved, sums])
        self._memory = moved

    def _gains(
        self, observer: ObserverFeedback, t: int
    ) -> tuple[NDArray, NDArray, NDArray]:
        """K, correct and advance at sample t, computed again after a sample was lost."""
        if self._reading is None and t not in self._lost and observer.varies:
            self._lost.add(t)
        if not self._lost and not self._is_public():
            return observer.gains(t)
        if self._filter is None:
            self._filter = Filtering(knowledge(self._loop), self._lost)
        step = self._filter.at(t)
        correct = step.correct
        if self._loop.form == "predictor":
            correct = np.zeros_like(correct)
        return observer.gains(t)[0], correct, step.advance

    def _is_public(self) -> bool:
        return self._loop.noise is None and self._filter is not None


class Filtering:
    """A filter's steps as far as they were asked for, with samples that were lost."""

    def __init__(self, known: Knowledge, lost: set[int]) -> None:
        self.known = known
        self._steps: Iterator[Step] = known.steps(sys.maxsize, lost)
        self._count = 0
        self._last: Step | None = None

    def at(self, t: int) -> Step:
        """The step at sample t, never one before the last that was asked for."""
        while self._count <= t:
            self._last = next(self._steps)
            self._count += 1
        if self._last is None:
            raise ValueError("t: expected a sample from 0 on")
        return self._last


def _vector(value: ArrayLike, name: str, size: int) -> NDArray:
    array = np.asarray(value, float)
    if array.shape == () and size == 1:
        array = array.reshape(1)
    if array.shape != (size,):
        raise ct.ControlDimension(
            f"{name}: expected shape ({size},), got {array.shape}"
        )
    if not math.isfinite(array.sum()):
        raise ValueError(f"{name}: expected finite numbers")
    return array
