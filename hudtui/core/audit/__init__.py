"""The audit of an environment: its grader is attacked before a model does it."""
