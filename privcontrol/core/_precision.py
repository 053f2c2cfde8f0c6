"""The precision of ball arithmetic: flint keeps one for the whole process, so that one block at a time may set it."""

import os
import threading
from contextlib import contextmanager

from flint import ctx

_LOCK = threading.RLock()


@contextmanager
def working_bits(bits):
    """Ball arithmetic with so many bits inside the block; other threads wait for their turn."""
    with _LOCK, ctx.workprec(bits):
        yield


def _fresh_lock():
    global _LOCK
    _LOCK = threading.RLock()


os.register_at_fork(
    after_in_child=_fresh_lock
)  # another thread's turn must not outlive it in the child
