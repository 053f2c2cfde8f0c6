"""Shapes of noise: the cheapest ellipsoid or cross-polytope around the hidden moves, with certificates."""
