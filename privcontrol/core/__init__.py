"""General privacy mechanisms for linear queries on affine manifolds; useful without any control problem."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "_audit": ["AuditResult", "audit"],
        "adjacency": [
            "Adjacency",
            "BallAdjacency",
            "DirectionAdjacency",
            "ManifoldAdjacency",
        ],
        "budget": ["PrivacyBudget"],
        "calibration": ["gaussian_std", "kappa", "kappa_inverse", "laplace_scale"],
        "compose": ["chain", "compose_parallel", "compose_sequential"],
        "design": [
            "NoiseDesign",
            "design_gaussian",
            "design_iid",
            "design_laplace",
            "structured_equivalent",
        ],
        "errors": [
            "BudgetExceededError",
            "NotRealizableError",
            "PrivacyError",
            "PrivacyWarning",
            "UncertifiableError",
        ],
        "guarantee": ["PrivacyGuarantee"],
        "inference": ["ClippedNetwork", "InputPerturbation", "OutputPerturbation"],
        "ledger": ["PrivacyLedger"],
        "lipschitz": [
            "LipschitzBound",
            "SLLLayer",
            "SLLNetwork",
            "feedforward_lipschitz",
            "induced_norm",
        ],
        "manifold": ["AffineManifold"],
        "mechanism": ["Mechanism"],
        "noise": ["GaussianNoise", "LaplaceNoise"],
        "query": ["LinearQuery"],
    },
)
