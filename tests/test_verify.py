"""`privcontrol.verify` proves what design files claim, by itself, and nothing else."""

import ast
import json
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import cases
import jsonschema
import mpmath
import numpy as np
import pytest
from design_files import decoded, digest_of, encoded
from gateway_cases import ENDLESS, REQUESTS, noise
from verified_cases import design

import privcontrol as pc
from privcontrol import verify

SOURCE = Path(verify.__file__)
#: Files as they were before promises were stored without words.
OLD = Path(__file__).parent / "data" / "schema_2"
#: Some kinds of designs; tests/stress/verify_files.py has all of them.
SOME = (
    "two secrets",
    "ball floor",
    "models",
    "grid",
    "delayed inputs",
    "delayed outputs",
    "run lasting",
    "run shapes",
    "run several floor",
    "run energy floor",
    "run models",
    "run laplace",
    "endless several apart lasting",
    "endless energy floor",
    "endless models floor",
    "endless plant floor",
    "endless two secrets",
    "local loop",
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "noise.json"


def edited(path, change):
    """Alter a file and give it the digest of what it holds now."""
    data = json.loads(path.read_text())
    change(data)
    data.pop("digest")
    data["digest"] = digest_of(data)
    path.write_text(json.dumps(data))


def first_design(kind):
    """The noise of the first seed for which there is one."""
    return next(found for seed in range(9) if (found := design(kind, seed)))


def test_it_imports_the_standard_library_alone():
    tree = ast.parse(SOURCE.read_text())
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module.split(".")[0])
    assert names <= sys.stdlib_module_names


def test_a_copy_runs_anywhere(path):
    """Without site-packages, from a folder that is not the package's."""
    noise("floored").save(path)
    copied = path.with_name("verify.py")
    shutil.copy(SOURCE, copied)
    command = [sys.executable, "-I", "-S", str(copied), str(path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "holds" in ran.stdout and "0.532516648502" in ran.stdout


def test_it_runs_as_a_module_of_the_package(path):
    noise("structured").save(path)
    command = [sys.executable, "-m", "privcontrol.verify", "--json", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["verdict"] == "holds"


@pytest.mark.parametrize("kind", [*REQUESTS, *ENDLESS])
def test_files_of_every_kind_of_noise_hold(kind, path):
    one = noise(kind)
    one.save(path)
    report = verify.checked(path)
    assert report["status"] == 0, report
    if one.family == "gaussian":
        assert float(report["gdp"]) == pytest.approx(one.guarantee.gdp, rel=1e-8)
        assert float(report["delta"]) == pytest.approx(0.01, rel=1e-7)
    else:
        assert float(report["epsilon"]) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("kind", SOME)
def test_files_of_random_designs_hold(kind, path):
    """y is that of the library, or a little less where that is a bound."""
    one = first_design(kind)
    one.save(path)
    report = verify.checked(path)
    assert report["status"] == 0, report
    if "gdp" in report:
        ratio = float(report["gdp"]) / one.guarantee.gdp
        assert 0.99 < ratio < 1 + 1e-9


@pytest.mark.parametrize("kind", [*REQUESTS, *ENDLESS, *SOME])
def test_noise_that_is_smaller_than_it_claims_does_not_hold(kind, path):
    def shrink(data):
        for part in data["parts"]:
            for name in ("factor", "sizes", "root", "scale"):
                if name in part:
                    part[name] = encoded((1 - 1e-6) * decoded(part[name]))
            for name in "CD" if "shaping" in part else "":
                system = part["shaping"]
                system[name] = encoded((1 - 1e-6) * decoded(system[name]))

    one = noise(kind) if kind in (*REQUESTS, *ENDLESS) else first_design(kind)
    one.save(path)
    before = verify.checked(path)
    claimed = "claimed gdp" if "gdp" in before else "claimed epsilon"
    found = claimed.removeprefix("claimed ")
    is_bound = float(before[found]) < float(before[claimed]) * (1 - 1e-7)
    edited(path, shrink)
    after = verify.checked(path)
    assert float(after[found]) > float(before[found])
    assert is_bound or after["status"] == 1, after


@pytest.mark.parametrize("kind", [*REQUESTS, *ENDLESS])
def test_a_secret_that_is_larger_than_it_was_does_not_hold(kind, path):
    def widen(data):
        adjacency = data["request"]["adjacency"]
        for part in adjacency.get("parts", [adjacency]):
            radius = part["radius"]
            if "float" in radius:
                part["radius"] = encoded(1.01 * decoded(radius))
            else:
                name, size = next(iter(radius.items()))
                radius[name] = encoded(1.01 * decoded(size))

    noise(kind).save(path)
    edited(path, widen)
    assert verify.checked(path)["status"] == 1


@pytest.mark.parametrize("path", sorted(OLD.glob("*.json")), ids=lambda path: path.stem)
def test_files_of_schema_2_hold_and_load(path, tmp_path):
    report = verify.checked(path)
    assert report["status"] == 0, report
    loaded = pc.load(path)
    assert loaded.guarantee.gdp == pytest.approx(
        float(report.get("gdp", loaded.guarantee.gdp)), rel=1e-11
    )
    loaded.save(tmp_path / "again.json")
    assert verify.checked(tmp_path / "again.json")["status"] == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda scope: scope.update(window=[1, 40]),
        lambda scope: scope.update(models=["0" * 12]),
        lambda scope: scope.update(horizon=41),
        lambda scope: scope.update(
            adjacency=scope["adjacency"].replace('"position": 1.0', '"position": 2.0')
        ),
    ],
)
def test_a_promise_of_schema_2_that_is_about_something_else_does_not_hold(change, path):
    path.write_text((OLD / "structured.json").read_text())
    edited(path, lambda data: change(data["guarantee"]["scope"]))
    assert verify.checked(path)["status"] == 1


def test_words_of_a_file_of_schema_2_are_not_read(path):
    def reword(data):
        data["guarantee"]["scope"]["statement"] = "everything"

    path.write_text((OLD / "structured.json").read_text())
    edited(path, reword)
    report = verify.checked(path)
    assert report["status"] == 0 and "everything" not in verify.line(report)
    assert "position by at most 1 " in report["hidden"]
    assert "everything" not in pc.load(path).guarantee.explain()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["request"].update(bound=encoded(1.5)),
        lambda data: data["request"]["adjacency"].update(moved=4),
        lambda data: data["parts"][0].update(law="ball"),
    ],
)
def test_fields_that_it_does_not_know_are_not_covered(change, path):
    noise("structured").save(path)
    edited(path, change)
    report = verify.checked(path)
    assert report["status"] == 2, report


def test_files_fit_their_schema(path):
    """docs/design_file.schema.json describes every file, and refuses others."""
    schema = json.loads(
        (SOURCE.parents[1] / "docs" / "design_file.schema.json").read_text()
    )
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    for kind in [*REQUESTS, *ENDLESS]:
        noise(kind).save(path)
        data = json.loads(path.read_text())
        validator.validate(data)
        del data["request"]["adjacency"]
        assert not validator.is_valid(data)
    for kind in ("models", "endless models floor", "grid", "run shapes", "run laplace"):
        first_design(kind).save(path)
        validator.validate(json.loads(path.read_text()))
    vehicle = pc.plants.vehicle()
    pc.private_lqg(vehicle, Q=1, R=1, QN=1, RN=1, noise=noise("floored")).save(path)
    validator.validate(json.loads(path.read_text()))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["request"].update(horizon=41),
        lambda data: data["guarantee"].update(releases=2),
        lambda data: data["request"]["adjacency"].update(signals=["velocity"]),
        lambda data: data["plant"].update(states=["velocity", "position"]),
        lambda data: data["plant"].update(fingerprint="0" * 12),
        lambda data: data["request"]["budget"].update(delta=encoded(0.009)),
        lambda data: data["request"].update(releases=2),
        lambda data: data["parts"].append(data["parts"][0]),
    ],
)
def test_what_does_not_fit_does_not_hold(change, path):
    noise("structured").save(path)
    edited(path, change)
    assert verify.checked(path)["status"] == 1


def test_a_root_with_an_entry_above_the_diagonal_does_not_hold(path):
    def raise_one(data):
        root = decoded(data["parts"][0]["root"]).copy()
        root[0, -1] = 1.0
        data["parts"][0]["root"] = encoded(root)

    noise("correlated").save(path)
    edited(path, raise_one)
    assert "triangular" in verify.checked(path)["reason"]


def test_exit_statuses(path, capsys):
    def status(*arguments):
        return verify.main([*map(str, arguments)])

    noise("structured").save(path)
    assert status(path) == 0
    vehicle = pc.plants.vehicle()
    request = dict(horizon=5, budget=pc.PrivacyBudget(gdp=0.5), max_std=np.inf)
    region = pc.PlantBox.around(vehicle, relative=1e-3)
    place = pc.StateAdjacency({"position": 1.0}, times=0)
    hard = path.with_name("region.json")
    pc.design_output_noise(
        vehicle, adjacency=place, models=region, floor=1.0, **request
    ).save(hard)
    assert status(path, hard) == 2 and "a region of plants" in capsys.readouterr().out
    every = pc.StateAdjacency({"position": 1.0}, charts="all")
    pc.design_output_noise(vehicle, adjacency=every, models="exact", **request).save(
        hard
    )
    assert status(hard) == 2 and 'charts="all"' in capsys.readouterr().out
    hard.write_text("{}")
    assert status(path, hard) == 3
    hard.write_bytes(path.read_bytes().replace(b"position", b"positian", 1))
    assert status(hard) == 3 and "digest" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        verify.main([])
    assert caught.value.code == 64


def test_a_loop_is_checked_by_its_noise(path):
    vehicle = pc.plants.vehicle()
    loop = pc.private_lqg(vehicle, Q=1, R=1, QN=1, RN=1, noise=noise("floored"))
    loop.save(path)
    assert verify.checked(path)["status"] == 0
    pc.private_lqg(vehicle, Q=1, R=1, QN=1, RN=1).save(path)
    assert verify.checked(path)["status"] == 2


@pytest.mark.parametrize(
    ("epsilon", "y"),
    [(1.0, 0.5325), (0.0, 1e-6), (1e-4, 1e-3), (30.0, 2.0), (1e4, 140.0), (0.5, 30.0)],
)
def test_delta_agrees_with_mpmath(epsilon, y):
    with mpmath.workdps(600):
        size, level = mpmath.mpf(y), mpmath.mpf(epsilon)
        second = mpmath.exp(level) * mpmath.ncdf(-size / 2 - level / size)
        expected = float(mpmath.ncdf(size / 2 - level / size) - second)
    found = float(verify.delta_of(Fraction(y), Fraction(epsilon)))
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_cholesky_factor_proves_no_matrix_that_is_indefinite():
    """By a margin of 2^-200 of the largest entry, on both sides."""
    tiny = 1 << (verify.Balls.bits - 200)
    one = 1 << verify.Balls.bits
    for corner, is_proved in ((one + tiny, True), (one - tiny, False)):
        square = verify.Balls([[one, one], [one, corner]])
        assert verify.is_nonnegative(square) == is_proved


def test_energies_agree_with_the_lyapunov_equation():
    plant = cases.random_plant(3, states=4, outputs=2, radius=0.98)
    A, C = plant.A, plant.C
    exact = verify.Balls.of
    Q = verify.energy(exact(A.tolist()), exact(C.tolist()))
    found = np.array([[x / (1 << verify.Balls.bits) for x in row] for row in Q.mid])
    total, power = np.zeros((4, 4)), np.eye(4)
    for _ in range(4000):
        total += (C @ power).T @ C @ power
        power = A @ power
    assert np.allclose(found, total, rtol=1e-9)
