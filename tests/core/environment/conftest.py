"""Servers to talk to, good and odd ones."""

from __future__ import annotations

import logging

import pytest
from support import servers

node_modules, everything, odd, marker = (
    servers.node_modules,
    servers.everything,
    servers.odd,
    servers.marker,
)
serve_2048, serve_everything = servers.serve_2048, servers.serve_everything
odd_http, http_reply = servers.odd_http, servers.http_reply


@pytest.fixture(autouse=True)
def every_connection_closes_cleanly(caplog):
    with caplog.at_level(logging.INFO, "hudtui.environment"):
        yield
    assert [record for record in caplog.records if record.name == "hudtui.environment"] == []
