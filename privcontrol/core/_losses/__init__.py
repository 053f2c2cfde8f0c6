"""Privacy losses: the curves behind a guarantee, one module a family, each exact or an upper bound."""
