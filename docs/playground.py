"""The design file of the page to play with, ``docs/_static/play/design.js``.

    python docs/playground.py

The page is static: a browser that opens it from a disk may read scripts, not JSON.
"""

from pathlib import Path

import control as ct
import numpy as np

import privcontrol as pc

PAGE = Path(__file__).parent / "_static" / "play"
HEAD = '"use strict";\nconst DESIGN = '


def room() -> ct.StateSpace:
    """Air and walls of a room, in K from the set point; every quarter of an hour."""
    continuous = ct.ss(
        [[-3.1, 2.7], [0.18, -0.19]],
        [[1.7, 0.17], [0, 0]],
        [[1, 0]],
        0,
        states=["air", "walls"],
        inputs=["heat", "people"],
        outputs=["T"],
    )
    return continuous.sample(0.25, name="room")


def designed() -> pc.OutputNoise:
    """The noise that hides one stay of one person, of at most three hours."""
    return pc.design_output_noise(
        room(),
        horizon=np.inf,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.DisturbanceAdjacency({"people": 1}, duration=12, shape="any"),
        models="exact",
    )


def design_file() -> str:
    """The text of the design file that the page carries."""
    text = (PAGE / "design.js").read_text("utf8")
    return text.removeprefix(HEAD).removesuffix(";\n")


if __name__ == "__main__":
    path = PAGE / "design.js"
    designed().save(path)
    path.write_text(f"{HEAD}{path.read_text('utf8').strip()};\n", "utf8")
