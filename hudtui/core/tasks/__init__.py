"""Tasks: reading, validating and converting what agents are asked to do."""
