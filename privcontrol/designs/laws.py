"""Which laws of noise keep a budget, and which of them costs least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..core.noise_design import LAWS, LawOption
from ..numerics.errors import UncertifiableError
from ..numerics.thresholds import ALIKE
from .asked import Ask, Asked
from .output_noise import OutputNoise
from .request import Request
from .table import OF_RADIAL


class CheapestLaw:
    """Designs noise of each law, with a floor of its own if that is open, and compares."""

    def accepts(self, asked: Asked) -> bool:
        return asked.law_is_open

    def answer(self, asked: Asked, ask: Ask) -> OutputNoise:
        request = asked.request
        closed = replace(asked, law_is_open=False)
        has_floor = request.floor is not None
        if asked.searches_floor:
            has_floor = True
            ones = np.ones(asked.problem.plant.output_count)
            request = replace(request, floor=ones)
        laws = laws_for(request)
        if not laws:
            return ask(closed)
        answers: dict[str, OutputNoise] = {}
        options = []
        refusal: Exception | None = None
        for law in laws:
            try:
                noise = ask(closed.having(family=law))
            except (ValueError, UncertifiableError) as error:
                refusal = refusal or error  # such as more directions than it is for
                continue
            option = LawOption.of(law, noise.design, request.releases)
            if has_floor:
                # no number of releases is known at which it turns
                option = replace(option, budget=None)
            answers[law] = noise
            options.append(option)
        if refusal is not None and not options:
            raise refusal
        options.sort(key=lambda option: option.cost)
        noise = answers[_cheapest(options)]
        return replace(noise, design=replace(noise.design, laws=tuple(options)))


def laws_for(request: Request) -> tuple[str, ...]:
    """Return the laws that may keep a budget as it was asked, none where it is Gaussian's.

    "truncated" is among them however many directions the secret moves in.
    """
    budget = request.budget
    covered = not any(refusal.refuses(request) for refusal in OF_RADIAL)
    if not covered or request.factor is not None or not budget.epsilon:
        return ()
    if request.floor is not None:
        return () if budget.pure else ("gaussian", "ball", "truncated")
    return ("laplace", "ball") if budget.pure else LAWS


def _cheapest(options: Sequence[LawOption]) -> str:
    """Return the law of least cost, of those that are alike the best known one."""
    least = options[0].cost * (1 + ALIKE)
    names = {option.law for option in options if option.cost <= least}
    return next(law for law in LAWS if law in names)
