"""The pages of the API reference, from the public names of the package: a name that is public is on them."""

import functools
import inspect
from pathlib import Path

import privcontrol
import privcontrol.consensus
import privcontrol.core
import privcontrol.designs
import privcontrol.loop
import privcontrol.plants
import privcontrol.regions
import privcontrol.response
import privcontrol.studies
from privcontrol.core.mechanism import Mechanism
from privcontrol.core.noise import Noise
from privcontrol.privacy.hidden import Hidden
from privcontrol.regions.region import PlantRegion

#: Where names are looked for, the place to import them from first.
_HOMES = (
    privcontrol,
    privcontrol.core,
    privcontrol.consensus,
    privcontrol.designs,
    privcontrol.regions,
    privcontrol.loop,
    privcontrol.studies,
    privcontrol.response,
    privcontrol.plants,
)

#: Module prefix, title, what it is for; the first prefix that fits takes the name.
_GROUPS = (
    (
        "privcontrol.designs",
        "Noise for a plant's outputs",
        "Designs the noise, certifies it, and looks at it as an eavesdropper.",
    ),
    (
        "privcontrol.noise",
        "Noise in a diagram",
        "Output noise as a system that a script of python-control connects.",
    ),
    (
        "privcontrol.regions",
        "Plants that are not the model",
        "Boxes, polytopes and identified plants, for which the promise holds as well.",
    ),
    (
        "privcontrol.deploy.gateway",
        "The gate",
        "Data leave the house through it, each reading once.",
    ),
    (
        "privcontrol.deploy.files",
        "Design files",
        "Noise and loops that were saved, certified again when they are loaded.",
    ),
    (
        "privcontrol.loop",
        "Loops",
        "Observer and LQG loops whose published signals are private, their exact cost.",
    ),
    (
        "privcontrol.studies",
        "Studies",
        "What privacy costs over budgets, and how it grows with the horizon.",
    ),
    ("privcontrol.response", "Responses", "Trials of a loop or network."),
    (
        "privcontrol.secrets",
        "Secrets and trajectories",
        "From a `StateSpace` and a horizon to manifold, query and adjacency.",
    ),
    (
        "privcontrol.systems",
        "Plants as systems",
        "Plants with delays, local loops and nonlinear maps.",
    ),
    (
        "privcontrol.consensus",
        "Consensus",
        "Private averaging, and the algorithms to compare it with.",
    ),
    ("privcontrol.core.inference", "A model behind a mechanism", "Inference privacy."),
    ("privcontrol.core.lipschitz", "Lipschitz constants", "Certified from above."),
    (
        "privcontrol.numerics.errors",
        "Errors and warnings",
        "Everything else raises ``ValueError`` or python-control's own.",
    ),
    (
        "privcontrol.privacy",
        "Budgets and guarantees",
        "What is promised, what it means, and the ledger of what was released.",
    ),
    (
        "privcontrol.core",
        "Linear queries on manifolds",
        "Without any control problem; ``privcontrol.core`` never imports control.",
    ),
    (
        "privcontrol.plants",
        "Named plants and graphs",
        "Of the literature, each with its reference. In ``privcontrol.plants``.",
    ),
)

#: What the parts of the library ask of each other, by the class it belongs to: the
#: reference leaves it out, and it may change from one release to the next.
ENGINE_ROOMS = (
    (
        Hidden,
        "caveats starting uncertain entering responses radii starts loss signals system",
        "what a design asks of a secret, in coordinates of its own",
    ),
    (
        Noise,
        "allowed_shift entries log_likelihood_ratio loss loss_of_columns loss_of_size "
        "scaled shape standard",
        "what a design and a guarantee ask of a law of noise",
    ),
    (
        Mechanism,
        "release_exactly shifts",
        "what `release` and `guarantee` are made of",
    ),
    (
        PlantRegion,
        "check_holds is_one plants shift standing",
        "what a design asks of a region of plants",
    ),
)


def kept_out(cls):
    """Names of a class that the reference leaves out."""
    return {
        name
        for home, names, _ in ENGINE_ROOMS
        if issubclass(cls, home)
        for name in names.split()
    }


def members(cls, *, methods=False):
    """Documented public names of a class, inherited ones as well, in their order."""
    found = {}
    for home in reversed(cls.__mro__):
        if home.__module__.partition(".")[0] == "privcontrol":
            found |= dict.fromkeys(vars(home))
    return [
        name
        for name in found
        if not name.startswith("_")
        and name not in kept_out(cls)
        and _is_told(cls, name)
        and (callable(getattr(cls, name)) or not methods)
    ]


def _is_told(cls, name):
    value = inspect.getattr_static(cls, name)
    return isinstance(
        value, property | functools.cached_property | classmethod | staticmethod
    ) or (inspect.isroutine(value) and bool(inspect.getdoc(getattr(cls, name))))


def is_made_by_hand(cls):
    """Whether users make a class: then its parameters are told, else its attributes."""
    return "\nParameters\n-" in (inspect.getdoc(cls) or "")


def context():
    """What the template of a class's page asks, as plain data by full name."""
    classes = {
        n: value for n, value in public_names().items() if inspect.isclass(value)
    }
    return {
        "methods_of": {n: members(cls, methods=True) for n, cls in classes.items()},
        "members_of": {n: members(cls) for n, cls in classes.items()},
    }


def public_names():
    """Full name and object of everything public, each once."""
    seen, names = set(), {}
    for home in _HOMES:
        for name in home.__all__:
            value = getattr(home, name)
            if not inspect.ismodule(value) and id(value) not in seen:
                seen.add(id(value))
                names[f"{home.__name__}.{name}"] = value
    return names


def grouped():
    """Full names by group title."""
    groups = {title: [] for _, title, _ in _GROUPS}
    for name, value in public_names().items():
        title = next(
            title
            for prefix, title, _ in _GROUPS
            if f"{value.__module__}.".startswith(f"{prefix}.")
        )
        groups[title].append(name)
    return groups


def write(folder):
    """Write the index of the reference; autosummary makes a page for each name."""
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    lines = ["API reference", "=============", ""]
    lines += [
        "``import privcontrol as pc`` gives every name below that is written",
        "``privcontrol.name``. :doc:`../tasks` has them by what you want to do.",
        "",
    ]
    intros = {title: intro for _, title, intro in _GROUPS}
    for title, names in grouped().items():
        if names:
            lines += [title, "-" * len(title), "", intros[title], ""]
            lines += [".. autosummary::", "   :toctree: .", ""]
            lines += [
                *(
                    f"   {name}"
                    for name in sorted(
                        names, key=lambda n: (n.rpartition(".")[2][0].isupper(), n)
                    )
                ),
                "",
            ]
    text = "\n".join(lines)
    index = folder / "index.rst"
    if not index.exists() or index.read_text(encoding="utf8") != text:
        index.write_text(text, encoding="utf8")
