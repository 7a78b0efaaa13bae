"""Mission control, in a terminal, for reinforcement learning of agents on MCP environments."""

__version__ = "0.1.0"
