"""Design files: exact, certified when they are read, and refused when they were altered."""

import errno
import hashlib
import itertools
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import cases
import control as ct
import numpy as np
import oracles
import pytest
from design_files import decoded, digest_of, edited, encoded
from gateway_cases import ENDLESS, REQUESTS, noise
from repeats import few
from verified_cases import KINDS, SOME, first_design

import privcontrol as pc
from privcontrol.noise.certify import certify
from privcontrol.numerics.saved import Saved, decode, encode


@pytest.fixture
def path(tmp_path):
    return tmp_path / "noise.json"


@pytest.mark.parametrize("kind", [*REQUESTS, *ENDLESS])
def test_noise_comes_back_bit_by_bit(kind, path):
    design = noise(kind)
    design.save(path)
    loaded = pc.load(path)
    assert loaded == design
    assert loaded.request == design.request
    assert loaded.guarantee.to_dict() == design.guarantee.to_dict()
    streams = loaded.stream(rng=1), design.stream(rng=1)
    for _ in range(40):
        assert np.array_equal(*map(next, streams))
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first


def comes_back(design, path):
    """Whether a file gives the design back to the last bit, and is written alike again."""
    design.save(path)
    first = path.read_bytes()
    loaded = pc.load(path)
    loaded.save(path)
    is_same = loaded == design and path.read_bytes() == first
    if isinstance(design, pc.OutputNoise):
        promises = [one.guarantee.to_dict() for one in (loaded, design)]
        return is_same and promises[0] == promises[1]
    return is_same


#: Files of some are loaded where they are proved, in test_verify.py.
OTHERS = [kind for kind in KINDS if kind not in SOME]


@pytest.mark.parametrize("kind", few([*OTHERS, *SOME], of=len(OTHERS)))
def test_noise_of_every_kind_comes_back_bit_by_bit(kind, path):
    assert comes_back(first_design(kind), path)


@pytest.mark.parametrize(
    "bound, horizon",
    few(itertools.product([5.0, {"y": (5.0, 6.0)}], [30, np.inf]), of=3),
)
def test_noise_within_a_bound_comes_back_bit_by_bit(horizon, bound, path):
    lag = ct.ss(0.9, 1, 1, 0, 1.0, states=["x"], inputs=["u"], outputs=["y"])
    design = pc.design_output_noise(
        lag,
        horizon=horizon,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.DisturbanceAdjacency({"u": 0.1}),
        models="exact",
        bound=bound,
    )
    assert comes_back(design, path)


def stages(count=8):
    """A vehicle whose sample time alternates."""
    labels = {"states": ["position", "velocity"], "inputs": ["u"], "outputs": ["y"]}
    for t in range(count):
        h = 0.1 * (1 + t % 2)
        yield ct.ss([[1, h], [0, 1]], [[0], [h]], [[1, 0]], 0, 0.1, **labels)


@pytest.mark.parametrize(
    "adjacency",
    [
        pc.StateAdjacency(1.0, times=0),
        pc.InitialStateAdjacency(1.0),
        pc.DisturbanceAdjacency({"u": 1.0}, duration=2),
    ],
)
def test_noise_for_a_list_of_plants_comes_back_bit_by_bit(adjacency, path):
    design = pc.design_output_noise(
        list(stages()),
        horizon=8,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=adjacency,
        models="exact",
        max_std=np.inf,
    )
    assert comes_back(design, path)


@pytest.mark.parametrize("options", [{"family": "ball"}, {"family": "truncated"}])
def test_loops_of_radial_noise_come_back_bit_by_bit(options, path):
    plant = pc.plants.vehicle()
    noise = pc.design_output_noise(
        plant,
        horizon=20,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        models="exact",
        **options,
    )
    loop = pc.private_lqg(plant, Q=1, R=1, QN=1, RN=1, P0=1, noise=noise)
    assert comes_back(loop, path)


@pytest.mark.parametrize("family", ["laplace", "iid-laplace"])
@pytest.mark.parametrize("seed", few(range(20), of=2))
def test_laplace_noise_for_any_plant_comes_back(family, seed, path):
    """Claims are checked from shifts that are rounded: no genuine file is refused."""
    states = 1 + seed % 4
    plant = cases.random_plant(seed, states=states, outputs=1 + seed % 2)
    secret = pc.StateAdjacency(10.0 ** (seed % 5 - 2), times=None if seed % 3 else 0)
    design = pc.design_output_noise(
        plant,
        horizon=states + 2 + seed,
        budget=pc.PrivacyBudget(epsilon=0.1 + seed / 7),
        adjacency=secret,
        family=family,
        max_std=np.inf,
        models="exact",
    )
    design.save(path)
    assert pc.load(path) == design


def test_laplace_noise_around_a_ball_comes_back(path):
    design = pc.design_output_noise(
        cases.random_plant(0, states=2, outputs=2),
        horizon=4,
        budget=pc.PrivacyBudget(epsilon=1.0),
        adjacency=pc.InitialStateAdjacency([1.0, 0.2]),
        family="laplace",
        models="exact",
    )
    design.save(path)
    assert pc.load(path) == design


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    "secret",
    [pc.StateAdjacency(1.0), pc.InitialStateAdjacency([1.0, 0.5, 0.2], norm=np.inf)],
)
def test_noise_of_states_that_outputs_do_not_tell_apart_comes_back(
    family, secret, path
):
    """Two readings distinguish two directions of the three states, by another route."""
    design = pc.design_output_noise(
        cases.random_plant(1, states=3, outputs=1),
        horizon=2,
        budget=pc.PrivacyBudget(
            epsilon=1.0, delta=0.0 if family == "laplace" else 1e-2
        ),
        adjacency=secret,
        family=family,
        models="exact",
    )
    images = oracles.dense_observability(design.plant.A, design.plant.C, 2)
    moves = secret.moves(pc.trajectory_manifold(design.plant, 2)).vectors
    factor = images @ design.factor
    if family == "laplace":  # as many entries as readings: these determine them
        shifts = np.abs(np.linalg.solve(factor, images @ moves)).sum(axis=0)
        assert design.guarantee.loss.pure == pytest.approx(shifts.max(), rel=1e-7)
    else:
        truth = oracles.shift(factor @ factor.T, images @ moves)
        assert design.guarantee.gdp == pytest.approx(truth, rel=1e-7)
    design.save(path)
    assert pc.load(path) == design


def noise_of_two_vehicles():
    vehicle, heavy = pc.plants.vehicle(), pc.plants.vehicle()
    heavy.A[0, 0] = 0.999
    return pc.design_output_noise(
        vehicle,
        horizon=20,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=1.0,
        models=[heavy],
    )


def test_noise_for_several_models_comes_back(path):
    design = noise_of_two_vehicles()
    design.save(path)
    assert pc.load(path).request.models == design.request.models


def loops():
    vehicle = pc.plants.vehicle()
    weights = {"Q": np.eye(2), "R": 1, "QN": np.eye(2), "RN": 1}
    noises = [noise("structured"), noise("floored"), None]
    for one in noises:
        yield pc.private_lqg(vehicle, **weights, noise=one)
    yield pc.private_lqg(vehicle, **weights, noise=noises[0], form="filter")
    yield pc.private_lqg(
        vehicle, **weights, noise=noises[1], P0=[1, 0.25], codesign=True
    )
    lead = ct.ss(0.5, [[0.1, 1.0]], -0.1, [[-0.2, 0.0]], 0.1)
    yield pc.private_loop(vehicle, controller=lead, noise=noises[1])


@pytest.mark.parametrize("loop", list(loops()), ids=range(6))
def test_loops_come_back_bit_by_bit(loop, path):
    loop.save(path)
    first = path.read_bytes()
    loaded = pc.load(path)
    loaded.save(path)
    assert path.read_bytes() == first
    for t in (0, 3):
        assert np.array_equal(loaded.data.dynamics.at(t).A, loop.data.dynamics.at(t).A)
    assert loaded.noise == loop.noise
    assert loaded == loop
    assert hash(loaded) == hash(loop)
    if loop.noise is not None:
        runs = [one.simulate(rng=1, trials=2).outputs for one in (loaded, loop)]
        assert np.array_equal(*runs)


def test_loops_are_equal_if_all_that_they_hold_is():
    assert len(set(loops())) == 6
    assert set(loops()) == set(loops())
    weights = {"Q": 1, "R": 1, "QN": 1, "RN": 1, "P0": 1}
    loop = pc.private_lqg(pc.plants.vehicle(), **weights)
    for name in weights:
        assert pc.private_lqg(pc.plants.vehicle(), **weights | {name: 2}) != loop


def test_a_loop_with_noise_that_breaks_its_claim_is_refused(path):
    def shrink(data):
        part = data["noise"]["parts"][0]
        part["factor"] = encoded(0.999 * decoded(part["factor"]))

    next(loops()).save(path)
    edited(path, shrink)
    with pytest.raises(pc.PrivacyError, match="does not keep"):
        pc.load(path)


@pytest.mark.parametrize("kind", [*REQUESTS, *ENDLESS])
def test_noise_that_is_smaller_than_it_claims_is_refused(kind, path):
    def shrink(data):
        for part in data["parts"]:
            for name in ("factor", "sizes", "root", "scale"):
                if name in part:
                    part[name] = encoded(0.999 * decoded(part[name]))
            for name in "CD" if "shaping" in part else "":
                part["shaping"][name] = encoded(0.999 * decoded(part["shaping"][name]))

    noise(kind).save(path)
    edited(path, shrink)
    with pytest.raises(pc.PrivacyError, match="does not keep the file.s claim"):
        pc.load(path)


def test_a_claim_that_is_better_than_the_noise_is_refused(path):
    def boast(data):
        loss = design.guarantee.loss
        loss = replace(loss, rows=(replace(loss.rows[0], square=Fraction(4, 25)),))
        claimed = replace(design.guarantee, loss=loss)
        data["guarantee"]["loss"] = claimed.to_dict()["loss"]

    design = noise("structured")
    design.save(path)
    edited(path, boast)
    with pytest.raises(pc.PrivacyError):
        pc.load(path)


def test_a_claim_for_a_larger_secret_is_refused(path):
    def widen(data):
        data["request"]["adjacency"]["radius"]["position"] = encoded(1.5)

    noise("structured").save(path)
    edited(path, widen)
    with pytest.raises(pc.PrivacyError):
        pc.load(path)


def test_another_plant_is_refused(path):
    def replace(data):
        data["plant"]["A"] = encoded(np.array([[1.0, 0.2], [0.0, 1.0]]))

    noise("structured").save(path)
    edited(path, replace)
    with pytest.raises(ValueError, match="fingerprint"):
        pc.load(path)


def test_flipped_bits_are_refused_or_harmless(path):
    """One bit in 23, so all bits of all bytes have their turn.

    ``tests/stress/flip_design_files.py`` flips every bit.
    """
    design = noise("structured", horizon=3)
    design.save(path)
    whole = path.read_bytes()
    harmless = 0
    for place in range(0, 8 * len(whole), 23):
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << (place % 8)
        if _content(changed) == _content(whole):
            harmless += 1  # space between the parts
            continue
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="^path: "):
            pc.load(path)
    assert harmless < 0.1 * 8 * len(whole) / 23


def _content(text):
    try:
        return json.dumps(json.loads(bytes(text).decode("ascii")))
    except ValueError:
        return None


def test_of_a_long_reason_200_characters_are_shown(path):
    noise("structured").save(path)
    edited(path, lambda data: data.update(family="x" * 5000))
    with pytest.raises(ValueError, match="cannot be certified") as caught:
        pc.load(path)
    assert len(str(caught.value)) < 700


def test_files_of_something_else_are_refused(path):
    for text in ("", "{}", "[1]", '{"schema": 1}', "\xff"):
        path.write_text(text, encoding="latin1")
        with pytest.raises(ValueError, match="design file"):
            pc.load(path)
    noise("structured").save(path)
    edited(path, lambda data: data.update(schema=1))
    with pytest.raises(ValueError, match="schema"):
        pc.load(path)
    noise("structured").save(path)
    edited(path, lambda data: data.update(kind="novel"))
    with pytest.raises(ValueError, match="noise or a loop"):
        pc.load(path)
    noise("structured").save(path)
    edited(path, lambda data: data.pop("parts"))
    with pytest.raises(ValueError, match="lacks a field"):
        pc.load(path)
    with pytest.raises(FileNotFoundError, match="got none at .*none'; noise.save"):
        pc.load(path.with_name("none"))
    with pytest.raises(TypeError, match="path"):
        pc.load(np.zeros(2))


def test_a_design_that_cannot_be_saved_leaves_the_one_before(path, monkeypatch):
    saved = noise("structured")
    saved.save(path)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="space left on the disk") as caught:
            noise("driven").save(path)
    assert caught.value.errno == errno.ENOSPC
    assert list(path.parent.iterdir()) == [path]
    assert pc.load(path) == saved
    with pytest.raises(FileNotFoundError, match="make it first"):
        saved.save(path.parent / "none" / "noise.json")


@pytest.mark.parametrize("factor", [[None], "0x1p+0", [["a"]], 1])
def test_a_factor_that_is_no_matrix_is_refused(factor, path):
    """What is loaded can be shown."""
    noise("structured").save(path)
    edited(path, lambda data: data["request"].update(factor=factor))
    with pytest.raises(ValueError, match="factor"):
        pc.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: root[:, ::-1],
        lambda root: np.hstack([0 * root, root]),
        lambda root: np.hstack([root, root]),
        lambda root: np.vstack([root, root]),
    ],
)
def test_correlated_noise_of_later_entries_is_refused(change, path):
    """Its covariance keeps the promise, or more; samples leave out what comes later.

    Of the first root a gateway published 28-GDP noise for a promise of 0.53.
    """
    noise("correlated and floored", horizon=12).save(path)

    def alter(data):
        (part,) = (part for part in data["parts"] if part["kind"] == "correlated")
        part["root"] = encoded(change(decoded(part["root"])))

    edited(path, alter)
    with pytest.raises(ValueError, match="root: expected"):
        pc.load(path)


def test_numbers_are_exact_and_the_digest_is_sha256(path):
    size = float(np.nextafter(0.1, 1.0))
    floored = noise("floored")
    floored.with_std(size * floored.std.max()).save(path)
    for part in json.loads(path.read_text())["parts"]:
        for name in {"factor", "scale"} & set(part):
            own = [each for each in pc.load(path).parts if hasattr(each, name)]
            assert getattr(own[0], name).tobytes() == decoded(part[name]).tobytes()
    noise("structured").save(path)
    data = json.loads(path.read_text())
    assert list(data)[:2] == ["schema", "kind"]
    assert list(data)[-1] == "digest"
    claimed = data.pop("digest")
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == claimed


def test_the_reference_reader_of_the_docs_reads_it(path):
    """It stands in docs/design_files.md, needs no numpy, and gives the same covariances."""
    from pathlib import Path

    page = Path(__file__).parents[1] / "docs" / "design_files.md"
    source = page.read_text().split("```python\n")[1].split("```")[0]
    assert len(source.splitlines()) <= 65
    script = path.with_name("reader.py")
    script.write_text(source)
    for kind in REQUESTS:
        design = noise(kind, horizon=6)
        design.save(path)
        ran = subprocess.run(
            [sys.executable, "-S", str(script), str(path)],
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        stds = [float(line.split()[-1]) for line in ran.stdout.splitlines()[-6:]]
        expected = [np.sqrt(design.covariance(t).item()) for t in range(6)]
        assert stds == pytest.approx(expected, rel=1e-9)


# -- what a file says of its promise is only compared ------------------------------------


def in_loss(name, value):
    return lambda data: data["guarantee"]["loss"].update({name: encoded(value)})


PROMISES = {
    "square": in_loss(
        "rows",
        [{"kind": "product", "shifts": [], "square": "1/1000000", "boxes": []}],
    ),
    "kinds": in_loss("kinds", ["Laplace"]),
    "proportional": in_loss("proportional", False),
    "active": in_loss("moves", [[10**6]]),
    "another attains": in_loss("moves", [[-1]]),
    "releases": lambda data: data["guarantee"].update(releases=2),
    "no releases": lambda data: data["guarantee"].update(releases=0),
    "a smaller budget": lambda data: data["request"]["budget"].update(
        epsilon=encoded(1e-3)
    ),
    "more releases asked for": lambda data: data["request"].update(releases=200),
    "a longer horizon asked for": lambda data: data["request"].update(horizon=41),
}
GAUSSIAN_ONLY = {"square", "kinds", "proportional", "active", "another attains"}


@pytest.mark.parametrize("kind", [*REQUESTS, *ENDLESS])
def test_no_number_of_a_promise_can_be_altered(kind, path):
    design = noise(kind)
    design.save(path)
    whole = path.read_bytes()
    for name, change in PROMISES.items():
        if "laplace" in kind and name in GAUSSIAN_ONLY:
            continue
        path.write_bytes(whole)
        edited(path, change)
        if json.loads(path.read_bytes()) == json.loads(whole):
            continue  # it was so before
        with pytest.raises((pc.PrivacyError, ValueError)):  # noqa: PT012 - fail() names the case
            pc.load(path)
            pytest.fail(f"{name} was believed")


@pytest.mark.parametrize("name", ["square", "releases"])
def test_a_ledger_charges_what_the_noise_costs_and_not_what_a_file_says(name, path):
    """square = 1e-6 made repeated(100) claim .01 for 5.33."""
    noise("structured").save(path)
    edited(path, PROMISES[name])
    with pytest.raises(pc.PrivacyError, match="does not keep the file.s claim"):
        pc.load(path)


@pytest.mark.parametrize("kind", ["independent laplace", "independent", "structured"])
def test_a_part_that_stands_twice_is_refused(kind, path):
    """A sum of two Laplace numbers of scale one loses 1 by a move of 1, as one of them does.

    It was certified as one number of scale sqrt(2), to lose 0.71, and that exactly.
    """
    move, far = 1.0, -1e6
    density_ratio = (1 + abs(far)) * math.exp(move) / (1 + abs(far - move))
    assert math.log(density_ratio) == pytest.approx(1.0, abs=1e-5)
    design = noise(kind)
    design.save(path)
    twice = design.parts * 2
    with pytest.raises(ValueError, match="expected one part of a kind, got two"):
        certify(
            twice,
            design.request.adjacency,
            design.request.world(design.plant_data),
            design.family,
        )
    nested = [{"kind": "partsum", "parts": json.loads(path.read_text())["parts"] * 2}]
    for parts in (nested[0]["parts"], nested):
        edited(path, lambda data, parts=parts: data.update(parts=parts))
        with pytest.raises(pc.PrivacyError, match="one part of a kind"):
            pc.load(path)


def test_laplace_noise_of_two_parts_is_refused(path):
    """Of noise beside a structured part the loss was called exact, and was a bound."""
    design = noise("laplace")
    parts = (*design.parts, *noise("independent laplace").parts)
    world = design.request.world(design.plant_data)
    radial = noise("radial").parts
    for wrong in (parts, radial):
        with pytest.raises(ValueError, match="expected one part of Laplace noise"):
            certify(wrong, design.request.adjacency, world, "laplace")


#: Alterations of noise's files that no digest of a plant guards, and what an error says.
SLIPS = {
    "too many sizes": (
        "driven",
        lambda data: data["parts"][0].update(sizes=encoded(np.ones(3))),
        "sizes: expected shape",
    ),
    "a number for names": (
        "structured",
        lambda data: data["plant"].update(outputs=2),
        "another outputs of the plant",
    ),
    "a name too many": (
        "structured",
        lambda data: data["plant"]["states"].append("other"),
        "a name for each signal",
    ),
    "no sampling time": (
        "structured",
        lambda data: data["plant"].update(dt=None),
        "another dt of the plant",
    ),
    "a wide matrix": (
        "endless",
        lambda data: data["parts"][0]["shaping"].update(C=encoded(np.ones((1, 2)))),
        "do not fit each other",
    ),
    "no number": (
        "endless",
        lambda data: data["parts"][0]["shaping"].update(
            C=encoded(np.full((1, 1), np.nan))
        ),
        "expected finite matrices",
    ),
    "a number for a truth": (
        "endless",
        lambda data: data["parts"][0].update(starts_stationary=encoded(-1.0)),
        "another starts_stationary of the filtered",
    ),
    "a truth for a number": (
        "driven",
        lambda data: data["request"]["adjacency"].update(duration=True),
        "duration: expected a whole number",
    ),
    "other outputs": (
        "floored",
        lambda data: data["parts"][1].update(scale=encoded(np.ones(2))),
        "has other outputs",
    ),
    "a negative size": (
        "floored",
        lambda data: data["parts"][1].update(scale=encoded(-np.ones(1))),
        "sizes that are not negative",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_files_of_other_types_and_shapes_are_refused(slip, path):
    """Some of them were loaded, and failed when the noise was used."""
    kind, change, said = SLIPS[slip]
    noise(kind).save(path)
    edited(path, lambda data: (change(data), signed_plants(data)))
    with pytest.raises(ValueError, match=said):
        pc.load(path)


def signed_plants(data):
    """Give plants the fingerprint of what they hold now, and the noise's part its plant."""
    plant = data["plant"]
    fields = plant.keys() - {"kind", "fingerprint", "name"}
    plant["fingerprint"] = digest_of({name: plant[name] for name in fields})
    for part in data["parts"]:
        if "plant" in part:
            part["plant"] = plant


@pytest.mark.parametrize("field", [{"form": "1"}, {"name": 0}, {"history": [1]}])
def test_a_loop_of_other_fields_is_refused(field, path):
    plant = pc.plants.vehicle()
    loop = pc.private_lqg(plant, Q=1, R=1, QN=1, RN=1, P0=1, noise=noise("structured"))
    loop.save(path)
    edited(path, lambda data: data.update(field))
    with pytest.raises(ValueError, match=next(iter(field))):
        pc.load(path)
    loop.save(path)
    start = {"initial_state": encoded(np.zeros(3))}
    edited(path, lambda data: data["design"].update(start))
    with pytest.raises(ValueError, match="initial_state: expected shape"):
        pc.load(path)


def test_a_class_whose_annotations_nobody_resolves_comes_back():
    @dataclass(frozen=True)
    class Labelled(Saved):
        label: "OfATypeChecker"  # noqa: F821

    assert decode(encode(Labelled("hall"))) == Labelled("hall")


def test_a_bound_cannot_pass_for_attained(path):
    noise("endless floored").save(path)
    edited(path, in_loss("attained", True))
    with pytest.raises(pc.PrivacyError):
        pc.load(path)


@pytest.mark.parametrize("kind", ["laplace", "independent laplace"])
def test_smaller_rows_of_a_laplace_loss_are_refused(kind, path):
    def lower(data):
        row = data["guarantee"]["loss"]["rows"][-1]
        largest = row["shifts"][0]
        largest[0] = encoded(0.9 * decoded(largest[0]))

    def drop(data):
        del data["guarantee"]["loss"]["rows"][-1]

    for change in (lower, drop):
        noise(kind).save(path)
        edited(path, change)
        with pytest.raises((pc.PrivacyError, ValueError)):
            pc.load(path)


def test_a_promise_is_about_all_models_that_were_asked_for(path):
    """A file holds no list of its own: what is promised follows from the request."""
    design = noise_of_two_vehicles()
    design.save(path)
    assert pc.load(path).guarantee.scope == design.guarantee.scope
    assert len(design.guarantee.scope.models) == 2


def test_words_and_the_order_of_names_come_from_the_request(path):
    """JSON has no order of names, so a file says it apart, under its digest."""
    secret = pc.StateAdjacency({"velocity": 0.5, "position": 1.0})
    design = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=4,
        budget=pc.PrivacyBudget(gdp=0.5),
        adjacency=secret,
        models="exact",
    )
    design.save(path)
    data = json.loads(path.read_text())
    assert set(data["guarantee"]) == {"loss", "releases", "quoted_delta"}
    order = data["request"]["adjacency"]["signals"]
    assert order == list(design.request.adjacency.radius)
    assert pc.load(path).guarantee.explain() == design.guarantee.explain()
    edited(path, lambda data: data["request"]["adjacency"].update(signals=["velocity"]))
    with pytest.raises(ValueError, match="names that have a radius"):
        pc.load(path)


def test_noise_of_another_plant_than_the_secret_is_refused(path):
    """Noise that enters a slower plant than the secret does not cover it."""

    def slower(data):
        (part,) = [part for part in data["parts"] if part.get("response")]
        part["response"]["A"] = encoded(decoded(part["response"]["A"]) * 0.5)

    room = ct.ss([[0.9, 0.05], [0.0, 0.8]], [[0.0], [1.0]], np.eye(2), 0, 1.0)
    design = pc.design_output_noise(
        room,
        horizon=np.inf,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.DisturbanceAdjacency({"u[0]": 0.1}),
    )
    design.save(path)
    assert pc.load(path) == design
    edited(path, slower)
    with pytest.raises(pc.PrivacyError, match="another plant than the secret"):
        pc.load(path)


def test_independent_laplace_noise_for_models_comes_back(path):
    vehicle, heavy = pc.plants.vehicle(), pc.plants.vehicle()
    heavy.A[0, 0] = 0.999
    design = pc.design_output_noise(
        vehicle,
        horizon=20,
        budget=pc.PrivacyBudget(epsilon=1.0),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        family="iid-laplace",
        models=[heavy],
    )
    design.save(path)
    assert pc.load(path) == design


def test_laplace_noise_that_keeps_only_its_worst_move_comes_back(path):
    """A guarantee of more than 65,536 shifts is one coordinate, and names its move."""
    design = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=300,
        budget=pc.PrivacyBudget(epsilon=1.0),
        adjacency=pc.StateAdjacency({"position": 1.0, "velocity": 1.0}),
        family="iid-laplace",
        max_std=np.inf,
    )
    assert len(design.guarantee.loss.rows) == 1
    assert any(design.guarantee.loss.moves)
    design.save(path)
    assert pc.load(path) == design


def test_a_folder_that_is_missing_is_named_and_not_a_temporary_file(tmp_path):
    target = tmp_path / "none" / "noise.json"
    with pytest.raises(FileNotFoundError, match="existing folder.*none'; make it"):
        cases.vehicle_noise().save(target)


def test_a_long_run_beside_a_floor_is_loaded_without_a_dense_factor(tmp_path):
    """It asked for 80 GB: the standard deviations were those of a (T, T) factor."""
    noise = pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=100_000,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=0.1,
    )
    noise.save(tmp_path / "noise.json")
    loaded = pc.load(tmp_path / "noise.json")
    std = loaded.design.mechanism.noise.std
    assert std.shape == (100_000,)
    assert std.min() >= 0.1
    assert loaded.guarantee == noise.guarantee


def test_a_file_of_a_plant_that_varies_keeps_the_claim_that_it_was_saved_with():
    """Of noise that enters with the secret: a search finds what a solver then proves.

    A claim has to hold to a billionth, or the file counts as altered.
    """
    noise = pc.load(Path(__file__).parent / "data" / "varying_plant.json")
    assert noise.guarantee.gdp == pytest.approx(0.532516648, rel=1e-5)
