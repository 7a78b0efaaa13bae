"""The log view: model, lines and widget."""
