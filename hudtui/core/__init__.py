"""The shared async core: what the commands and the screens both call.

It imports neither Textual nor Typer.
"""
