"""Thresholds that several rooms share, each with its reason; no sizes of single algorithms."""

#: Relative error that sums, products, roots and eigenvalues of doubles stay below. A claim
#: is raised by it, and numbers that differ by less are equal.
from __future__ import annotations

ROUNDED = 1e-9
