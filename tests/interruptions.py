"""Interrupt a call at one of its steps, as a handler of signals that raises an error does."""

import dis
import sys
from functools import cache

#: Instructions at whose end Python looks whether a handler of signals is to run.
LOOKS = ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD")


class Interruption(BaseException):
    """What the handler raises."""


def interrupted(call, place):
    """Return the error after which a call ended at a step, None where it has fewer.

    An error can be raised before an instruction. It is raised behind one that looks for
    signals, where the same statements would catch it.
    """
    steps = 0
    last = {}  # instruction by number of a frame, which is not kept alive

    def step(frame, event, _):
        nonlocal steps
        frame.f_trace_opcodes = True
        code, number = frame.f_code, id(frame)
        if event == "opcode":
            before = last.get(number)
            last[number] = frame.f_lasti
            if before is not None and looks(code, before, frame.f_lasti):
                steps += 1
                if steps == place:
                    raise Interruption
        elif event == "return":
            last.pop(number, None)
        return step

    sys.settrace(step)
    try:
        call()
    except Interruption as error:
        return error
    finally:
        sys.settrace(None)
    return None


@cache
def looks(code, before, following):
    """Return whether a signal's error behind one instruction is one before the next."""
    if dis.opname[code.co_code[before]] not in LOOKS:
        return False
    return caught(code, before) == caught(code, following)


def caught(code, place):
    """Return where an error of an instruction is caught."""
    targets = []
    for entry in dis.Bytecode(code).exception_entries:
        if entry.start <= place < entry.end:
            targets.append(entry.target)
    return targets
