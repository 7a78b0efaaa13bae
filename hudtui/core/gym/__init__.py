"""The hud-vf-gym configuration and what it means: reply text -> action -> MCP call -> score."""
