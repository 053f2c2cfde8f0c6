"""Start the command ``privcontrol``.

Signals that ask for its health come from others, at any time. Until it can answer them
they are ignored, from before anything large is imported: by default they would end it.

A supervisor may start it without standard input, output or error. Their numbers are then
given to nothing, so that no file of a gateway gets what is written to one of them.
"""

from __future__ import annotations

import os
import signal
import sys


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    _fill_standard_numbers()
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    from .command import main as run

    return run(arguments)


def _fill_standard_numbers() -> None:
    """Open what is nothing by the numbers 0, 1 and 2 that are closed."""
    number = os.open(os.devnull, os.O_RDWR)
    while number <= 2:
        os.set_inheritable(number, True)
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)


if __name__ == "__main__":
    sys.exit(main())
