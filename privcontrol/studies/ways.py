"""What to expect: each way's noise next to the secret and the signal."""

from __future__ import annotations

import html
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeGuard, cast, overload

import control as ct
import numpy as np
from numpy.typing import NDArray

from ..core.adjacency import Adjacency
from ..core.query import NO_NOISE
from ..designs.design import design_output_noise
from ..designs.output_noise import OutputNoise
from ..designs.request import joined
from ..loop.data import LoopData
from ..loop.loop import PrivateLoop
from ..loop.moments import Expected, InSteadyState, OverRun
from ..numerics.arguments import helpful_arguments
from ..numerics.checks import instance_of
from ..numerics.errors import PrivacyError, UncertifiableError
from ..numerics.thresholds import PATIENCE, ROUNDED
from ..privacy.budget import PrivacyBudget
from ..privacy.horizon import NO_HORIZON, Horizon, Run, horizon_of
from ..privacy.sentences import about, in_percent, percent
from ..response import pandas
from ..secrets.disturbance import DisturbanceAdjacency
from ..secrets.effects import effects_of, growth_of
from ..secrets.secrets import Secrets
from ..systems.composed import with_local_loop
from ..systems.linear import LinearSystem, Plant, reachability_gramian, spectral_radius
from ..systems.varying import Plants, plant_of
from .candidates import unmeasured

if TYPE_CHECKING:
    import pandas as pd

#: Samples times outputs up to which dense noise takes about a second: for changes of any
#: kind, for those of one level and at most ``_SHORT`` samples, and for those of one sample.
#: Independent noise takes about a second for as many as the last one.
_MOST_ENTRIES, _MOST_LEVEL, _MOST_SINGLE = 120, 400, 1000

#: Samples of a short change.
_SHORT = 8

#: Speed: a run of at least so many times a change's length, by whose end the plant's modes
#: have fallen to such a share, has noise of low order, within about a second.
_MANY_CHANGES, _FORGOTTEN = 24, 1e-4

#: Share of the signal, or of the loop's cost, up to which noise is called small, and from
#: which it is too much. A secret as large as the signal is beyond the latter.
_SMALL, _LARGE = 0.15, 1.0

#: Share of the price without any reading from which readings hardly help the loop.
_HARDLY_BETTER = 0.8

#: Increase from which three digits of it are shown.
_MANY_TIMES = 10.0

_INDEPENDENT = "independent"

#: How each design says that it is not needed.
_NOTHING_SHOWS = NO_NOISE.partition(";")[0]

#: Laws other than the Gaussian one, by what a way is called.
_LAWS = {"Laplace law": "laplace", "ball law": "ball", "truncated law": "truncated"}

#: Outputs that the table shows at most.
_SHOWN = 12


@dataclass(frozen=True)
class Option:
    """One way to hide a secret, and its effect on each output.

    Attributes
    ----------
    way : str
    std : ndarray, shape (p,)
        Standard deviations of the noise, the largest over time, in the outputs' units.
    secret : ndarray, shape (p,)
        The most that the secret changes each output, of several changes the effect of
        one. The growth of unstable modes is left out, as `verdict` says.
    signal : ndarray, shape (p,), or None
        Root mean squares of the true outputs in the loop, in steady state or over the
        run; None without a loop.
    price : float or None
        Relative increase of the loop's cost, with the filter designed for this noise,
        or with the filter of `private_loop` as it is. The cost is per sample in steady
        state. Over a horizon it is the total of a run of the way's own horizon, with
        `terminal`, from the loop's prior of x(0), and None of a loop without one. It is
        also None without a loop, and for a controller on site.
    detection : float
        Largest share of runs with the secret that a test detects which is wrong in 5 % of
        the runs without it, rounded up.
    verdict : str
    noise : OutputNoise
        The noise itself, for its own plant ``noise.plant``.

    See Also
    --------
    studies.Options, options
    """

    way: str
    std: NDArray[np.float64]
    secret: NDArray[np.float64]
    signal: NDArray[np.float64] | None
    price: float | None
    detection: float
    verdict: str
    noise: OutputNoise


@dataclass(frozen=True)
class Options(Sequence[Option]):
    """Ways to hide a secret, as a list and as a table.

    Attributes
    ----------
    outputs : tuple of str
        Labels of the plant's outputs.
    found : tuple of Option
    left_out : dict
        Why each other way is not there, by its name.
    blind : float or None
        Relative increase of the loop's cost, like `Option.price`, where the controller
        reads nothing. Noise costs no more where the filter is designed for it
        (`private_lqg`), and may with a filter of your own. None without a price, in
        steady state for a plant that is not stable, over a run without ``P0``, and
        where outputs follow references, as with integral action.

    See Also
    --------
    options, studies.Option
    """

    outputs: tuple[str, ...]
    found: tuple[Option, ...]
    left_out: dict[str, str]
    blind: float | None = None

    @overload
    def __getitem__(self, index: int) -> Option: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Option, ...]: ...

    def __getitem__(self, index: int | slice) -> Option | tuple[Option, ...]:
        return self.found[index]

    def __len__(self) -> int:
        return len(self.found)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row for each way and output, with all of its numbers.

        Returns
        -------
        pandas.DataFrame

        Examples
        --------
        >>> import privcontrol as pc
        >>> found = pc.options(pc.plants.vehicle(), horizon=5,
        ...     budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        ...     adjacency=pc.StateAdjacency({"position": 1.0}))
        >>> len(found.to_pandas()) == len(found.found)
        True
        """
        return pandas().DataFrame(list(self._rows()))

    def _rows(self) -> Iterator[dict[str, Any]]:
        for option in self.found:
            for k, output in enumerate(self.outputs):
                yield {
                    "way": option.way,
                    "output": output,
                    "noise": option.std[k],
                    "secret": option.secret[k],
                    "signal": None if option.signal is None else option.signal[k],
                    "price": option.price,
                    "detection": option.detection,
                    "verdict": option.verdict,
                }

    def _shown(self) -> tuple[str, ...]:
        """Return the outputs that the table shows: those that the secret changes most."""
        if not self.found or len(self.outputs) <= _SHOWN:
            return self.outputs
        effects = np.max([option.secret for option in self.found], axis=0)
        most = sorted(np.argsort(-effects, kind="stable")[:_SHOWN])
        return tuple(self.outputs[k] for k in most)

    def _not_shown(self) -> list[str]:
        """Return a line that says which outputs the table leaves out, if it does."""
        if len(self._shown()) == len(self.outputs):
            return []
        return [
            f"shown: the {_SHOWN} of {len(self.outputs)} outputs that the secret changes "
            "most; .to_pandas() has all"
        ]

    def _cells(self) -> list[tuple[str, ...]]:
        """Return the lines of the table, the first one its heads."""
        heads = (
            "way",
            "output",
            "noise",
            "secret",
            "signal",
            "price",
            "found",
            "verdict",
        )
        cells: list[tuple[str, ...]] = [heads]
        shown = self._shown()
        rows = [row for row in self._rows() if row["output"] in shown]
        for row in rows:
            first = row["output"] == shown[0]
            signal = row["signal"]
            cells.append(
                (
                    row["way"] if first else "",
                    row["output"],
                    about(row["noise"], 3),
                    about(row["secret"], 3),
                    "" if signal is None else about(signal, 3),
                    _percent(row["price"]) if first else "",
                    f"{percent(row['detection'])} %" if first else "",
                    row["verdict"] if first else "",
                )
            )
        return cells

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) for cell, width in zip(line, widths, strict=True)
            ).rstrip()
            for line in cells
        ]
        lines += [f"left out: {way}: {why}" for way, why in self.left_out.items()]
        lines += self._not_shown()
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Options({len(self.found)} ways, {len(self.left_out)} left out)"

    def _repr_html_(self) -> str:
        lines = ""
        for k, line in enumerate(self._cells()):
            kind = "td" if k else "th"
            row = "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in line)
            lines += f"<tr>{row}</tr>"
        note = "".join(f"<p>{html.escape(line)}</p>" for line in self._not_shown())
        return f"<table>{lines}</table>{note}"


@dataclass(frozen=True)
class _Way:
    """A way to hide a secret: its name, its plant, and the arguments of its design."""

    name: str
    plant: Plants
    changes: dict[str, Any]


@helpful_arguments
def options(
    sys: Plants,
    *,
    horizon: float,
    budget: PrivacyBudget,
    adjacency: Adjacency,
    loop: PrivateLoop | None = None,
) -> Options:
    """Compare ways to hide a secret before a design is chosen.

    The ways are noise shaped like the secret's effect, independent noise, other laws, the
    other shape of change, a horizon twice as long or none, and, with a loop, its own
    controller kept on site. Each is designed and certified as `design_output_noise` does
    with ``models="exact"``. A way that does not exist, or comes after some seconds, is
    left out with the reason. So is one that would take long over a horizon of T samples:
    for a changing input shaped noise is designed up to T p = 80, for short changes up to
    120 (any shape), 400 (one level) or 1,000 (one sample). Runs may be of any length
    for changes of at most T / 24 samples, if the plant's modes fall to 1e-4 within the run.
    Independent noise is designed up to T p = 1,000 and T p n = 20,000 for n states.
    `design_output_noise` takes the time.

    Parameters
    ----------
    sys : control.StateSpace or list of control.StateSpace
        Discrete-time plant with p outputs, or one for each sample of the horizon.
    horizon : int or inf
        Number of samples that are published, or, for one plant, one run of any length.
    budget : PrivacyBudget
    adjacency : Adjacency
        What must be hidden.
    loop : PrivateLoop, optional
        The loop without privacy. Its outputs are the signal that the noise is compared
        with, and its controller is the local loop. Without a horizon its filter prices
        the noise. A loop of `private_lqg` with ``P0`` is compared by the cost of its
        whole run, behind noise of least variance.

    Returns
    -------
    Options
        A list of records that prints as a table.

    Raises
    ------
    ValueError
        If no way hides the secret. The message has the reason of each.
    TypeError
        If the loop is no `PrivateLoop`.

    See Also
    --------
    design_output_noise, horizon_growth, tradeoff, studies.Options

    Examples
    --------
    >>> import control as ct, numpy as np, privcontrol as pc
    >>> room = ct.ss(0.9, [[1, 0.1]], 1, 0, 300.0, inputs=["heat", "people"],
    ...              outputs=["air"])
    >>> public = pc.private_lqg(room, 1, 1, 1e-2, 1e-2, controls=["heat"])
    >>> ways = pc.options(room, horizon=np.inf, loop=public,
    ...                   budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
    ...                   adjacency=pc.DisturbanceAdjacency({"people": 1.0}))
    >>> for way in ways:
    ...     print(f"{way.way}: {way.std[0]:.2f} for {way.secret[0]:.2f}")
    shaped: 0.28 for 0.10
    independent: 0.43 for 0.10
    controller on site: 0.23 for 0.10
    >>> print(ways[0].verdict)
    the noise is 2.8 times the secret and 1.9 times your signal; the loop costs 48.6 % more, 106.5 % without any reading: the loop feels it
    """
    instance_of(budget, PrivacyBudget, "budget", "PrivacyBudget(epsilon=1, delta=1e-2)")
    if loop is not None:
        instance_of(loop, PrivateLoop, "loop", "private_lqg(...)")
    samples = horizon_of(horizon)
    public = None if loop is None else _Public.of(loop, samples)
    plant = plant_of(sys, horizon)
    if plant.varies and not samples.ends:
        raise ValueError(
            "horizon: the ways are compared sample by sample, and without a horizon noise "
            "for a list of plants has a period as one sample; pass the number of samples, "
            "or ask design_output_noise"
        )
    adjacency = joined(adjacency)
    began = time.monotonic()
    found: list[Option] = []
    left_out: dict[str, str] = {}
    asked = {"horizon": samples, "budget": budget, "adjacency": adjacency}
    ways = list(_ways(sys, plant, public, asked))
    # independent noise takes no time, shaped noise may take all of it
    for way in sorted(ways, key=lambda way: way.name != _INDEPENDENT):
        if time.monotonic() - began > PATIENCE:
            left_out[way.name] = f"not tried: the others took {PATIENCE:g} s"
            continue
        try:
            found.append(_tried(way, asked, public))
        except _NotOffered as error:
            left_out[way.name] = str(error)
    order = [way.name for way in ways]
    found.sort(key=lambda option: order.index(option.way))
    left_out = {name: left_out[name] for name in order if name in left_out}
    if not found:
        reasons = _reasons(left_out)
        if any(why.startswith(_NOTHING_SHOWS) for why in left_out.values()):
            raise ValueError(
                f"options: the secret does not show in the published outputs ({reasons})"
            )
        raise ValueError(f"options: no way hides this secret ({reasons})")
    blind = None
    if public is not None and any(option.price is not None for option in found):
        blind = public.blind
    return Options(tuple(plant.outputs), tuple(found), left_out, blind)


@dataclass(frozen=True, eq=False)
class _Public:
    """The loop without privacy that noise is compared with, and what costs are of.

    ``expected`` is a sample in steady state, or a run from the loop's prior.
    """

    loop: PrivateLoop
    expected: Expected

    @classmethod
    def of(cls, loop: PrivateLoop, samples: Horizon) -> _Public:
        """Return it for runs of so many samples.

        `ValueError` for a loop that has neither a run nor a steady state.
        """
        public = loop.data.with_noise(None)
        design = public.design
        if samples.ends and design is not None and design.is_kalman:
            public.weights.check_run(samples)
            law = design.law(public.side, public.weights, None, samples)
            timed = replace(design, horizon=samples)
            times = public.side.plant.step * np.arange(samples, dtype=float)
            return cls(
                PrivateLoop(replace(public, law=law, design=timed)),
                OverRun(design.P0, times),
            )
        if public.dynamics.varies:
            raise ValueError(
                "loop: expected constant gains and a constant plant, whose signals have a "
                "steady state, or over a horizon the loop of private_lqg with P0, which has "
                "a run; got one that varies from sample to sample. Pass the horizon of its "
                "run, or leave the loop out, which compares the noise with the secret alone"
            )
        return cls(PrivateLoop(public), InSteadyState())

    @property
    def is_of_run(self) -> bool:
        """Return whether costs are those of a run."""
        return isinstance(self.expected, OverRun)

    @cached_property
    def signal(self) -> NDArray[np.float64]:
        """Root mean squares (p,) of the true outputs."""
        return np.sqrt(self.expected.output_squares(self.loop.data))

    @cached_property
    def total(self) -> float:
        """The cost of the loop without noise."""
        return self.expected.total(self.loop.data)

    def price(self, noise: OutputNoise) -> float:
        """Return how much more the loop costs behind the noise."""
        behind = self.loop.data.with_noise(noise)
        return self.expected.total(behind) / self.total - 1

    @cached_property
    def blind(self) -> float | None:
        """How much more the loop costs where nothing is read, or None.

        A loop whose outputs follow references is for more than its cost, and nothing is
        said of it. Without a prior nothing is known of where a run begins.
        """
        loop = self.loop.data
        if loop.law.followed:
            return None
        if not isinstance(self.expected, OverRun):
            return _blind_in_steady_state(loop, self.total)
        if self.expected.P0 is None:
            return None
        silent = unmeasured(loop, loop.horizon)
        return self.expected.total(silent) / self.total - 1


def _blind_in_steady_state(loop: LoopData, public: float) -> float | None:
    """Return how much more than a public loop a sample costs where nothing is read.

    The best input is then zero, and QN alone drives the plant's states. None without a
    steady state.
    """
    plant, weights = loop.side.plant, loop.weights
    roots = weights.drive_roots
    if plant.varies or "disturbance" not in roots:
        return None
    entering = roots["disturbance"]
    states = LinearSystem(plant.A, entering, plant.C, plant.C @ entering)
    if spectral_radius(states) >= 1:
        return None
    spread = reachability_gramian(states)
    cost = float(np.trace(cast("NDArray[np.float64]", weights.Q) @ spread))
    return cost / public - 1


def _reasons(left_out: dict[str, str]) -> str:
    """Return why each way is left out, what several of them share only once."""
    ways: dict[str, list[str]] = {}
    for way, why in left_out.items():
        ways.setdefault(why, []).append(way)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in ways.items())


class _NotOffered(Exception):
    """A way to hide a secret does not exist, or takes too long to be looked at."""


def _ways(
    sys: Plants, plant: Plant, public: _Public | None, asked: dict[str, Any]
) -> Iterator[_Way]:
    """Yield the ways that may exist, in the order in which they are shown."""
    horizon, adjacency = asked["horizon"], asked["adjacency"]
    yield _Way("shaped", sys, {})
    yield _Way(_INDEPENDENT, sys, {"family": "iid-gaussian"})
    if not Secrets(adjacency).disturbances:
        if horizon.ends and asked["budget"].epsilon:
            for name, law in _LAWS.items():
                yield _Way(f"shaped, {name}", sys, {"family": law})
        yield _Way("shaped, best law", sys, {"family": "auto"})
    if isinstance(adjacency, DisturbanceAdjacency) and adjacency.duration > 1:
        other = "level" if adjacency.shape == "any" else "any"
        name = {"any": "any shape of change", "level": "one level of change"}[other]
        yield _Way(name, sys, {"adjacency": _with_shape(adjacency, other)})
    if horizon.ends and not plant.varies:
        yield _Way(f"{2 * horizon:g} samples", sys, {"horizon": Run(2 * horizon)})
        yield _Way("a run of any length", sys, {"horizon": NO_HORIZON})
    if public is not None and isinstance(sys, ct.StateSpace):
        controller = public.loop.controller
        if isinstance(controller, ct.StateSpace):
            yield _Way("controller on site", sys, {"local": controller})


def _with_shape(adjacency: DisturbanceAdjacency, shape: str) -> Callable[[], Adjacency]:
    """Return how to make the adjacency of another shape, which may be refused."""
    return lambda: replace(adjacency, shape=shape)


def _tried(way: _Way, asked: dict[str, Any], public: _Public | None) -> Option:
    """Return a way with its noise, or raise what is said where it is left out."""
    given = asked | {"models": "exact"} | way.changes
    try:
        if callable(given["adjacency"]):
            given["adjacency"] = given["adjacency"]()
        _check_time(way.plant, given)
        sys = way.plant
        if "local" in given:
            sys = _on_site(cast("ct.StateSpace", sys), given.pop("local"))
        priced = _priced(public, given["horizon"]) if sys is way.plant else None
        if priced is not None and not given["horizon"].ends:
            given["weight"] = priced.loop
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            noise = design_output_noise(sys, **given)
    except (ValueError, UncertifiableError, PrivacyError) as error:
        raise _NotOffered(str(error)) from error
    plant = noise.plant_data
    hidden = noise.request.secret
    secret = effects_of(hidden, plant, given["horizon"])
    signal = None if public is None else public.signal
    price = None if priced is None else priced.price(noise)
    return Option(
        way.name,
        noise.std,
        secret,
        signal,
        price,
        noise.guarantee.detection(),
        _verdict(
            noise.std,
            secret,
            signal,
            price,
            None if priced is None else priced.blind,
            _measured(hidden, plant),
            "loop" if priced is None or not priced.is_of_run else "run",
        ),
        noise,
    )


def _priced(public: _Public | None, samples: Horizon) -> _Public | None:
    """Return the loop whose cost of such a run counts, None without such a cost.

    A loop in steady state has no cost over a horizon, and one whose gains vary none
    without.
    """
    if public is None:
        return None
    if not public.is_of_run:
        return None if samples.ends else public
    if samples == public.loop.data.horizon:
        return public
    try:
        return _Public.of(public.loop, samples)
    except ValueError:  # its gains, or lists of its weights, are for other runs
        return None


def _measured(secret: Secrets, plant: Plant) -> str:
    """Return the subject of the secret's largest effects, in words."""
    words = secret.one_move
    return f"{words} (unstable growth apart)" if growth_of(plant) > 1 else words


def _percent(increase: float | None) -> str:
    """Return an increase in percent, rounded up; it may be above 100 %."""
    if increase is None:
        return ""
    if increase >= _MANY_TIMES:
        digits = 10 ** (math.floor(math.log10(increase)) - 2)
        return f"{100 * digits * math.ceil((increase - ROUNDED) / digits):,.0f} %"
    return f"{in_percent(increase - ROUNDED):g} %"


def _check_time(sys: Plants, given: dict[str, Any]) -> None:
    """Leave out noise that takes long."""
    horizon, adjacency = given["horizon"], given["adjacency"]
    if not (Secrets(adjacency).disturbances and horizon.ends):
        return
    first = sys if isinstance(sys, ct.StateSpace) else sys[0]
    entries = horizon * first.noutputs
    if given.get("family", "").startswith("iid"):
        is_long = entries > _MOST_SINGLE
    else:
        is_long = entries > _most_entries(adjacency)
        is_long &= not _has_low_order(sys, adjacency, horizon)
    if is_long:
        raise _NotOffered(
            f"{entries:g} samples of outputs take long to design; ask design_output_noise"
        )


def _has_low_order(sys: Plants, adjacency: Adjacency, horizon: float) -> bool:
    """Return whether noise of low order is likely to be within its gap of the best."""
    if not isinstance(sys, ct.StateSpace) or not _is_plain(adjacency):
        return False
    left = spectral_radius(Plant.of(sys)) ** int(horizon)
    return horizon >= _MANY_CHANGES * adjacency.duration and left <= _FORGOTTEN


def _is_plain(adjacency: Adjacency) -> TypeGuard[DisturbanceAdjacency]:
    """Return whether the secret is one change, of one level or of any shape."""
    if not isinstance(adjacency, DisturbanceAdjacency):
        return False
    is_plain = adjacency.norm == "single" and adjacency.profiles is None
    return is_plain and not adjacency.is_moving and adjacency.events == 1


def _most_entries(adjacency: Adjacency) -> int:
    """Return the samples times outputs up to which dense noise takes about a second."""
    if not _is_plain(adjacency):
        return _MOST_ENTRIES
    if adjacency.duration == 1:
        return _MOST_SINGLE
    is_short_level = adjacency.shape == "level" and adjacency.duration <= _SHORT
    return _MOST_LEVEL if is_short_level else _MOST_ENTRIES


def _on_site(sys: ct.StateSpace, controller: ct.StateSpace) -> ct.StateSpace:
    """Return the plant with the cloud's controller on site, reading true outputs."""
    local = controller.copy()
    references = controller.input_labels[sys.noutputs :]
    local.update_names(inputs=[*sys.output_labels, *references])
    return with_local_loop(sys, local)


def _verdict(
    std: NDArray[np.float64],
    secret: NDArray[np.float64],
    signal: NDArray[np.float64] | None,
    price: float | None,
    blind: float | None,
    measured: str = "the secret",
    costing: str = "loop",
) -> str:
    """Say in words what the noise means at the output where it matters most.

    ``measured`` is what the numbers of the secret are about, ``costing`` what costs.
    """
    seen = secret > 0
    if not seen.any():
        return "the secret does not show in any output: no noise is needed"
    times = float(np.max(std[seen] / secret[seen]))
    said = f"the noise is {about(times)} times {measured}"
    if signal is None or not (signal > 0).all():
        return said
    share = float(np.max(std / signal))
    said += f" and {about(share)} times your signal"
    loss = share
    if price is not None:
        said += f"; the {costing} costs {_percent(price)} more"
        loss = price
        if blind is not None:
            said += f", {_percent(blind)} without any reading"
            if blind <= _SMALL:
                return f"{said}: it hardly needs them, publish none"
            if price > blind * (1 + ROUNDED):
                return (
                    f"{said}: too much, as this controller is not designed for the noise; "
                    "private_lqg designs one that is, over a horizon with P0="
                )
            if price > _HARDLY_BETTER * blind:
                return f"{said}: too much, readings hardly help it now"
    if loss <= _SMALL:
        return f"{said}: small"
    if loss < _LARGE:
        return f"{said}: the loop feels it"
    if float(np.max(secret / signal)) < _LARGE:
        return f"{said}: too much"
    return (
        f"{said}: no noise will do, the secret is as large as the signal; aggregate, "
        "delay, or ask for consent"
    )
