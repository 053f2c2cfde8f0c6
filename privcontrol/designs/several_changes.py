"""Noise for a budget of several changes at a distance, from budgets of one of them."""

from __future__ import annotations

from dataclasses import replace

from ..numerics.errors import UncertifiableError
from ..numerics.thresholds import FEW_ROUNDS, ROUNDED
from ..privacy.budget import PrivacyBudget
from ..systems.varying import period_of
from .asked import Ask, Asked
from .output_noise import OutputNoise


class SeveralChanges:
    """Gives one change less until all of them keep the budget together."""

    def accepts(self, asked: Asked) -> bool:
        return asked.together is not None

    def answer(self, asked: Asked, ask: Ask) -> OutputNoise:
        budget = asked.together
        if budget is None:
            raise ValueError("budget: expected one of several changes")
        # whole periods at least, where a sample of the noise is one
        apart = budget.separation // period_of(asked.problem.plant.outputs) or None
        one = asked.request.budget.shift()
        for _ in range(FEW_ROUNDS):
            single = replace(asked, together=None)
            noise = ask(single.having(budget=PrivacyBudget(gdp=one)))
            together = noise.guarantee.repeated(budget.events, separation=apart)
            if together.gdp <= budget.together:
                return noise
            one *= budget.together / together.gdp * (1 - ROUNDED)
        raise UncertifiableError(
            f"budget: no noise was found that keeps {budget!r}; ask for fewer events or "
            "a higher detection"
        )
