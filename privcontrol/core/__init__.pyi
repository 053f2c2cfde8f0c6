from ._audit import (
    AuditResult as AuditResult,
    audit as audit,
)
from ._promises import (
    BudgetExceededError as BudgetExceededError,
    NotRealizableError as NotRealizableError,
    PrivacyBudget as PrivacyBudget,
    PrivacyError as PrivacyError,
    PrivacyGuarantee as PrivacyGuarantee,
    PrivacyLedger as PrivacyLedger,
    PrivacyWarning as PrivacyWarning,
    UncertifiableError as UncertifiableError,
    ball_rate as ball_rate,
    chain as chain,
    compose_parallel as compose_parallel,
    compose_sequential as compose_sequential,
    gaussian_std as gaussian_std,
    kappa as kappa,
    kappa_inverse as kappa_inverse,
    laplace_scale as laplace_scale,
    truncated_radius as truncated_radius,
)
from .adaptive import AdaptiveReleases as AdaptiveReleases
from .adjacency import (
    Adjacency as Adjacency,
    BallAdjacency as BallAdjacency,
    DirectionAdjacency as DirectionAdjacency,
    ManifoldAdjacency as ManifoldAdjacency,
)
from .ball_noise import BallNoise as BallNoise
from .inference import (
    InputPerturbation as InputPerturbation,
    OutputPerturbation as OutputPerturbation,
)
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
from .mechanism import Mechanism as Mechanism
from .noise import (
    GaussianNoise as GaussianNoise,
    LaplaceNoise as LaplaceNoise,
)
from .noise_design import NoiseDesign as NoiseDesign
from .query import LinearQuery as LinearQuery
from .query_design import (
    design_gaussian as design_gaussian,
    design_iid as design_iid,
    design_laplace as design_laplace,
    design_noise as design_noise,
    structured_equivalent as structured_equivalent,
)
