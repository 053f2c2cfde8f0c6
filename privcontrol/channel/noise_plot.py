"""The figure of output noise: samples within two standard deviations."""

from typing import TYPE_CHECKING, Any

import control as ct
import matplotlib.pyplot as plt
import numpy as np

from ..core._linalg import positive_integer
from ..core._random import Seed

if TYPE_CHECKING:
    from .output_noise import OutputNoise


def plot_noise(
    noise: "OutputNoise", samples: int, rng: Seed, ax: Any
) -> ct.ControlPlot:
    """`OutputNoise.plot`."""
    runs = noise.sample(positive_integer(samples, "samples"), rng)
    time = noise.timepts
    own = ax is None
    with plt.rc_context(ct.config.defaults["ctrlplot.rcParams"]):
        if own:
            size = (5.0, 0.9 + 1.5 * noise.outputs)
            figure = plt.figure(figsize=size, layout="constrained")
            ax = figure.subplots(noise.outputs, 1, sharex=True, squeeze=False)
        axes = np.asarray(ax, object).reshape(-1, 1)
        if len(axes) != noise.outputs:
            raise ValueError(
                f"ax: expected {noise.outputs} axes, one per output, got {len(axes)}"
            )
        lines = np.empty((noise.outputs, 1), object)
        for k, axis in enumerate(axes[:, 0]):
            band = 2 * noise.stds[k]
            axis.fill_between(
                time, -band, band, color="0.85", linewidth=0, label="two std"
            )
            lines[k, 0] = axis.plot(time, runs[k].T, linewidth=0.9)
            axis.set_ylabel(f"{noise.plant.outputs[k]}\nnoise")
            axis.margins(x=0)
        axes[-1, 0].set_xlabel(noise.plant.time_label)
        axes[0, 0].legend(loc="best")
        if own:
            axes[0, 0].figure.suptitle("Output noise")
    return ct.ControlPlot(lines, axes, axes[0, 0].figure)
