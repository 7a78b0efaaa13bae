"""Playing episodes.

A policy, an environment, a configuration and a task make a trace with a reward.
"""
