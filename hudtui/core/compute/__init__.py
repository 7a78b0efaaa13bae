"""Compute: the machines that runs can use, and what each of them has."""
