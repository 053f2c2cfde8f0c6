"""Run one agent of private consensus, where its value is known.

An agent publishes its value once, hidden behind noise, and then moves its message
towards those of its neighbours. All that it publishes is computed from published
messages, so lost, late and repeated messages change what the agents agree on, and never
the guarantee.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Hashable, Iterable, Mapping
from os import PathLike
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.ball_noise import BallNoise
from ..numerics.balls import Rational
from ..numerics.checks import instance_of, real_array
from ..numerics.errors import PrivacyError
from ..numerics.saved import as_path, decode, encode
from ..numerics.thresholds import MOST_NAMED
from ..privacy.release import SYSTEM_BITS, BitSource, exact_data, exact_release
from ..privacy.sentences import listed
from ..privacy.store import FileStore, Kind, Snapshot, this_process
from .message_noise import AgentNoise
from .network import Network, fingerprint

#: Length of the secret that two neighbours share, in bytes.
KEY_BYTES = 32

_KIND = Kind(
    "file of an agent",
    0o600,
    "its publications are not known, so it must not publish again with the same value "
    "and secrets",
)


def pair_keys(network: Network) -> dict[Hashable, dict[Hashable, bytes]]:
    """Return secrets that neighbours share, for a simulation that knows them all.

    In the field two neighbours agree on theirs over a private channel, such as a key
    exchange. A key is for one run. Shared noise that is used twice cancels for whoever
    subtracts the messages of two runs. Each node of the network gets a dict with 32
    bytes of the operating system for each neighbour, the same at both ends.

    Parameters
    ----------
    network : Network

    Returns
    -------
    dict
        From each node to a dict from its neighbours to their 32 bytes.

    Raises
    ------
    TypeError
        If it is no Network; `read_network` makes one.

    See Also
    --------
    consensus.Agent, private_consensus

    Examples
    --------
    >>> from privcontrol.consensus import pair_keys, read_network
    >>> keys = pair_keys(read_network([[0, 0.5], [0.5, 0]], weights="metropolis"))
    >>> keys[0][1] == keys[1][0], len(keys[0][1])
    (True, 32)
    """
    instance_of(network, Network, "network", "read_network(graph)")
    nodes = network.nodes
    keys: dict[Hashable, dict[Hashable, bytes]] = {node: {} for node in nodes}
    for i, j in zip(*network.links, strict=True):
        first = nodes[i]
        second = nodes[j]
        key = secrets.token_bytes(KEY_BYTES)
        keys[first][second] = key
        keys[second][first] = key
    return keys


class SharedBits(BitSource):
    """Bits of SHAKE-256 that both holders of a secret compute, for each entry."""

    def __init__(self, key: bytes, entry: int) -> None:
        place = entry.to_bytes(8, "big") if entry else b""
        self._hash = hashlib.shake_256(b"privcontrol shared noise" + key + place)
        self._drawn = 0

    def bits(self, count: int) -> int:
        self._drawn += count
        length = -(-self._drawn // 8)
        digest = int.from_bytes(self._hash.digest(length), "big")
        surplus = 8 * length - self._drawn
        return (digest >> surplus) & ((1 << count) - 1)


class Agent:
    """Run one agent; `PrivateConsensus.agent` makes it.

    Threads may share it. It belongs to the process that made it.

    Parameters
    ----------
    noise : AgentNoise
        Of all agents, with their network.
    node, value, shared, path
        As for `PrivateConsensus.agent`.

    See Also
    --------
    PrivateConsensus, consensus.pair_keys

    Examples
    --------
    >>> import privcontrol as pc
    >>> budget = pc.PrivacyBudget(epsilon=1)
    >>> edge = [[0, 0.25], [0.25, 0]]
    >>> pair = pc.private_consensus(edge, budget, 1.0, family="laplace")
    >>> agent = pair.agent(0, 20.5)
    >>> agent.message() == agent.message()
    True
    >>> agent
    Agent(node 0, 1 neighbour, 0 updates)
    """

    def __init__(
        self,
        noise: AgentNoise,
        node: Hashable,
        value: ArrayLike,
        shared: Mapping[Hashable, bytes] | None = None,
        *,
        path: str | PathLike[str] | None = None,
    ) -> None:
        instance_of(noise, AgentNoise, "noise", "consensus.noise")
        network = noise.network
        place = network._position(node)
        self.node = node
        self._weights: dict[Hashable, float] = {}
        for j, weight in network._neighbours(place).items():
            self._weights[network.nodes[j]] = weight
        self._own_scale = float(noise.scales[place])
        self._law = noise.family
        self._family = self._law.family
        # size and secret of what is shared: the lower end adds it, the other subtracts
        self._shared: dict[Hashable, tuple[float, bytes]] = {}
        if noise.pairwise_std:
            for neighbour, key in self._checked_keys(shared).items():
                is_lower = place < network.index[neighbour]
                size = noise.pairwise_std if is_lower else -noise.pairwise_std
                self._shared[neighbour] = (size, key)
        # exact: two integers that differ by one may be far apart as doubles
        self._value, doubles = exact_data(value, "value")
        self._shape = doubles.shape
        if isinstance(self._law, BallNoise):
            expected = self._law.dimension
            if len(self._value) != expected:
                raise ValueError(
                    f"value: expected {expected} numbers, which its noise is made for, got "
                    f"{len(self._value)}"
                )
        self._published: list[NDArray[np.float64]] = []
        self._repaired: set[str] = set()
        self._heard: set[str] = set()
        self._process = this_process()
        self._lock = Lock()
        self._store: FileStore | None = None
        self._known = Snapshot()  # of the file, which holds what is published
        # what the first message is made of, up to rounding of a design made again
        own = [str(node), str(self._shape), self._family, f"{self._own_scale:.6g}"]
        self._made_of = {"own": fingerprint(own)}
        for other, (size, key) in self._shared.items():
            self._made_of[f"shared {other}"] = fingerprint([f"{size:.6g}", key.hex()])
        if path is not None:
            self._store = FileStore(as_path(path).absolute(), _KIND)
            if self._store.path.exists():
                self._known = self._store.snapshot()
                made_of = self._known.state
                if not self._made_of.items() <= made_of.items():
                    raise PrivacyError(
                        f"path: expected a file of agent {node} with this noise and "
                        "these secrets, got that of another agent or run; take a path "
                        "for each agent and each run"
                    )
                self._made_of = made_of  # neighbours may have left since
                for record in self._store.entries():
                    self._remember(**decode(record))

    @property
    def neighbours(self) -> tuple[Hashable, ...]:
        """Names of those whose messages it listens to."""
        return tuple(self._weights)

    @property
    def steps(self) -> int:
        """Number of updates and repairs that it has made."""
        return max(0, len(self._published) - 1)

    @property
    def published(self) -> tuple[float | NDArray[np.float64], ...]:
        """All messages so far in order, the first one drawn by `message` or `update`."""
        return tuple(self._sent(message) for message in self._published)

    def _sent(self, message: NDArray[np.float64]) -> float | NDArray[np.float64]:
        """Return a message as others see it."""
        return message.copy() if self._shape else float(message[0])

    def message(self) -> float | NDArray[np.float64]:
        """Return the agent's present message, the same however often it is asked.

        The first call draws the agent's noise from the operating system. The sum of
        real numbers is rounded once, so the guarantee holds for the doubles that are
        sent. With a path the message is on disk before it is returned.

        Returns
        -------
        float or ndarray, shape (d,)
            In the unit of the value.
        """
        self._check_process()
        with self._lock:
            return self._sent(self._newest())

    def update(self, messages: Mapping[Hashable, ArrayLike]) -> None:
        """Take the step y_i + sum w_ij (y_j - y_i) towards messages of neighbours.

        Messages of some neighbours may be missing, late or old. The guarantee stays,
        and the average moves by w_ij (y_i - y_j) / n where i missed j's message and j
        heard that of i. The mean of all messages less the mean of the first ones shows
        how far it moved.

        Parameters
        ----------
        messages : mapping from neighbour to float, or array_like (d,)

        Raises
        ------
        PrivacyError
            If a message is from a neighbour whose noise was taken out by `repair`. What
            this agent shared with it is public then, and cancels no more.
        TypeError, ValueError
            If messages are no mapping from neighbours to numbers like the value.

        Examples
        --------
        >>> import privcontrol as pc
        >>> budget = pc.PrivacyBudget(epsilon=1)
        >>> edge = [[0, 0.25], [0.25, 0]]
        >>> pair = pc.private_consensus(edge, budget, 1.0, family="laplace")
        >>> one, other = pair.agent(0, 20.5), pair.agent(1, 19.0)
        >>> one.update({1: other.message()})
        >>> one
        Agent(node 0, 1 neighbour, 1 updates)
        """
        if not isinstance(messages, Mapping):
            raise TypeError(
                "messages: expected a mapping from neighbour to message, got "
                f"{type(messages).__name__}"
            )
        numbers = {}
        for sender, message in messages.items():
            if sender not in self._weights:
                raise ValueError(
                    f"messages: expected neighbours of {self.node} only, got another "
                    "sender"
                )
            number = real_array(message, "messages")
            if number.shape != self._shape:
                raise ValueError(
                    f"messages: expected shape {self._shape} from each, got "
                    f"{number.shape}"
                )
            numbers[sender] = number.ravel()
        self._check_process()
        with self._lock:
            late = [str(sender) for sender in numbers if str(sender) in self._repaired]
            if late:
                raise PrivacyError(
                    f"messages: agent {self.node} has taken out the noise that it shares "
                    f"with {listed(late[:MOST_NAMED])}, who must send no first message "
                    "any more: it hides the value behind less noise, and moves the "
                    "average. Leave it out, and stop who sent it"
                )
            own = self._newest()
            following = own.copy()
            with np.errstate(over="ignore", invalid="ignore"):
                for sender, number in numbers.items():
                    following += self._weights[sender] * (number - own)
            if not np.isfinite(following).all():
                raise ValueError(
                    "messages: expected numbers so near that the step towards them is "
                    "finite; leave out who sends others"
                )
            self._publish(following, heard={str(sender) for sender in numbers})

    def repair(self, missing: list[Hashable]) -> None:
        """Take out the noise that is shared with neighbours who never sent a message.

        Once all neighbours of a missing agent have repaired theirs, they agree on the
        average of those who are left. That reveals the noise that they shared with the
        missing agent, who so counts as one of the coalition, and must not publish its
        first message any more. So repair after the time by which first messages must
        have been sent. Noise shared with a neighbour who was heard is never taken out:
        it protects the message that was sent.

        An older copy of the agent's file, such as a restored backup, does not know who was
        heard after it was made. So an agent that goes on with one must repair nothing.

        Parameters
        ----------
        missing : list of nodes
            Those among the neighbours who never sent a message; others are ignored.

        Raises
        ------
        PrivacyError
            If this agent has not sent a message itself: its neighbours may have
            repaired theirs. If it has heard one of the missing.
        """
        if not isinstance(missing, list | tuple | set):
            raise TypeError(
                f"missing: expected a list of nodes, got {type(missing).__name__}"
            )
        if not all(isinstance(node, Hashable) for node in missing):
            raise TypeError("missing: expected names of nodes, got others")
        self._check_process()
        gone = {str(node): node for node in self._shared if node in missing}
        with self._lock:
            if not self._published:
                raise PrivacyError(
                    f"agent {self.node}: it has sent no message yet, and must not send "
                    "one once others are repaired; start a new run with fresh secrets"
                )
            heard = [name for name in gone if name in self._heard]
            if heard:
                raise PrivacyError(
                    f"missing: agent {self.node} has heard {', '.join(heard[:5])}, "
                    "whose value the noise that they share protects; leave out who was "
                    "heard"
                )
            nothing = [Rational(0)] * len(self._value)
            following = self._published[-1].copy()
            for name, node in gone.items():
                if name not in self._repaired:
                    following -= self._released(nothing, [], [node])
            self._publish(following, repaired=list(gone))

    def _check_process(self) -> None:
        # before any lock, which a fork may have copied while it was taken
        if this_process() != self._process:
            raise PrivacyError(
                f"agent {self.node} belongs to the process that made it: two would "
                "publish one value behind two draws of noise; make it after the fork"
            )

    def _newest(self) -> NDArray[np.float64]:
        """Return the newest message, after the first one was drawn and kept."""
        if not self._published:
            own = [self._own_scale]
            self._publish(self._released(self._value, own, list(self._shared)))
        return self._published[-1]

    def _checked_keys(
        self, shared: Mapping[Hashable, bytes] | None
    ) -> dict[Hashable, bytes]:
        """The secret of every neighbour."""
        if not isinstance(shared, Mapping):
            raise TypeError(
                f"shared: expected a mapping from neighbour to {KEY_BYTES} secret "
                f"bytes, got {type(shared).__name__}; see pair_keys for a simulation"
            )
        keys = {}
        for node in self._weights:
            key = shared.get(node)
            if isinstance(key, bytes | bytearray) and len(key) == KEY_BYTES:
                keys[node] = bytes(key)
        wrong = [str(node) for node in self._weights if node not in keys]
        if wrong:
            raise ValueError(
                f"shared: expected {KEY_BYTES} secret bytes for each of "
                f"{len(self._weights)} neighbours, got none or others for "
                f"{', '.join(wrong[:5])}"
            )
        if len(set(keys.values())) < len(keys):
            raise ValueError(
                "shared: expected another secret for each neighbour, got one twice; "
                "the noise that neighbours share would be equal and could be subtracted"
            )
        return keys

    def _released(
        self, values: list[Rational], own: list[float], neighbours: list[Hashable]
    ) -> NDArray[np.float64]:
        """Values behind own and shared noise, summed exactly and rounded once.

        Own noise of these sizes is drawn from the operating system, the rest from the
        secrets.
        """
        shared = [self._shared[node] for node in neighbours]
        sizes = own + [size for size, _ in shared]
        sources: list[BitSource] = []
        for entry in range(len(values)):
            sources += [SYSTEM_BITS] * len(own)
            sources += [SharedBits(key, entry) for _, key in shared]
        if isinstance(self._law, BallNoise):
            scales = np.full(len(values), own[0])
            return exact_release(values, scales, "gaussian", eta=self._law.entries())
        factor = np.kron(np.eye(len(values)), sizes)
        return exact_release(values, factor, self._family, source=sources)

    def _publish(
        self,
        message: NDArray[np.float64],
        *,
        repaired: Iterable[str] = (),
        heard: Iterable[str] = (),
    ) -> None:
        """Keep a message, and whom it repaired and heard, on disk first."""
        record: dict[str, Any] = {"message": message}
        record["repaired"] = list(repaired)
        record["heard"] = sorted(set(heard) - self._heard)
        store = self._store
        if store is not None:
            content = encode(record)
            written = None
            if self._published:
                written = store.append(self._known, content, self._made_of)
            elif store.create(content, self._made_of):
                written = store.snapshot()
            if written is None or written.number != len(self._published):
                raise PrivacyError(
                    f"path: another process speaks for agent {self.node} in the "
                    "meantime; make the agent again to go on behind its last message"
                )
            self._known = written
        self._remember(**record)

    def _remember(
        self, message: NDArray[np.float64], repaired: list[str], heard: list[str]
    ) -> None:
        """Count a message, and the names of neighbours that it repaired and heard."""
        self._published.append(message)
        self._repaired.update(repaired)
        self._heard.update(heard)

    def __repr__(self) -> str:
        count = len(self._weights)
        return (
            f"Agent(node {self.node}, {count} neighbour{'s' * (count != 1)}, "
            f"{self.steps} updates)"
        )

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            "an agent holds a private value and its noise, and is not pickled; make it "
            "where the value is, with path= to take it up again"
        )
