"""A publisher goes on with a gateway's file by its recipe alone, and is the same gateway."""

import json
import random
import shutil
import subprocess
import sys

import pytest
from gateway_cases import noise

import privcontrol as pc
from privcontrol.deploy import main
from privcontrol.deploy.gateway import made_for
from privcontrol.deploy.publisher import taken_up
from privcontrol.privacy import release

KINDS = ("structured", "floored", "driven", "laplace", "independent", "endless")
#: What a device does without.
ABSENT = ("control", "cvxpy", "matplotlib", "mpmath", "pandas", "scipy.special")


@pytest.mark.parametrize("kind", KINDS)
def test_a_publisher_publishes_what_the_gateway_would(kind, tmp_path, monkeypatch):
    """Both go on with one file and its copy, and are given the same random bits."""
    path, copy = tmp_path / "g", tmp_path / "copy"
    ledgerless = {"path": path, "ledger": None, "grid": 0.001, "resolution": None}
    with made_for("digest", noise(kind), **ledgerless) as gateway:
        readings = [1.0] * len(gateway.signals.names)
        for _ in range(2):
            gateway.publish(readings)
    shutil.copy(path, copy)
    published = []
    for begin in (lambda: pc.Gateway.resume(path), lambda: taken_up(copy, "digest")):
        monkeypatch.setattr(release.secrets, "randbits", random.Random(1).getrandbits)
        with begin() as going_on:
            assert going_on.next_index == 2
            values = [going_on.publish(readings).tolist() for _ in range(3)]
            published.append((going_on.signals, values))
    assert published[0] == published[1]


def test_a_publisher_leaves_other_files_to_the_gateway(tmp_path):
    """Another design, a ledger, and dense noise, which is written as no recipe."""
    whole = {"grid": 0.001, "resolution": None}
    made_for("a", noise("floored"), path=tmp_path / "a", ledger=None, **whole).close()
    assert taken_up(tmp_path / "a", "b") is None
    ledger = pc.PrivacyLedger(pc.PrivacyBudget(epsilon=9.0, delta=0.1))
    made_for("b", noise("floored"), path=tmp_path / "b", ledger=ledger, **whole).close()
    assert taken_up(tmp_path / "b", "b") is None
    dense = noise("correlated and floored")
    made_for("c", dense, path=tmp_path / "c", ledger=None, **whole).close()
    assert taken_up(tmp_path / "c", "c") is None
    with taken_up(tmp_path / "a", "a", known=0) as publisher:
        assert publisher.next_index == 0
    with pytest.raises(pc.PrivacyError, match="older copy"):
        taken_up(tmp_path / "a", "a", known=1)


def test_a_device_that_goes_on_imports_no_design(tmp_path):
    file, state = tmp_path / "noise.json", tmp_path / "g"
    noise("floored").save(file)
    arguments = [str(file), "--state", str(state)]
    assert main(["begin", *arguments, "--grid", "0.001"]) == 0
    script = (
        "import sys\n"
        "from privcontrol.deploy.__main__ import main\n"
        f"code = main(['publish', *{arguments!r}])\n"
        f"print([name for name in {ABSENT!r} if name in sys.modules], file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        input='{"y": 1.0}\n',
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["index"] == 0
    assert ran.stderr.splitlines()[-1] == "[]"


def test_a_run_is_begun_once(tmp_path, capsys):
    file, state = tmp_path / "noise.json", tmp_path / "g"
    noise("floored").save(file)
    arguments = ["begin", str(file), "--state", str(state), "--grid", "0.001"]
    assert main(arguments) == 0
    assert main(arguments) == 1
    assert "expected no file" in capsys.readouterr().err
