"""Runs: a spec becomes a plan, a plan is carried out on a host, and its events are kept and followed."""
