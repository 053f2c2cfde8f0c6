"""The response of simulated consensus: messages, states, and the squared error of both readouts at every step."""

import numpy as np

from ..core._linalg import one_of
from ..response import PrivateResponse, Pulse
from ._propagation import READOUTS


class ConsensusResponse(PrivateResponse):
    """Trials of private consensus: outputs are the messages y_i(t), states the private x_i(t).

    Simulated with ``keep_states=False`` it holds the messages of the last step only and no states; the squared errors
    cover all steps either way. Made by `PrivateConsensus.simulate`.

    Parameters
    ----------
    squared_errors : dict of ndarray, (trials, steps + 1)
        By readout.
    **signals
        As for `PrivateResponse`.

    Attributes
    ----------
    steps : ndarray, shape (steps + 1,)
        The step numbers 0, 1, ... of the squared errors.

    Examples
    --------
    >>> from privcontrol.consensus import private_consensus
    >>> from privcontrol.core import PrivacyBudget
    >>> pair = private_consensus([[0, 0.25], [0.25, 0]], PrivacyBudget(epsilon=1), 1.0, family="laplace")
    >>> response = pair.simulate([0.0, 2.0], 3, trials=1000, rng=0, keep_states=False)
    >>> response.squared_error("state").shape, response.outputs.shape
    ((1000, 4), (2, 1000, 1))
    """

    def __init__(self, squared_errors, **signals):
        self._squared_errors = squared_errors
        self.steps = np.arange(squared_errors["message"].shape[1])
        super().__init__(**signals)

    def squared_error(self, readout="message"):
        """sum_i (readout_i(t) - mean(x(0)))^2 of every trial.

        Parameters
        ----------
        readout : {"message", "state"}, optional

        Returns
        -------
        ndarray, shape (trials, steps + 1)
        """
        return self._squared_errors[one_of(readout, "readout", READOUTS)]

    def mean_square_error(self, readout="message"):
        """Mean of `squared_error` over the trials, and its standard error (NaN for one trial).

        Returns
        -------
        mean, standard_error : ndarray, shape (steps + 1,)
        """
        error = self.squared_error(readout)
        spread = (
            error.std(axis=0, ddof=1)
            if len(error) > 1
            else np.full(error.shape[1], np.nan)
        )
        return error.mean(axis=0), spread / np.sqrt(len(error))


def consensus_response(blocks, steps, labels, guarantee):
    """The response of the arrays that `Propagation` returns, trials on axis 0; nothing is copied."""
    errors = {readout: blocks[readout] for readout in READOUTS}
    kept = blocks["states"] is not None
    eta = [f"eta[{label}]" for label in labels] if kept else None
    return ConsensusResponse(
        errors,
        time=np.arange(steps + 1.0) if kept else np.array([float(steps)]),
        outputs=blocks["messages"].transpose(1, 0, 2),
        states=blocks["states"].transpose(1, 0, 2) if kept else None,
        inputs=Pulse(blocks["eta"].T) if kept else None,
        output_labels=labels,
        state_labels=labels if kept else None,
        input_labels=eta,
        guarantee=guarantee,
        sysname="consensus",
        time_label="Step",
    )
