"""Circuits of a manifold: every move of DPAM Definition 4, decided exactly and in bounded memory."""
