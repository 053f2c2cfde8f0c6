from .graphs import (
    ten_agent_graph as ten_agent_graph,
    ten_agent_values as ten_agent_values,
)
from .systems import vehicle as vehicle
