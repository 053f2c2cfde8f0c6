"""The noise of a request that costs a loop least, when its filter knows the noise.

For secrets of the state it is the optimum of a convex program, see `noise_program`. For
other secrets filter and noise change in turns: the cost of privacy with the best filter
is a convex function of the inverse covariance of the noise, and the noise that costs the
filter of another noise least never costs more. Where the loop hardly feels it, such noise
may be a hundred times as large for a thousandth of the cost, so over a horizon it has a
small price.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.blocks import cheapest_blocks, cheapest_rows, rank_read
from ..designs.designed import designed
from ..designs.laws import laws_for
from ..designs.output_noise import OutputNoise
from ..designs.problem import DesignProblem
from ..numerics.errors import UncertifiableError
from ..numerics.progress import progress_bar
from ..numerics.thresholds import ALIKE, MOST_ROUNDS
from ..privacy.radial_design import ball_rate_of
from .data import LoopData
from .moments import Expected, expected_total
from .noise_program import NoiseProgram
from .optimality import check_covered, shift_of_any_law


def optimal_loop(
    loop: LoopData, cap: float, progress: bool, family: str | None = None
) -> LoopData:
    """The loop with the noise of its request that costs least with its filter.

    ``family`` is the law of that noise, by default that of the loop's.
    """
    if family is not None:
        return _of_laws(loop, cap, progress, family)
    if cap <= 1:
        raise ValueError(f"cap: expected a number above 1, got {cap:g}")
    loop = replace(loop, design=replace(loop.known_design, cap=cap))
    noise = loop.private_noise
    request = noise.request
    is_laplace = request.family == "laplace" and loop.hides_states
    if not is_laplace:
        check_covered(noise)
    if request.family.startswith("iid-") or request.secret.is_energy_ball:
        return loop  # there is nothing to choose
    if not loop.hides_states:
        return _in_turns(loop, cap, progress)
    if is_laplace:
        return _of_independent_numbers(loop, cap)
    program = NoiseProgram.of(loop)
    factor = program.factor(program.solved(cap).information)
    single = replace(request, factor=factor, scale=True, blocks=())
    noise = designed(single, loop.side.plant)
    tried = [loop.with_noise(noise), loop]  # the noise given may exceed the cap
    if request.family == "ball":
        tried += _in_blocks(loop, cap)
    return min(tried, key=expected_total)


def _of_laws(loop: LoopData, cap: float, progress: bool, family: str) -> LoopData:
    """Return the best loop with noise of a law, or of the cheapest of all for "auto"."""
    request = loop.private_noise.request
    plant = loop.side.plant
    laws: tuple[str, ...] = (family,)
    if family == "auto":
        laws = laws_for(request) or (request.family,)
    best = None
    for law in laws:
        try:
            asked = replace(request, family=law, factor=None, blocks=())
            noise = designed(asked, plant)
        except ValueError:
            if family != "auto":
                raise
            continue  # more directions than the law is for
        tried = optimal_loop(loop.with_noise(noise), cap, progress)
        if best is None or expected_total(tried) < expected_total(best):
            best = tried
    if best is None:
        raise UncertifiableError("family: no law's noise could be designed")
    return best


def _of_independent_numbers(loop: LoopData, cap: float) -> LoopData:
    """Return the loop with Laplace noise in the directions that cost it least.

    Each number of it is a block of its own, so a direction that the loop does not read
    leaves the others nearly all of epsilon. It is a local optimum.
    """
    noise = loop.private_noise
    request = noise.request
    plant = loop.side.plant
    allowed = DesignProblem(plant, request).allowed
    program = _of_pure_blocks(loop, allowed)
    if program is None:
        return loop
    try:
        shape = program.solved(cap).information
        rows, _ = cheapest_rows(program.priced, program.moves, shape, cap**-2)
        factor = program.basis @ np.linalg.inv(rows) / allowed
        best = designed(request, plant, factor=factor, scale=True)
    except (np.linalg.LinAlgError, UncertifiableError):
        return loop  # whose noise is that of least variance
    return min(loop.with_noise(best), loop, key=expected_total)


def _in_blocks(loop: LoopData, cap: float) -> list[LoopData]:
    """Return loops with radial noise in independent blocks, where there are any.

    Blocks of each kind are searched for, and the cheapest ones are certified.
    """
    if shift_of_any_law(loop.private_noise) is None:
        return []  # nothing would be known of how good they are
    request = loop.private_noise.request
    plant = loop.side.plant
    allowed = ball_rate_of(request.budget, 1, request.releases)
    program = _of_pure_blocks(loop, allowed)
    if program is None:
        return []
    loops: list[LoopData] = []
    try:
        shape = program.solved(cap).information
        rank = rank_read(shape, cap)
        found = cheapest_blocks(program.priced, program.moves, shape, cap, rank)
    except (np.linalg.LinAlgError, UncertifiableError):
        return loops
    for blocks in found:
        factor = program.basis @ np.linalg.inv(blocks.rows) / allowed
        asked = replace(request, factor=factor, scale=True, blocks=blocks.sizes)
        with suppress(UncertifiableError):
            loops.append(loop.with_noise(designed(asked, plant)))
    return loops


def _of_pure_blocks(loop: LoopData, allowed: float) -> NoiseProgram | None:
    """Return the program of blocks of noise, None where there is nothing to choose.

    It is in units of one number, whose variance is 2 where the rate is one.
    """
    program = NoiseProgram.of(loop, allowed / math.sqrt(2))
    if program.is_ball or program.rest.size or not program.spread.any():
        return None
    return program if len(program.moves) > 1 else None


def _in_turns(loop: LoopData, cap: float, progress: bool) -> LoopData:
    """Choose noise and filter for each other, as long as the cost falls within the cap."""
    noise = loop.private_noise
    most, priced = math.inf, None
    if noise.horizon.ends:
        plain = designed(noise.request, loop.side.plant)
        most = cap**2 * np.sum(plain.stds**2)
        priced = partial(_PricedLoop.of, plain=plain, cap=cap)
    before = expected_total(loop)
    history = [("filter for the noise", before)]
    faster = "progress=True shows how far they are"
    with progress_bar(MOST_ROUNDS, progress, "turn", faster) as bar:
        for _ in range(MOST_ROUNDS):
            weight = priced(loop) if priced else loop
            shaped = designed(noise.request, loop.side.plant, weight=weight)
            tried = loop.with_noise(shaped)
            after = expected_total(tried)
            bar.update(1)
            is_large = priced is not None and np.sum(shaped.stds**2) > most
            if is_large or not after < before:
                break
            loop = tried
            history.append(("noise and filter", after))
            if after > before * (1 - ALIKE):
                break
            before = after
    return replace(loop, history=tuple(history))


@dataclass(frozen=True, eq=False)
class _PricedLoop:
    """A loop that prices noise, with a small price of each variance besides.

    What the loop hardly feels, such as noise of a run's last reading, is not free then.
    With the price P / ((c^2 - 1) s) of a noise of variances s that costs the loop P, no
    noise that costs less has variances of more than c^2 s, and what such noise of s costs
    rises by the share 1 / (c^2 - 1).
    """

    loop: LoopData
    root: float

    @classmethod
    def of(cls, loop: LoopData, plain: OutputNoise, cap: float) -> _PricedLoop:
        """Return it for noise of least variance and a cap c."""
        expected = Expected.of(loop, loop.known_design.P0)
        paid = expected.cost(replace(loop, noise=plain)).privacy
        spread = np.sum(plain.stds**2)
        price = paid / ((cap**2 - 1) * spread) if spread else 0.0
        return cls(loop, math.sqrt(price))

    def noise_weight(
        self, horizon: float
    ) -> Callable[[ArrayLike], NDArray[np.float64]]:
        """Return the map from output noise over a run to its cost."""
        half = cast(
            "Callable[[ArrayLike], NDArray[np.float64]]",
            self.loop.noise_weight(horizon),
        )

        def both(columns: ArrayLike) -> NDArray[np.float64]:
            return np.vstack([half(columns), self.root * np.asarray(columns)])

        return both
