"""Servers to talk to, good and odd ones."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("hudtui_test_servers", Path(__file__).parents[2] / "support" / "servers.py")
_servers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_servers)
node_modules, everything, odd, marker = _servers.node_modules, _servers.everything, _servers.odd, _servers.marker
serve_2048, serve_everything = _servers.serve_2048, _servers.serve_everything
odd_http, http_reply = _servers.odd_http, _servers.http_reply


@pytest.fixture(autouse=True)
def every_connection_closes_cleanly(caplog):
    with caplog.at_level(logging.INFO, "hudtui.environment"):
        yield
    assert [record for record in caplog.records if record.name == "hudtui.environment"] == []
