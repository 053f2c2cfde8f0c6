"""A short list of moves whose convex hull, with signs, contains a long stream of moves, in bounded memory.

A mechanism that hides the list hides the stream, since a norm of a linear image is largest at an extreme
point. A move is dropped only on a certificate: coordinates of 1-norm at most 1 in k moves that are kept.
"""

import numpy as np
import scipy.linalg
from scipy.spatial import ConvexHull, QhullError

from .exact_rows import UNIT

SLACK = (
    2.0**-34
)  # round-off granted to a certificate; what is kept is lengthened by as much in the end


def extreme_moves(blocks, *, limit=2_000_000):
    """Moves whose hull with signs contains all moves of the blocks.

    Parameters
    ----------
    blocks : iterable of ndarray, shapes (k, B)
        Moves as columns.
    limit : int
        Most moves that may be kept.

    Returns
    -------
    ndarray, shape (k, M)
        The kept moves, lengthened by about 2^-33 per reduction (a few: less than 1e-8 together). Some may
        lie inside the hull.

    Raises
    ------
    ValueError
        If more than `limit` moves cannot be shown to lie inside the hull of the others.

    Examples
    --------
    >>> from privcontrol.core._circuits.enumeration import circuit_moves
    >>> kernel = [[1, 0], [0, 1], [3, 1], [-1, 2]]
    >>> abs(extreme_moves(block.moves for block in circuit_moves(kernel, 1.0))).round(6).T.tolist()
    [[2.0, 1.0], [1.0, 3.0]]
    """
    kept, pending, certificates, waiting, depth = [], [], [], 0, 2
    for moves in blocks:
        for certificate in certificates:
            moves = moves[:, ~certificate.covers(moves)]
        pending.append(moves)
        waiting += moves.shape[1]
        if waiting > max(4096, sum(m.shape[1] for m in kept)):
            reduced, certificates = _reduced(np.hstack(kept + pending), limit)
            kept, pending, waiting, depth = [reduced], [], 0, depth + 2
    reduced, _ = _reduced(np.hstack(kept + pending), limit)
    return reduced * (1 + 2 * SLACK) ** (depth + 2)


def _reduced(moves, limit):
    """Moves among the given ones that contain the rest, and the certificates that show it."""
    moves = np.unique(moves[:, moves.any(axis=0)], axis=1)
    certificates = []
    for sets in (_spanning_set, _facets):
        indices = sets(moves)
        if indices is None:
            break
        signed = np.hstack([moves, -moves])
        certificates.append(_Certificate(signed.T[indices].swapaxes(1, 2)))
        outside = ~certificates[-1].covers(moves)
        outside[indices.ravel() % moves.shape[1]] = True
        moves = moves[:, outside]
    if moves.shape[1] > limit:
        raise ValueError(
            f"limit: {moves.shape[1]} moves remain that no hull of the others is shown to contain, more than "
            f"{limit}; raise the limit, restrict the entries or times, or use time blocks as charts"
        )
    return moves, certificates


def _spanning_set(moves):
    """Indices (1, k) of k moves of large volume."""
    if moves.shape[1] < len(moves):
        return None
    scaled = moves / np.maximum(np.abs(moves).max(axis=1, keepdims=True), 1e-300)
    return scipy.linalg.qr(scaled, mode="r", pivoting=True)[1][None, : len(moves)]


def _facets(moves):
    """Indices (F, k) of the facets of the hull of the moves and their negatives; None where there is no hull."""
    spanning = _Certificate(moves[:, _spanning_set(moves)[0]][None])
    if len(moves) == 1 or not len(spanning.inverse):
        return None
    coordinates = spanning.inverse[0] @ moves
    try:
        return ConvexHull(np.hstack([coordinates, -coordinates]).T).simplices
    except QhullError:
        return None


class _Certificate:
    """Sets of k kept moves V_f (F, k, k): a move x = V_f c with norm_1(c) <= 1 lies in their hull with signs.

    With W the computed inverse, norm_1(c) <= (norm_1(W x) + round-off(x)) / (1 - norm_1(1 - W V)); sets for
    which the defect exceeds one half are left out.
    """

    def __init__(self, sets):
        k = sets.shape[1]
        gamma = 2 * (k + 2) * UNIT
        scale = np.abs(sets).max(axis=(1, 2), keepdims=True)
        regular = np.linalg.det(sets / scale) != 0
        sets, scale = sets[regular], scale[regular]
        inverse = np.linalg.inv(sets / scale) / scale
        defect = np.abs(np.eye(k) - inverse @ sets) + gamma * (
            np.abs(inverse) @ np.abs(sets)
        )
        defect = defect.sum(axis=1).max(axis=1, initial=0)
        good = defect < 0.5
        self.inverse = inverse[good]
        self.normal = self.inverse.sum(axis=1)
        self.doubt = gamma * np.abs(self.inverse).sum(axis=1)
        self.room = (1 - defect[good]) * (1 + SLACK)

    def covers(self, moves):
        """Which moves (k, M) are certified to lie within 1 + 2^-34 of the hull."""
        covered = np.zeros(moves.shape[1], bool)
        if not len(self.inverse):
            return covered
        step = max(2**20 // len(self.inverse), 256)
        for start in range(0, moves.shape[1], step):
            part = moves[:, start : start + step]
            facet = (
                (self.normal @ part).argmax(axis=0)
                if len(self.inverse) > 1
                else np.zeros(part.shape[1], int)
            )
            coordinates = np.abs(
                np.einsum("mij,jm->im", self.inverse[facet], part)
            ).sum(axis=0)
            doubt = np.einsum("mj,jm->m", self.doubt[facet], np.abs(part))
            covered[start : start + step] = coordinates + doubt <= self.room[facet]
        return covered
