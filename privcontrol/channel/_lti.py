"""Linear systems, from where they have moved."""

from ..trajectory.linear import LinearSystem as LinearSystem
