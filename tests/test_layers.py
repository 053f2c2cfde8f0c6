"""Imports point downwards only, nothing is imported in a circle, and the core stands without python-control."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from repeats import for_every

PACKAGE = Path(__file__).parents[1] / "privcontrol"

# Top to bottom. A module may import what stands below it; modules of one line import each other as long as there
# is no circle. Private helpers of the core sit with the public module that they serve.
LAYERS = [
    ["privcontrol.deploy"],
    ["privcontrol.deploy.files"],
    ["privcontrol.plants"],
    ["privcontrol.studies"],
    ["privcontrol.consensus"],
    ["privcontrol.loop"],
    ["privcontrol.response"],
    ["privcontrol.designs"],
    ["privcontrol.regions"],
    ["privcontrol.noise"],
    ["privcontrol.secrets"],
    ["privcontrol.systems"],
    ["privcontrol._figures"],
    ["privcontrol.core"],
    ["privcontrol.privacy"],
    ["privcontrol.numerics"],
]
CORE = [
    "_audit", "adaptive", "one_draw", "inference", "lipschitz", "query_design", "design_request", "noise_design", "constraints",
    "mechanism", "query", "ball_noise", "blocks", "noise", "adjacency", "manifold",
]  # fmt: skip
PRIVACY = [
    "ledger", "store", "composition", "guarantee", "record", "loss", "joint", "hidden", "radial", "release", "budget", "repetition",
]  # fmt: skip
STRANGERS = [("privcontrol.consensus", "privcontrol.loop")]


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(
            path.relative_to(PACKAGE.parent).with_suffix("").parts
        ).removesuffix(".__init__")
        yield name, path


MODULES = dict(modules())


def handed_on():
    """Where each name lives that a package hands on, by (package, name)."""
    places = {}
    for package, path in MODULES.items():
        face = path.with_suffix(".pyi")
        if path.name == "__init__.py" and face.exists():
            for source, name in imported(package, face):
                places[package, name] = source
    return places


@cache
def tree(path):
    """The syntax of a file, read once for all tests."""
    return ast.parse(path.read_text(encoding="utf8"))


def statements(node):
    """All statements of a tree, without a look at their expressions."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, name, ())
        for statement in inner if isinstance(inner, list) else ():
            yield statement
            yield from statements(statement)


def imported(module, path):
    """(module, name) of all that a file imports from the package, for annotations too."""
    parts = module.split(".")
    if path.stem != "__init__":
        parts = parts[:-1]
    for node in statements(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            base = parts[: len(parts) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield source, alias.name


HANDED_ON = handed_on()


def imports(module, path):
    """Modules of the package that a module imports, for annotations too, faces looked through."""
    for source, name in imported(module, path):
        full = f"{source}.{name}"
        while full not in MODULES and (source, name) in HANDED_ON:
            source = HANDED_ON[source, name]
            full = f"{source}.{name}"
        found = full if full in MODULES else source
        if found in MODULES:
            yield found


@cache
def graph():
    """The modules that each module imports; workers that run none of this parse no file."""
    return {name: set(imports(name, path)) - {name} for name, path in MODULES.items()}


def layer(module):
    for depth, prefixes in enumerate(LAYERS):
        if any(
            module == prefix or module.startswith(prefix + ".") for prefix in prefixes
        ):
            return depth
    return -1  # the package itself


@for_every(sorted(MODULES))
def test_imports_point_downwards(module):
    for target in graph()[module]:
        assert layer(target) >= layer(module), (
            f"{module} imports {target}, which is above it"
        )
        for pair in STRANGERS:
            inside = {
                next((p for p in pair if m.startswith(p)), None)
                for m in (module, target)
            }
            assert inside != set(pair), (
                f"{module} imports {target}: consensus and loops do not see each other"
            )


@pytest.mark.parametrize("room, order", [("core", CORE), ("privacy", PRIVACY)])
def test_modules_keep_their_order(room, order):
    rank = {f"privcontrol.{room}.{name}": depth for depth, name in enumerate(order)}
    assert set(rank) <= set(graph())
    upward = [
        (module, target)
        for module in rank
        for target in graph().get(module, ())
        if target in rank and rank[target] < rank[module]
    ]
    assert not upward


def test_no_module_imports_itself_in_a_circle():
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path, module])
        if module in done:
            return
        path.append(module)
        for target in graph().get(module, ()):
            visit(target)
        path.pop()
        done.add(module)

    for module in graph():
        visit(module)


def test_core_is_useful_without_python_control():
    code = (
        "import sys, privcontrol.core as core\n"
        "query = core.LinearQuery([[1.0]])\n"
        "core.design_gaussian(query, core.DirectionAdjacency([[1.0]]), core.PrivacyBudget(epsilon=1, delta=1e-2))\n"
        "assert 'control' not in sys.modules and 'cvxpy' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_submodule_shares_its_name_with_a_public_function():
    import privcontrol

    names = {module.rpartition(".")[2] for module in graph()}
    functions = {
        name
        for name in privcontrol.__all__
        if not isinstance(getattr(privcontrol, name), type(sys))
    }
    assert not names & functions


def test_package_has_no_asserts_and_no_global_random_state():
    for name, path in MODULES.items():
        for node in ast.walk(tree(path)):
            assert not isinstance(node, ast.Assert), (
                f"{name}:{node.lineno} asserts; raise instead"
            )
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Attribute)
                and ast.unparse(node.value) == "np.random"
            ):
                allowed = {
                    "default_rng",
                    "Generator",
                    "SeedSequence",
                    "BitGenerator",
                    "RandomState",
                    "mtrand",
                }
                assert node.attr in allowed, (
                    f"{name}:{node.lineno} uses {ast.unparse(node)}"
                )


def test_the_top_level_is_one_screen():
    """Sixty names at most; what is used rarely is in the rooms that need it."""
    import privcontrol

    assert len(privcontrol.__all__) <= 60
    rooms = set(privcontrol.core.__all__)
    assert len(rooms | set(privcontrol.__all__)) <= 81
    assert {"kappa", "gaussian_std", "compose_parallel", "NoiseDesign"} <= rooms
