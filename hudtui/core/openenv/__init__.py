"""Environments served to trainers over the OpenEnv protocol."""
