"""What plant and cloud share: where messages come from, and where they go."""

import argparse
import json
import sys
import threading
from pathlib import Path

from privcontrol.deploy import Topic


def parsed(purpose):
    """Return the options, which are the same for both."""
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("folder", type=Path)
    parser.add_argument("samples", type=int)
    parser.add_argument("period", type=float)
    parser.add_argument("--source", default="-")
    parser.add_argument("--sink", default="-")
    return parser.parse_args()


def listen(place, take, stack):
    """Call take with each message of a topic, or of standard input, from now on."""
    # without a buffer, whose lock a thread would hold at the end
    messages = open(0, "rb", buffering=0, closefd=False)
    if place != "-":
        messages = stack.enter_context(Topic(place))

    def hear():
        for text in messages:
            try:
                message = json.loads(text)
            except ValueError:
                print("half a message, of a process that was killed", file=sys.stderr)
                continue
            take(message)

    threading.Thread(target=hear, daemon=True).start()


def opened(place, stack):
    """Return a function that sends a message to a topic, or to standard output."""
    if place != "-":
        return stack.enter_context(Topic(place)).send
    return lambda message: print(json.dumps(message), flush=True)
