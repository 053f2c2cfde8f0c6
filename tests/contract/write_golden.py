"""Write the golden numbers, and print every difference to those that are there.

``python tests/contract/write_golden.py`` prints what would change. ``--write`` writes it,
``--only TEXT`` looks only at requests whose name contains TEXT.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from contract import golden as numbers, table

GOLDEN = Path(__file__).with_name("golden.json")


def read() -> dict[str, dict]:
    """The golden numbers by request."""
    return json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}


def written(golden: dict[str, dict]) -> str:
    """One request a line, so a change shows as lines of a diff."""
    lines = [f"{json.dumps(name)}: {json.dumps(golden[name])}" for name in golden]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    before = read()
    after = {}
    for name in numbers.names():
        if arguments.only not in name:
            after[name] = before[name]
            continue
        after[name] = numbers.of(name)
        if name not in before:
            print(f"new: {name}")
            continue
        changed = numbers.differences(after[name], before[name], numbers.PRINTED)
        if not changed:
            after[name] = before[name]
        for line in changed:
            print(f"{name}: {line} {table.PENDING.get(name, '')}".rstrip())
    for name in before.keys() - after.keys():
        print(f"gone: {name}")
    if arguments.write:
        GOLDEN.write_text(written(after))


if __name__ == "__main__":
    main()
