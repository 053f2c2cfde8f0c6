"""Start the command ``privcontrol``.

Signals that ask for its health come from others, at any time. Until it can answer them
they are ignored, from before anything large is imported: by default they would end it.
"""

from __future__ import annotations

import signal
import sys


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    from .command import main as run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
