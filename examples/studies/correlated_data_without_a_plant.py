"""How much noise do data under public constraints need?

And what does independent noise cost them? DPAM's Examples 1 and 2 worked through with
``privcontrol.core`` alone, and a table whose margins are public. Run it as ``python
correlated_data_without_a_plant.py``.
"""

import numpy as np

import privcontrol.core as pc

PURE = pc.PrivacyBudget(epsilon=1.0)


def example_1():
    """Two numbers with x2 = k x1: independent noise loses a factor g of privacy, correlated noise does not."""
    print("Example 1: x2 = k x1, Laplace noise meant for epsilon = 1")
    print(
        "     k   independent   g = max(1 + k, 1 + 1/k)   correlated   audited (lower bound)"
    )
    for k in (0.5, 1.0, 2.0):
        query = pc.LinearQuery(
            np.eye(2), pc.AffineManifold([[k, -1.0]], labels=["x1", "x2"])
        )
        adjacency = pc.ManifoldAdjacency(1.0)
        independent = (
            pc.Mechanism(query, pc.LaplaceNoise([1.0, 1.0]))
            .guarantee(adjacency)
            .epsilon(0.0)
        )
        scale = max(1.0, 1 / k)
        mechanism = pc.Mechanism(query, pc.LaplaceNoise([[scale], [scale * k]]))
        correlated = mechanism.guarantee(adjacency).epsilon(0.0)
        checked = pc.audit(
            mechanism, adjacency, delta=0.0, trials=200_000, rng=0
        ).epsilon_lower
        print(
            f"  {k:4.2f}   {independent:11.4f}   {max(1 + k, 1 + 1 / k):23.4f}   {correlated:10.4f}   {checked:10.4f}"
        )


def example_2():
    """Three numbers with x1 = 2 x2: which moves are adjacent, and the noise that hides each case and all of them."""
    manifold = pc.AffineManifold([[1.0, -2.0, 0.0]], labels=["x1", "x2", "x3"])
    query = pc.LinearQuery(np.eye(3), manifold)
    print(
        "\nExample 2: x1 = 2 x2, x3 free; worst moves and standard deviations of the Gaussian noise, delta = 0.01"
    )
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-2)
    cases = {
        "(i) x1 moves": ["x1"],
        "(ii) x2 moves": ["x2"],
        "(iii) x3 moves": ["x3"],
        "all of them": None,
    }
    for name, entries in cases.items():
        adjacency = pc.ManifoldAdjacency(1.0, entries=entries)
        design = pc.design_gaussian(query, adjacency, budget)
        moves = np.round(np.abs(design.worst_moves).T, 4).tolist()
        std = np.sqrt(np.diag(design.noise.covariance)).round(4).tolist()
        print(f"  {name:14s} worst moves {moves}, std {std}")


def table_with_public_margins():
    """A 3 x 3 table of counts whose row and column sums are published already."""
    cells = [f"cell[{i},{j}]" for i in range(3) for j in range(3)]
    rows, columns = np.kron(np.eye(3), np.ones(3)), np.kron(np.ones(3), np.eye(3))
    counts = np.array([[12.0, 7, 3], [4, 15, 9], [8, 2, 20]])
    margins = np.vstack([rows, columns])[:-1]  # the last one follows from the others
    manifold = pc.AffineManifold(margins, -margins @ counts.ravel(), labels=cells)
    query, adjacency = pc.LinearQuery(np.eye(9), manifold), pc.ManifoldAdjacency(1.0)
    structured = pc.design_laplace(query, adjacency, PURE)
    independent = pc.design_iid(query, adjacency, PURE, family="laplace")
    released = structured.mechanism.release(counts.ravel(), rng=0).reshape(3, 3)
    print(
        f"\nTable with public margins: one count moves by 1, and with it up to {_largest_support(adjacency, manifold)} others"
    )
    print(
        f"  total noise variance: structured {structured.cost:.1f}, independent {independent.cost:.1f}"
    )
    print(
        f"  released row sums {released.sum(axis=1).round(9)} are the public ones {counts.sum(axis=1)}"
    )
    print(f"  {structured.guarantee}")


def _largest_support(adjacency, manifold):
    moves = np.abs(manifold.kernel @ adjacency.moves(manifold).columns)
    return int((moves > 1e-9).sum(axis=0).max()) - 1


if __name__ == "__main__":
    example_1()
    example_2()
    table_with_public_margins()
