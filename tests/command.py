"""The command ``privcontrol`` in processes of its own."""

import logging
import os
import subprocess
import sys
import traceback

from privcontrol.deploy.__main__ import main


def start(*arguments, env=None, before=lambda: None, **options):
    """Return the running `subprocess.Popen`, which calls ``before`` first.

    On Linux it is a fork without an exec, so nothing is imported again.
    """
    arguments = [str(argument) for argument in arguments]
    argv = [sys.executable, "-m", "privcontrol.deploy", *arguments]
    if sys.platform != "linux":
        env = {**os.environ, **(env or {})}
        return subprocess.Popen(argv, env=env, preexec_fn=before, **options)

    def child():
        os.closerange(3, 1 << 12)  # the parent waits for an exec, or for this
        os.environ.update(env or {})
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w", 1), open(2, "w", 1)
        logging.getLogger().handlers.clear()
        code = 1
        try:
            before()
            code = main(arguments)
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    # a fresh interpreter ignores SIGPIPE, and so has this one
    return subprocess.Popen(argv, preexec_fn=child, restore_signals=False, **options)
