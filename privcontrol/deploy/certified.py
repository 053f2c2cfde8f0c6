"""The command's work with designs and their promises: show, check, begin, go on.

It imports all that certifies a design, so the command imports it only where it is needed.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..designs.output_noise import OutputNoise
from ..loop.loop import PrivateLoop
from ..numerics.errors import PrivacyError
from ..privacy.guarantee import PrivacyGuarantee
from ..privacy.ledger import PrivacyLedger
from .files import LONGEST_HORIZON, load
from .gateway import Gateway, made_for, on_grid
from .plc import c_code
from .publisher import digest_of_file

Steps = str | list[str] | None


def shown(path: Path, longest: int | None, resolution: Steps) -> list[str]:
    """Return the texts of a design: what it is, its noise, its whole promise."""
    design = _loaded(path, longest)
    std = ", ".join(f"{std:.4g}" for std in _noise(design).std)
    return [repr(design), f"Std: {std}", _promise(design, resolution).explain()]


def checked(path: Path, longest: int | None, resolution: Steps) -> list[str]:
    """Return that a design holds, and the additional leak of a grid of readings."""
    guarantee = _promise(_loaded(path, longest), resolution)
    texts = [f"holds: {str(guarantee).splitlines()[0].partition(':')[2].strip()}"]
    if resolution is not None:
        texts.append(_not_hidden(guarantee))
    return texts


def written(path: Path, longest: int | None) -> str:
    """Return a design's filter in C."""
    return c_code(_noise(_loaded(path, longest)))


class Run:
    """A certified design and its ledger, before the gateway's file is touched."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._design = digest_of_file(options.design)
        self._noise = _noise(_loaded(options.design, options.longest))
        self._state = Path(os.path.realpath(options.state))
        self._steps = {"grid": options.grid, "resolution": options.resolution}
        self.ledger: PrivacyLedger | None = None
        if options.ledger is not None:
            self.ledger = PrivacyLedger.open(options.ledger)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return tuple(self._noise.plant_data.outputs)

    def begun(self) -> Gateway:
        """Make the gateway's file, which does not exist yet."""
        if self._state.exists():
            raise PrivacyError(
                f"--state: expected no file at {str(self._state)!r}, got one: publish "
                "goes on with it, and another run takes another file"
            )
        if self._state.with_name(f"{self._state.name}.lock").exists():
            raise PrivacyError(
                f"--state: the gateway's file at {str(self._state)!r} is gone, and its "
                "lock file is left: put the file back. If the run begins again, delete "
                "the lock file"
            )
        return made_for(
            self._design,
            self._noise,
            path=self._state,
            ledger=self.ledger,
            **self._steps,
        )

    def gateway(self) -> Gateway:
        """Make the gateway of a state, or resume it where the state exists."""
        options = self._options
        if self._state.exists():
            return self._resumed()
        if options.known:
            raise PrivacyError(
                f"--known: expected the gateway's file at {str(self._state)!r}, which "
                f"has reached sample {options.known}, got none: put it back"
            )
        return self.begun()

    def _resumed(self) -> Gateway:
        options = self._options
        gateway = Gateway.resume(
            self._state,
            ledger=self.ledger,
            known=options.known,
            unguarded=options.unguarded,
        )
        try:
            if _drawn(gateway.noise) != _drawn(self._noise):
                raise PrivacyError(
                    f"--state: the file at {str(self._state)!r} publishes another noise "
                    f"than that of {str(options.design)!r}: pass its design, or another "
                    "--state"
                )
            gateway._check_steps(**self._steps)
        except BaseException:
            gateway.close()
            raise
        return gateway


def _drawn(noise: OutputNoise) -> tuple[object, ...]:
    """Return what decides the noise's values, without what is promised of them."""
    return noise.plant_data, noise.horizon, noise.family, noise.parts


def _loaded(path: Path, longest: int | None) -> OutputNoise | PrivateLoop:
    return load(path, longest=LONGEST_HORIZON if longest is None else longest)


def _noise(design: OutputNoise | PrivateLoop) -> OutputNoise:
    """Return a design's noise, which is the design itself or that of a loop."""
    return design.data.private_noise if isinstance(design, PrivateLoop) else design


def _promise(design: OutputNoise | PrivateLoop, resolution: Steps) -> PrivacyGuarantee:
    """Return a design's guarantee, for readings on a grid if their step is given."""
    if resolution is None:
        return design.guarantee
    return on_grid(_noise(design), resolution).guarantee


def _not_hidden(guarantee: PrivacyGuarantee) -> str:
    """Return the lines of a guarantee's whole text that say what is not hidden."""
    lines = guarantee.explain().splitlines()
    first = [line.startswith("Not hidden:") for line in lines].index(True)
    last = first + 1
    while last < len(lines) and lines[last].startswith(" "):
        last += 1
    return "\n".join(lines[first:last])
