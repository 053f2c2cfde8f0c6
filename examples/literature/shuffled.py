"""Wang et al. 2024, shuffled noise.

Neighbours shuffle noise gamma among themselves over encrypted links, -L_w gamma, which
leaves the sum alone. Each adds noise of its own, then all average in the open. With
large gamma the noise of the average tends to that of a trusted curator.
"""

import sys

import averaging
import comparison
import numpy as np

import privcontrol as pc

SOURCE = """Automatica 2024 (arXiv 2309.08464)
adjacency: one value moves by d; adversary: all messages, but not the encrypted exchange"""


def covariance(laplacian, own, shuffled):
    """s_e^2 I + s_g^2 L_w^2, with the weights L_w public."""
    return own**2 * np.eye(len(laplacian)) + shuffled**2 * laplacian @ laplacian


def design(plant, secret, budget):
    """s_g = 100 s_e; the average's error is s_e^2, summed over all agents."""
    n = len(plant.values)
    laplacian = plant.network.laplacian.toarray()
    unit = covariance(laplacian, 1.0, 100.0)

    def guarantee(scale):
        noise = pc.GaussianNoise(scale * np.linalg.cholesky(unit))
        return pc.Mechanism(pc.LinearQuery(np.eye(n)), noise).guarantee(secret)

    scale = guarantee(1.0).gdp / budget.shift() * (1 + 1e-9)
    agreed = "agreement once the messages have settled"
    return comparison.Entry(scale**2, scale, guarantee(scale), agreed)


def golden():
    """mu_i^2 -> d^2 / (n s_e^2), between its bound and the curator's value."""
    plant = averaging.ten_agents()
    laplacian = plant.network.laplacian.toarray()
    second = np.linalg.eigvalsh(laplacian)[1]
    information = np.linalg.inv(covariance(laplacian, 1.0, 3.0))
    bound = 1 / 10 + 0.9 / (1 + 9 * second**2)
    limit = np.linalg.inv(covariance(laplacian, 1.0, 1e4))
    return [
        ("largest mu_i^2 below its bound", min(np.diag(information).max(), bound),
         float(np.diag(information).max())),
        ("n mu_i^2 with much shuffling", 10 * np.diag(limit).max(), "1.0000"),
    ]  # fmt: skip


if __name__ == "__main__":
    comparison.main(sys.modules[__name__])
