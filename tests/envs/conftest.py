"""Servers to talk to."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location("hudtui_test_servers", Path(__file__).parents[1] / "support" / "servers.py")
_servers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_servers)
node_modules, everything, serve_2048, marker = _servers.node_modules, _servers.everything, _servers.serve_2048, _servers.marker
