from . import consensus as consensus, core as core, plants as plants
from .consensus import (
    NodeAdjacency as NodeAdjacency,
    PrivateConsensus as PrivateConsensus,
    private_consensus as private_consensus,
)
from .core import (
    AffineManifold as AffineManifold,
    BallAdjacency as BallAdjacency,
    BudgetExceededError as BudgetExceededError,
    DirectionAdjacency as DirectionAdjacency,
    GaussianNoise as GaussianNoise,
    InputPerturbation as InputPerturbation,
    LaplaceNoise as LaplaceNoise,
    LinearQuery as LinearQuery,
    ManifoldAdjacency as ManifoldAdjacency,
    Mechanism as Mechanism,
    NotRealizableError as NotRealizableError,
    OutputPerturbation as OutputPerturbation,
    PrivacyBudget as PrivacyBudget,
    PrivacyError as PrivacyError,
    PrivacyGuarantee as PrivacyGuarantee,
    PrivacyLedger as PrivacyLedger,
    PrivacyWarning as PrivacyWarning,
    UncertifiableError as UncertifiableError,
    audit as audit,
    design_gaussian as design_gaussian,
    design_iid as design_iid,
    design_laplace as design_laplace,
    feedforward_lipschitz as feedforward_lipschitz,
)
from .deploy.files import load as load
from .deploy.gateway import Gateway as Gateway
from .designs import (
    OutputNoise as OutputNoise,
    design_output_noise as design_output_noise,
    eavesdropper as eavesdropper,
)
from .loop import (
    PrivateLoop as PrivateLoop,
    private_feedback as private_feedback,
    private_loop as private_loop,
    private_lqg as private_lqg,
)
from .noise import (
    create_channel_iosystem as create_channel_iosystem,
    create_noise_iosystem as create_noise_iosystem,
)
from .regions import (
    PlantBox as PlantBox,
    PlantPolytope as PlantPolytope,
    identify_outputs as identify_outputs,
    identify_states as identify_states,
    jacobian_polytope as jacobian_polytope,
)
from .secrets import (
    DisturbanceAdjacency as DisturbanceAdjacency,
    InitialStateAdjacency as InitialStateAdjacency,
    StateAdjacency as StateAdjacency,
    observability_stack as observability_stack,
    output_query as output_query,
    trajectory_manifold as trajectory_manifold,
)
from .studies import (
    horizon_growth as horizon_growth,
    options as options,
    tradeoff as tradeoff,
)
from .systems import (
    along as along,
    sample_nonlinear as sample_nonlinear,
    system_gain as system_gain,
    with_delays as with_delays,
    with_local_loop as with_local_loop,
)

__version__: str
