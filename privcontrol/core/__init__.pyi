from ._audit import (
    AuditResult as AuditResult,
    audit as audit,
)
from .adjacency import (
    Adjacency as Adjacency,
    BallAdjacency as BallAdjacency,
    DirectionAdjacency as DirectionAdjacency,
    ManifoldAdjacency as ManifoldAdjacency,
)
from .ball_noise import BallNoise as BallNoise
from .budget import (
    PrivacyBudget as PrivacyBudget,
    gaussian_std as gaussian_std,
    kappa as kappa,
    kappa_inverse as kappa_inverse,
    laplace_scale as laplace_scale,
)
from .design import (
    NoiseDesign as NoiseDesign,
    design_gaussian as design_gaussian,
    design_iid as design_iid,
    design_laplace as design_laplace,
    design_noise as design_noise,
    structured_equivalent as structured_equivalent,
)
from .errors import (
    BudgetExceededError as BudgetExceededError,
    NotRealizableError as NotRealizableError,
    PrivacyError as PrivacyError,
    PrivacyWarning as PrivacyWarning,
    UncertifiableError as UncertifiableError,
)
from .guarantee import (
    PrivacyGuarantee as PrivacyGuarantee,
    chain as chain,
    compose_parallel as compose_parallel,
    compose_sequential as compose_sequential,
)
from .inference import (
    InputPerturbation as InputPerturbation,
    OutputPerturbation as OutputPerturbation,
)
from .ledger import AdaptiveReleases as AdaptiveReleases, PrivacyLedger as PrivacyLedger
from .lipschitz import (
    ClippedNetwork as ClippedNetwork,
    LipschitzBound as LipschitzBound,
    SLLConvolution as SLLConvolution,
    SLLLayer as SLLLayer,
    SLLNetwork as SLLNetwork,
    feedforward_lipschitz as feedforward_lipschitz,
    induced_norm as induced_norm,
)
from .manifold import AffineManifold as AffineManifold
from .mechanism import LinearQuery as LinearQuery, Mechanism as Mechanism
from .noise import (
    GaussianNoise as GaussianNoise,
    LaplaceNoise as LaplaceNoise,
)
from .radial import ball_rate as ball_rate, truncated_radius as truncated_radius
