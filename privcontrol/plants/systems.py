"""Plants of the literature as python-control systems."""

from __future__ import annotations

import control as ct

from ..core._linalg import positive_number


def vehicle(dt: float = 0.1) -> ct.StateSpace:
    """Return the vehicle of DPAM section 5.3, whose position is measured.

    Parameters
    ----------
    dt : float, optional
        Sampling period in seconds, 0.1 in the paper.

    Returns
    -------
    control.StateSpace
        States position (m) and velocity (m/s), input u (m/s^2), output y (m).

    References
    ----------
    Hoh et al. (2011), IEEE Transactions on Mobile Computing 11(5); DPAM eq. (23).

    Examples
    --------
    >>> vehicle().state_labels
    ['position', 'velocity']
    """
    dt = positive_number(dt, "dt")
    return ct.ss(
        [[1, dt], [0, 1]],
        [[dt**2 / 2], [dt]],
        [[1, 0]],
        0,
        dt,
        states=["position", "velocity"],
        inputs=["u"],
        outputs=["y"],
        name="vehicle",
    )
