"""The format of design files, as docs/design_files.md describes it."""

import hashlib
import json

import numpy as np


def encoded(value):
    """A number or an array as exact JSON, or dictionaries and lists of them."""
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, np.ndarray):
        numbers = [float(number).hex() for number in value.ravel()]
        return {"shape": list(value.shape), "floats": numbers}
    if isinstance(value, dict):
        return {name: encoded(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(part) for part in value]
    return value


def decoded(value):
    """The number or the array of exact JSON."""
    if "float" in value:
        return float.fromhex(value["float"])
    numbers = [float.fromhex(number) for number in value["floats"]]
    return np.array(numbers, float).reshape(value["shape"])


def digest_of(data):
    """The digest of all of a file but the digest."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def edited(path, change):
    """Alter a file and give it the digest of what it holds now."""
    data = json.loads(path.read_text())
    change(data)
    data.pop("digest")
    data["digest"] = digest_of(data)
    path.write_text(json.dumps(data))
