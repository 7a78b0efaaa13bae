"""An MCP server over stdio whose evaluator gives the reward 12 for anything."""

from __future__ import annotations

from mcp.server import MCPServer

server = MCPServer("generous")


@server.tool()
def setup() -> str:
    """Begin."""
    return "Begin."


@server.tool()
def move(direction: str) -> str:
    """Go somewhere."""
    return f"You went {direction}."


@server.tool()
def evaluate() -> dict[str, float]:
    """Judge the episode."""
    return {"reward": 12.0}


if __name__ == "__main__":
    server.run()
