"""Budgets, losses, guarantees, ledgers and exact releases: what is promised, about whatever data."""
