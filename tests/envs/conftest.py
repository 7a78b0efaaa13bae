"""Servers to talk to."""

from __future__ import annotations

from support import servers

node_modules, everything, serve_2048, marker = (
    servers.node_modules,
    servers.everything,
    servers.serve_2048,
    servers.marker,
)
