"""Environments: a source, the connection to it, and the analysis of what it offers."""
