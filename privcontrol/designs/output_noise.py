"""Output noise, which is added to a plant's outputs over one horizon in time order.

It is a sum of parts, such as the plant's own free response from a random initial state and
independent noise at each sample. It may not be used beyond its horizon, if it has one.

The noise is drawn from the nominal plant, and the secret's response is the true plant's.
`privcontrol.noise.shift` and the regions say how far it is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import control as ct
import numpy as np
from numpy.typing import NDArray

from .._figures import AxesLike
from ..core.adjacency import Adjacency
from ..noise.iosystem import (
    create_noise_iosystem,
    numbered,
    plot_samples,
    plot_spectrum,
)
from ..noise.parts import (
    Correlated,
    DrawnOnce,
    Pricing,
    Structured,
)
from ..noise.process import SummedNoise
from ..noise.within import room_of
from ..numerics.checks import Seed
from ..numerics.labels import html_table
from ..numerics.saved import Saved, write
from ..numerics.thresholds import ROUNDED
from ..privacy.guarantee import PrivacyGuarantee, Scope, shown
from ..privacy.record import Curator, Record, curated, of_run, record
from .guarantees import guarantee_of_models
from .request import Models
from .resized import resized


@dataclass(frozen=True, repr=False, eq=False)
class OutputNoise(SummedNoise, Saved):
    """Hold noise for a plant's outputs and its guarantee; see `design_output_noise`.

    Two are equal if plant, horizon, parts and guarantee are.

    Attributes
    ----------
    plant : control.StateSpace
        The plant of the design; ``plant_data`` has the same, read-only.
    kept : Bound or None
        Limits that the noise never exceeds, see ``bound`` of `design_output_noise`.
    horizon : int or inf
        Number of samples T that the guarantee covers. Noise without a horizon starts in its
        stationary law. Its `stream` is endless, `sample` takes the number of samples, and
        ``over(T)`` is the noise of a run of T samples.
    family : {"gaussian", "laplace"}
        Law of the standard entries eta.
    parts : tuple of NoisePart
        Its summands, such as `Structured` and `White`.
    guarantee : PrivacyGuarantee
    design : NoiseDesign or StationaryDesign
        Cost, certified gap, and the moves at which the guarantee is attained. Without a
        horizon the cost is the mean one of a sample.
    request : Request or None
        The request of the design.
    process : NoiseProcess
        The noise as a random process: its law, the draws of its standard entries, and
        the map to the outputs.

    See Also
    --------
    design_output_noise, create_noise_iosystem, eavesdropper, PrivateLoop

    Examples
    --------
    >>> import privcontrol as pc
    >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    >>> adjacency = pc.StateAdjacency({"position": 1.0})
    >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=100,
    ...     budget=budget, adjacency=adjacency)
    >>> noise
    OutputNoise(gaussian, structured rank 1, 1 output, horizon 100)
    >>> noise.sample(trials=3, rng=0).shape
    (1, 3, 100)

    Noise without a horizon is a linear system of low order:

    >>> import control as ct, numpy as np
    >>> names = dict(states=["air"], inputs=["people"], outputs=["temperature"])
    >>> room = ct.ss(0.9, 1, 1, 0, 300.0, **names)
    >>> endless = pc.design_output_noise(room, horizon=np.inf, budget=budget,
    ...     adjacency=pc.DisturbanceAdjacency({"people": 0.1}))
    >>> endless
    OutputNoise(gaussian, filtered of order 1, 1 output, no horizon)
    >>> endless.std.round(3), round(endless.design.gap, 4)
    (array([0.274]), 0.0091)
    >>> endless.sample(trials=2, rng=0, horizon=50).shape
    (1, 2, 50)
    """

    def _saved_fields(self) -> dict[str, object]:
        names = ("horizon", "family", "parts", "request", "guarantee")
        saved = {name: getattr(self, name) for name in names}
        # what the noise leaves of further changes follows from its parts
        promise = replace(self.guarantee, correlations=None)
        saved["guarantee"] = promise
        if self.request is not None:  # of which all words follow
            kept = ("loss", "releases", "quoted_delta")
            saved["guarantee"] = {name: getattr(promise, name) for name in kept}
        if self.kept is not None:
            saved["kept"] = self.kept
        return {"plant": self.plant_data, **saved}

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> OutputNoise:
        """Return the noise of a file, with its claim as it stands and no design.

        Of a promise that a file holds without words the scope is not stated yet.
        """
        plant = saved.pop("plant")
        claimed = saved["guarantee"]
        if isinstance(claimed, dict):
            scope = Scope.foreign(saved["request"].adjacency)
            saved["guarantee"] = PrivacyGuarantee(scope=scope, **claimed)
        for part in saved["parts"]:
            if isinstance(part, Structured) and part.plant != plant:
                raise ValueError("path: a part of the noise is that of another plant")
            if part.white.shape != (len(plant.outputs),):
                raise ValueError("path: a part of the noise has other outputs")
        return cls(plant_data=plant, design=None, **saved)

    @property
    def plant(self) -> ct.StateSpace:
        return self.plant_data.statespace()

    @property
    def bound(self) -> NDArray[np.float64] | None:
        """Largest size of the noise at each output (p,), None for other noise.

        It is infinite at outputs without one.
        """
        return None if self.kept is None else self.kept.limits

    @property
    def leak(self) -> float:
        """The probability with which noise within a bound may reveal the secret, or zero."""
        return self.guarantee.loss.failure if self.kept is not None else 0.0

    @property
    def acceptance(self) -> float:
        """The probability at least that a draw is within the bound, or one.

        A draw is a life, or a block of a run of any length.
        """
        return 1.0 if self.kept is None else room_of(self.parts, self.kept).acceptance

    @property
    def factor(self) -> NDArray[np.float64] | None:
        """S (n, r) of the structured part C A^t S eta, None without one."""
        return getattr(self.process.total.part(Structured), "factor", None)

    @property
    def _own_gain(self) -> float | None:
        """How many times the ``factor`` of the request the noise is, None without one."""
        if self.request is None or self.request.factor is None:
            return None
        part = self.process.total.part(Correlated)
        shape = self.factor if part is None else part.root
        once = self.process.total.part(DrawnOnce)
        if once is not None:  # padding may follow
            shape = once.columns[:, : self.request.factor.shape[1]]
        if shape is None:  # the floor alone is enough
            return 0.0
        gain = np.linalg.norm(shape) / np.linalg.norm(self.request.factor)
        return 1.0 if abs(gain - 1) < ROUNDED else float(gain)

    def __repr__(self) -> str:
        gain = self._own_gain
        if gain is None:
            return super().__repr__()
        manner = "as given" if gain == 1 else f"times {gain:.4g}"
        return f"{super().__repr__()[:-1]}, factor {manner})"

    @property
    def initial_state_covariance(self) -> NDArray[np.float64] | None:
        """Covariance v S S^T (n, n) of the random initial state.

        v is 1 for Gaussian and 2 for Laplace noise. None without a structured part.
        """
        if self.factor is None:
            return None
        return self.process.law.unit_variance * self.factor @ self.factor.T

    def with_std(self, std: float) -> OutputNoise:
        """Scale the noise until its largest standard deviation is ``std``.

        Parameters
        ----------
        std : float
            In the unit of the output at which the noise is largest.

        Returns
        -------
        OutputNoise
            With the guarantee that this noise level buys, certified again.

        Raises
        ------
        ValueError
            If the noise records no adjacency, or is independent Laplace noise with
            a budget of its own for several models.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> float(noise.with_std(20.0).std.max().round(6))
        20.0
        """
        return resized(self, std)

    @property
    def system(self) -> ct.StateSpace:
        """The noise as a StateSpace from standard entries eta to gamma, for analysis.

        Over a horizon it equals `create_noise_iosystem`: entries that are drawn once,
        as all of structured noise, enter at sample 0 and are zero after it, and the
        state starts at zero. Without a horizon its inputs are the entries that are
        fresh at every sample, and the entries of the first state, which has its
        stationary law, are none.

        Raises
        ------
        ValueError
            If the noise is correlated in a way that has no system of finite order.
        """
        model = self.process.total.model
        if model is None:
            raise ValueError(
                "system: correlated noise has no system of finite order; "
                "noise.covariance(t, s) has its covariances, and "
                "create_noise_iosystem(noise) passes its samples through a unit gain"
            )
        if self.horizon.ends:
            return create_noise_iosystem(self)
        return ct.ss(
            *model.matrices,
            self.plant_data.dt,
            inputs=numbered("eta", self.process.total.width),
            outputs=numbered("gamma", self.process.outputs),
            states=numbered("xi", model.order),
            name="noise",
        )

    def plot(
        self,
        *,
        samples: int = 5,
        rng: Seed = 0,
        loop: Pricing | None = None,
        ax: AxesLike = None,
        time_unit: str | None = None,
        units: Mapping[str, str] | None = None,
    ) -> ct.ControlPlot:
        """Plot simulated samples of the noise at each output within two deviations.

        Without a horizon plot the spectra of the noise and of the hidden effect, a
        secret that lasts at the length that shows most at each frequency.

        Parameters
        ----------
        samples : int, optional
            How many samples to draw, over a horizon.
        rng : int or Generator, optional
            Their seed.
        loop : PrivateLoop, optional
            With weights Q and R: without a horizon its cost is drawn next to the spectra.
        ax : Axes or array of Axes, optional
            One for each panel, new ones by default.
        time_unit, units : optional
            Labels, as in `PrivateResponse.plot`.

        Returns
        -------
        control.ControlPlot

        Raises
        ------
        ValueError
            If there are other numbers of axes than panels, or too many points.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> noise.plot(samples=3).axes.shape
        (1, 1)
        """
        delta = self.guarantee.quoted_delta
        title = (
            f"Noise for \N{GREEK SMALL LETTER EPSILON} = "
            f"{shown(self.guarantee.epsilon(delta))} at "
            f"\N{GREEK SMALL LETTER DELTA} = {shown(delta)}"
        )
        if not self.horizon.ends:
            return plot_spectrum(self, title, ax, loop, time_unit, units)
        return plot_samples(self, title, samples, rng, ax, time_unit, units)

    def guarantee_for(
        self,
        models: ct.StateSpace | Models,
        *,
        adjacency: Adjacency | Sequence[Adjacency] | None = None,
    ) -> PrivacyGuarantee:
        """Return the guarantee when the true plant is any of several models.

        The noise stays as it is, and so does the secret unless another adjacency is
        given.

        Parameters
        ----------
        models : StateSpace, sequence of StateSpace, PlantBox, or PlantPolytope
            Plants with the nominal plant's outputs and sampling time, and its state and
            input labels as far as the adjacency names them. A time-varying plant is a
            list of StateSpaces, and several are a list of lists; for noise of such a
            plant one list is one model. The nominal plant is covered only if it is
            among them. For a box and a polytope the result is an upper bound.
        adjacency : Adjacency or list of Adjacency, optional
            Another secret than the one that the noise was designed for, or several ones.

        Returns
        -------
        PrivacyGuarantee
            Of the noise as it is; its ``assumptions`` name the models.

        Raises
        ------
        NotRealizableError
            If a model's moves leave the column space of noise without a floor, which is
            decided exactly.
        control.ControlDimension
            If a model has other outputs or another sampling time.
        TypeError
            If something is no plant or no adjacency.

        Examples
        --------
        >>> import privcontrol as pc
        >>> vehicle, wrong = pc.plants.vehicle(), pc.plants.vehicle()
        >>> wrong.A[0, 0] = 0.999
        >>> noise = pc.design_output_noise(vehicle, horizon=100, floor=1.0,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}),
        ...     budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2))
        >>> round(noise.guarantee_for([wrong]).gdp, 4)
        0.6368
        """
        return guarantee_of_models(self, models, adjacency)

    @curated
    def record(self, **known: Unpack[Curator]) -> Record:
        """Return the record for the registry of deployments of OpenDP and NIST.

        The record of the guarantee, with the kind of noise and the trust model; see
        `PrivacyGuarantee.record` for the parameters.

        Parameters
        ----------
        name, curators, use, region, date : optional
            As for `PrivacyGuarantee.record`.

        Returns
        -------
        Record
            A dict, and YAML as text.

        Examples
        --------
        >>> import numpy as np, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> print(str(noise.record(name="A vehicle")).splitlines()[0])
        url_slug: "a-vehicle"
        """
        return record(self.guarantee, of_run(self.guarantee, repr(self)), **known)

    def save(self, path: str | Path) -> None:
        """Write the noise to a design file, which `privcontrol.load` certifies again.

        The file is JSON with exact numbers. It is public: it says how large the noise is,
        and nothing of a draw.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced.

        Raises
        ------
        OSError
            If the path cannot be written.
        ValueError
            For a run of noise without a horizon.

        Examples
        --------
        >>> import tempfile, privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
        >>> noise = pc.design_output_noise(pc.plants.vehicle(), horizon=5, budget=budget,
        ...     adjacency=pc.StateAdjacency({"position": 1.0}), models="exact")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = noise.save(folder + "/noise.json")
        ...     print(pc.load(folder + "/noise.json") == noise)
        True
        """
        if self.horizon != (self.guarantee.scope.horizon or self.horizon):
            raise ValueError(
                "save: expected noise for all samples of its guarantee, got a run or a "
                "window of it; save the noise of which it is a run"
            )
        write(path, self)

    def _repr_html_(self) -> str:
        """Return the noise and its guarantee as tables for notebooks."""
        stds = []
        for name, std in zip(self.plant_data.outputs, self.std, strict=True):
            stds.append(f"{name}: {std:.4g}")
        rows = {"Noise": repr(self), "Standard deviation": ", ".join(stds)}
        return html_table(rows) + self.guarantee._repr_html_()
