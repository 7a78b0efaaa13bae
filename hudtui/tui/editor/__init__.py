"""The text editor for YAML and its parts."""
