"""The screen on which an environment is served to trainers."""
