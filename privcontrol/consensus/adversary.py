"""Say who listens to the messages, and how well they distinguish initial values.

An adversary is an eavesdropper who sees all messages, and who may share the knowledge of a
coalition of agents: of certain ones, or of any so many. Without shared noise the members of
a coalition are only known themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..numerics.thresholds import MOST_NAMED
from ..privacy.loss import PrivacyLoss
from .message_noise import AgentNoise, Exposure, NodeAdjacency
from .network import fingerprint

_MESSAGES_ONLY = (
    "messages are all that others, the other agents included, see of a hidden node, "
    "never a state x_i(t) together with y_i(t)"
)

#: By the number of agents in a coalition.
_ADVERSARIES = {
    0: "no agent shares its knowledge with the eavesdropper (where agents are curious "
    "themselves the coalition is one at least)",
    1: "at most one agent shares its knowledge with the eavesdropper",
}
_SEVERAL = "at most %s agents share their knowledge with the eavesdropper"

_PAIRWISE = (
    "others see only the messages of a hidden node and the noise that it shares with "
    "them, never a state x_i(t) together with y_i(t)",
    "neighbours share each secret over a private channel, and use it in one run only",
    "the noise that SHAKE-256 makes of a secret counts as random",
    "an agent that drops out before its first message leaves its shared noise in the "
    "sum, and counts as one of the coalition once its neighbours have repaired the sum",
)


@dataclass(frozen=True, eq=False)
class Adversary:
    """An eavesdropper with a coalition of agents.

    Attributes
    ----------
    noise : AgentNoise
        Of all agents.
    members : tuple of int, or None
        Positions of the agents of the coalition. None for any ``count`` of them.
    count : int
        How many agents share their knowledge at most, where they may be any.
    """

    noise: AgentNoise
    members: tuple[int, ...] | None
    count: int

    @property
    def named(self) -> str:
        """The coalition in words, empty where it may be any."""
        members, nodes = self.members, self.noise.network.nodes
        if members is None:
            return ""
        if not members:
            return "an eavesdropper alone"
        names = [str(nodes[i]) for i in members]
        listed = ", ".join(names[:MOST_NAMED])
        if len(names) > MOST_NAMED:
            listed += f", and {len(names) - MOST_NAMED} more [{fingerprint(names)}]"
        return f"an eavesdropper with the agents {listed}"

    @cached_property
    def exposure(self) -> Exposure:
        """The exposure of the other agents, where neighbours share noise."""
        if self.members is None:
            return self.noise.exposure_to_any(self.count)
        return self.noise.exposure_to(self.members)

    def check_hidden(self, moves: str) -> None:
        """Refuse moves that are not hidden from certain agents, or by shared noise.

        Members of a coalition only know themselves where no noise is shared.
        """
        is_shared = self.noise.pairwise_std > 0
        members = len(self.members or ())
        if members or is_shared:
            check_hidden(members, len(self.noise.network), moves, is_shared)

    def loss(self, everybody: NodeAdjacency, adjacency: NodeAdjacency) -> PrivacyLoss:
        """Return the loss of the messages for some moves.

        ``everybody`` are the moves of all nodes. The adjacency may have the moves of one node
        only.
        """
        noise = self.noise
        if not noise.pairwise_std:
            return adjacency.loss(noise.family, noise.scales, self.members or ())
        node = adjacency.node
        sizes = self.exposure.sizes(everybody)
        size = sizes.max()
        moved = self.exposure.worst(everybody)
        if node is not None:
            size = sizes[node]
            moved = (adjacency._move_of(node),)
        if self.members is None and self.count:
            moved = ()  # which coalition attains a sum of losses is not known
        is_exact = self.exposure.exact and adjacency.kind == "one"
        return PrivacyLoss.gaussian(float(size), moved, is_exact)

    def assumptions(
        self, everybody: NodeAdjacency, adjacency: NodeAdjacency
    ) -> tuple[str, ...]:
        """Describe the adversary and its view of the messages in words, for some moves."""
        if not self.noise.pairwise_std:
            return (_MESSAGES_ONLY,)
        if self.members is not None:
            return (
                f"{self.named} alone may share knowledge with the eavesdropper",
                *_PAIRWISE,
            )
        text = _ADVERSARIES.get(self.count, _SEVERAL % self.count)
        node = adjacency.node
        if node is None:
            node = self.exposure.worst(everybody)[0]
        worst = self.exposure.coalition(node)
        if worst:
            nodes = self.noise.network.nodes
            names = " ".join(str(nodes[i]) for i in worst[:MOST_NAMED])
            text += f" (worst coalition [{names}])"
        return (text, *_PAIRWISE)


def check_hidden(members: int, nodes: int, moves: str, is_shared: bool) -> None:
    """Refuse moves that shared noise, or its rest against a coalition, cannot hide."""
    if is_shared and moves == "known-total":
        raise ValueError(
            "moves: expected 'one' or 'pair' where neighbours share noise, got "
            "'known-total'; take pairwise_std=0"
        )
    needed = 1 if moves == "one" else 2
    if nodes - members < needed:
        raise ValueError(
            f"coalition: expected at most {nodes - needed} of {nodes} agents, so "
            f"{needed} of them can be hidden, got {members}"
        )
