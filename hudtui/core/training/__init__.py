"""Engines: what to put on a machine and which commands to start there."""
