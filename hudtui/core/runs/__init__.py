"""Runs: plan a run from its spec, carry out the plan on a host, and store and follow its events."""
