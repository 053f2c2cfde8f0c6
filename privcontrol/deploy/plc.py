"""Write the filter of a design's noise as C, for controllers that run no Python.

The code is C99 without a library, in doubles, with every sum in a fixed order. It draws
nothing: its caller passes independent standard entries. What doubles cost is said at its
head, because the promise of a design is about real numbers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..designs.output_noise import OutputNoise
from ..numerics.errors import PrivacyError

#: States and entries above which the code is no filter for a small controller any more.
_MOST_NUMBERS = 20_000
#: What the entries are called that the code is given, by family.
_LAWS = {
    "gaussian": "standard normal numbers",
    "laplace": "Laplace numbers of scale one",
}

_CAUTION = """\
WHAT FLOATING POINT COSTS. The promise above is about real numbers: readings, noise and
their sum without rounding, and entries of the exact law. This code computes with doubles,
so its promise is weaker in three ways that no number here bounds.
1. The last bits of a sum of doubles can exclude a neighbouring reading with certainty
(Mironov 2012). Publish multiples of a step that is far above the spacing of doubles near
the reading, and far below the noise; round once, after the sum.
2. Entries from a generator with a short seed repeat, and can be computed by whoever learns
the seed. Take random bits from hardware. Never draw the same run twice: after a restart
begin a new run only where the guarantee allows for one, since the file of a gateway, which
survives a restart, has no like here.
3. Rounding of the state moves the noise by a few units in the last place for each sample.
Where that matters use the gateway (privcontrol publish), which has none of the three."""


def c_code(noise: OutputNoise) -> str:
    """Return the noise's filter as the text of one C file.

    xi(0) = R first, noise(t) = C xi(t) + D fresh(t), xi(t+1) = A xi(t) + B fresh(t), where
    products with zeros are left out and sums go from the left to the right.

    Raises
    ------
    PrivacyError
        If the noise is kept within a bound, has a radial law, follows a plant that
        varies, or has no system of finite order, or too large a one.
    """
    _check_law(noise)
    model = noise.process.total.model
    if model is None:
        raise PrivacyError(
            "design: expected noise that a filter of finite order makes, got dense "
            "noise over a horizon; design it without a horizon (horizon=np.inf) or with "
            "independent noise"
        )
    A, B, C, D = model.matrices
    root = noise.process.total.state_root
    numbers = sum(matrix.size for matrix in (A, B, C, D, root))
    if numbers > _MOST_NUMBERS:
        raise PrivacyError(
            f"design: expected a filter of at most {_MOST_NUMBERS} numbers, got "
            f"{numbers}; design noise of a lower order (order=)"
        )
    begun = _rows("n->state", [("first", root)])
    published = _rows("noise", [("n->state", C), ("fresh", D)])
    onward = _rows("state", [("n->state", A), ("fresh", B)])
    ends = []
    if noise.horizon.ends:
        ends = [
            "    if (n->sample >= PRIVCONTROL_HORIZON)",
            "        return 1;",
        ]
    sizes = {"STATES": len(A), "ONCE": root.shape[1], "WIDTH": B.shape[1]}
    sizes["OUTPUTS"] = len(C)
    return "\n".join(
        [
            _comment(_head(noise)),
            "",
            *(f"#define PRIVCONTROL_{name} {size}" for name, size in sizes.items()),
            f"#define PRIVCONTROL_HORIZON {_horizon(noise)}",
            "",
            "/* Sums must stay as they are written. */",
            "#if defined(__STDC_VERSION__)",
            "#pragma STDC FP_CONTRACT OFF",
            "#endif",
            "",
            "struct privcontrol_noise {",
            f"    double state[{max(len(A), 1)}];",
            "    unsigned long long sample;",
            "};",
            "",
            "/* Begin a run with standard entries that are drawn once. */",
            "void privcontrol_begin(struct privcontrol_noise *n, const double *first)",
            "{",
            "    (void)first;",
            *begun,
            "    n->sample = 0;",
            "}",
            "",
            "/* Give the noise to be added to readings; 0, or 1 behind the horizon. */",
            "int privcontrol_next(",
            "    struct privcontrol_noise *n, const double *fresh, double *noise)",
            "{",
            *([f"    double state[{len(A)}];"] if len(A) else []),
            "    (void)fresh;",
            *ends,
            *published,
            *onward,
            *(f"    n->state[{i}] = state[{i}];" for i in range(len(A))),
            "    n->sample++;",
            "    return 0;",
            "}",
            "",
        ]
    )


def _check_law(noise: OutputNoise) -> None:
    """Refuse noise that is no sum of independent entries with the same matrices."""
    if noise.kept is not None:
        raise PrivacyError(
            "design: expected noise without a bound, got noise that is drawn again until "
            "it is within one, which a filter cannot do: its code would pass the bound; "
            "publish with a gateway, or design without bound="
        )
    if noise.family not in _LAWS:
        raise PrivacyError(
            f"design: expected entries of the laws {', '.join(_LAWS)}, got the law "
            f"{noise.family!r}, whose entries depend on each other; publish with a "
            "gateway, or design with another family="
        )
    if noise.plant_data.varies:
        raise PrivacyError(
            "design: expected one plant for all samples, got one that varies, whose "
            "noise has matrices of its own at every sample; publish with a gateway"
        )


def _head(noise: OutputNoise) -> str:
    """Return the subject of the file, and its cost."""
    outputs = ", ".join(noise.plant_data.outputs)
    return "\n\n".join(
        [
            f"Noise for the outputs {outputs}, one sample each "
            f"{noise.plant_data.step:g} s, written by privcontrol export.",
            f"Entries: independent {_LAWS[noise.family]}.",
            str(noise.guarantee),
            _CAUTION,
        ]
    )


def _comment(text: str) -> str:
    """Return a text as a comment of C, whatever names it holds."""
    lines = []
    for paragraph in text.replace("*/", "* /").replace("/*", "/ *").split("\n"):
        plain = "".join(c if c.isprintable() and c != "\\" else "?" for c in paragraph)
        lines += textwrap.wrap(plain, 85) or [""]
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in lines), " */"])


def _horizon(noise: OutputNoise) -> str:
    """Return the number of samples, where 0 means none."""
    return f"{noise.horizon.count_or(0)}ULL"


def _rows(
    target: str, terms: Sequence[tuple[str, NDArray[np.float64]]]
) -> Iterable[str]:
    """Return statements for a sum of matrices times vectors."""
    for i in range(len(terms[0][1])):
        products = [
            f"({factor.hex()}) * {vector}[{j}]"
            for vector, matrix in terms
            for j, factor in enumerate(matrix[i].tolist())
            if factor != 0
        ]
        yield f"    {target}[{i}] = {' + '.join(products) or '0.0'};"
