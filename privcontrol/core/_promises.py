"""What the core hands on of the rooms below it: a lazily loaded face names files of its own room only."""

from __future__ import annotations

from ..numerics.errors import (
    BudgetExceededError as BudgetExceededError,
    NotRealizableError as NotRealizableError,
    PrivacyError as PrivacyError,
    PrivacyWarning as PrivacyWarning,
    UncertifiableError as UncertifiableError,
)
from ..privacy.budget import (
    PrivacyBudget as PrivacyBudget,
    gaussian_std as gaussian_std,
    kappa as kappa,
    kappa_inverse as kappa_inverse,
    laplace_scale as laplace_scale,
)
from ..privacy.composition import (
    chain as chain,
    compose_parallel as compose_parallel,
    compose_sequential as compose_sequential,
)
from ..privacy.guarantee import PrivacyGuarantee as PrivacyGuarantee
from ..privacy.ledger import PrivacyLedger as PrivacyLedger
from ..privacy.radial import (
    ball_rate as ball_rate,
    truncated_radius as truncated_radius,
)
