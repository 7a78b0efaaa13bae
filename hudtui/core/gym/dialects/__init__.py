"""Dialects: the forms in which agents write calls; `known` has them all."""
