"""The overview of a project."""
