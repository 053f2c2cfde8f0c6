"""Named plants and graphs of the literature, each with its reference."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "systems": ["vehicle"],
        "graphs": ["ten_agent_graph", "ten_agent_values"],
    },
)
