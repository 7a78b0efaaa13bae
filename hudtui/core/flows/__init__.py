"""User flows, shared by commands and screens."""
