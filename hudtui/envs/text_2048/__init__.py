"""The game 2048 as an MCP environment that plays in text: `python -m hudtui.envs.text_2048`."""
