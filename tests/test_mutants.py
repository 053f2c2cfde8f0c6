"""The lists of mutants follow the code, and every number that a user sees has a line."""

import ast
import importlib.util
import sys
from functools import cache
from pathlib import Path

import pytest
from repeats import for_every

import privcontrol as pc


def script(name):
    path = Path(__file__).parent / "mutants" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"mutants_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


mutants = script("run")
moved = script("thresholds")

#: What objects show besides numbers of their own: settings, parts, data, texts, doors.
NO_NUMBERS = {
    "PrivacyGuarantee": "black_box compose correlations exact explain from_dict "
    "loss record releases satisfies scope sentence to_dict",
    "OutputNoise": "bound design factor family horizon initial_state_covariance kept over parts "
    "plant plant_data plot process record request sample save stream system timepts with_std",
    "PrivateLoop": "G K L N Q QN R RN closed_loop controller data guarantee history noise "
    "noise_weight online plant poles record report save simulate system with_noise",
    "PrivateConsensus": "agent laplacian mechanism simulate to_statespace",
    "InputPerturbation": "budget domain family metric model norm radius releases size then",
    "OutputPerturbation": "adjacency budget domain family lipschitz manifold metric model norm "
    "outputs radius releases size then",
}


def listed():
    return set(mutants.functions()) | {one.function for one in mutants.by_hand()}


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf8"))


@for_every(sorted(listed()))
def test_every_listed_function_is_there(function):
    path = mutants.module_path(mutants.ROOT, function)
    assert mutants.found(parsed(path), function.partition(":")[2])


def test_every_test_that_is_to_notice_a_mutant_is_there():
    every = [test for tests in mutants.functions().values() for test in tests]
    every += [test for tests in moved.more().values() for test in tests]
    for one in mutants.by_hand():
        every += one.tests
    missing = []
    for test in sorted(set(every)):
        file, _, name = test.partition("::")
        path = mutants.ROOT / file
        text = path.read_text(encoding="utf8") if path.exists() else ""
        if f"def {name.partition('[')[0]}" not in text:
            missing.append(test)
    assert not missing


@pytest.mark.parametrize(
    "mutant", mutants.by_hand(), ids=lambda mutant: mutant.function.partition(":")[2]
)
def test_every_mutant_by_hand_changes_one_line_and_still_reads(mutant):
    path = mutants.module_path(mutants.ROOT, mutant.function)
    text = path.read_text(encoding="utf8")
    wrong, _ = mutant.written(text)
    assert wrong != text
    ast.parse(wrong)


def test_every_claim_passes_through_functions_that_have_mutants():
    known = listed()
    unlisted = {
        name: [function for function in through if function not in known]
        for name, through in mutants.claims().items()
    }
    assert not {name: functions for name, functions in unlisted.items() if functions}


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_every_number_of_an_object_has_a_line(kind):
    public = {name for name in dir(getattr(pc, kind)) if not name.startswith("_")}
    claimed = {
        name.partition(".")[2] for name in mutants.claims() if f"{kind}." in name
    }
    assert public - set(NO_NUMBERS[kind].split()) <= claimed


def test_every_line_about_thresholds_is_of_one_or_of_a_file_with_some():
    modules = {name.partition(":")[0] for name in moved.more()}
    names = set()
    for module in modules:
        path = mutants.module_path(mutants.ROOT, module)
        names |= {one.name for one in moved.in_module(path)}
    assert set(moved.more()) <= names | {name.partition(":")[0] for name in names}


@pytest.mark.parametrize("factor", [-10, 10])
def test_a_threshold_is_moved_by_ten_times_and_no_other_with_it(
    tmp_path, monkeypatch, factor
):
    path = tmp_path / "some.py"
    path.write_text(
        "#: Two of them.\nFIRST, SECOND = 3, 2.0**-4\n"
        "#: Speed: of a block.\n_NEAR = 1 - 1e-6\n_ALL = (1, 20)\nWORD = 'x'\n"
    )
    monkeypatch.setattr(moved, "PACKAGE", tmp_path)
    found = {one.name: one for one in moved.in_module(path)}
    assert list(found) == ["some:FIRST", "some:SECOND", "some:_NEAR", "some:_ALL"]
    assert [one.is_speed for one in found.values()] == [False, False, True, True]
    numbers = {
        10: [30, 0.625, 1 - 1e-5, (10, 200)],
        -10: [1, 0.00625, 1 - 1e-7, (1, 2)],
    }[factor]
    before = {"FIRST": 3, "SECOND": 0.0625, "_NEAR": 1 - 1e-6, "_ALL": (1, 20)}
    for (name, one), number in zip(found.items(), numbers, strict=True):
        change = moved.Moved(name, "moved", factor, (), one.moved(factor))
        after = {}
        exec(change.written(path.read_text())[0], after)
        constant = name.partition(":")[2]
        assert {key: after[key] for key in before} == before | {
            constant: pytest.approx(number, rel=1e-12)
        }
