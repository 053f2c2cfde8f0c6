"""Checks, exact numbers, balls, the enclosing ellipsoid and files of objects; nothing about privacy."""
