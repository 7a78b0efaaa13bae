"""Environments that come with hudtui, each a real MCP server."""
