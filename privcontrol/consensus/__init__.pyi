from .agent import (
    Agent as Agent,
    pair_keys as pair_keys,
)
from .figures import (
    plot_error as plot_error,
    plot_network as plot_network,
)
from .message_design import (
    optimal_consensus_epsilon as optimal_consensus_epsilon,
    optimal_consensus_error as optimal_consensus_error,
    optimal_consensus_scales as optimal_consensus_scales,
    private_consensus as private_consensus,
)
from .message_noise import NodeAdjacency as NodeAdjacency
from .network import (
    Network as Network,
    read_network as read_network,
)
from .private import (
    PrivateConsensus as PrivateConsensus,
    worst_coalition as worst_coalition,
)
from .runs import (
    ConsensusResponse as ConsensusResponse,
    MeanSquareErrorEstimate as MeanSquareErrorEstimate,
)
