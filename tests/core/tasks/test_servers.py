"""Local servers become remote ones by their parsed host, and secrets become variables."""

from __future__ import annotations

from typing import Any

import pytest

from hudtui.core.platform import BUCKEYE, HUD
from hudtui.core.tasks.servers import config_rewriter, is_local, literal_secrets, without_secrets

GATEWAY = {
    "url": "https://mcp.hud.ai/v3/mcp",
    "headers": {"Authorization": "Bearer $HUD_API_KEY", "Mcp-Image": "o/e:1"},
}


@pytest.mark.parametrize(
    ("server", "local"),
    [
        ({"command": "docker", "args": ["run", "x"]}, True),
        ({"command": "/usr/bin/ssh", "args": ["host", "docker"]}, False),
        ({"url": "http://localhost:8765/mcp"}, True),
        ({"url": "http://127.8.0.1/mcp"}, True),
        ({"url": "http://[::1]:80/mcp"}, True),
        ({"url": "http://0.0.0.0:1/"}, True),
        ({"url": "http://my.LOCALHOST/mcp"}, True),
        ({"url": "https://mcp.hud.so/v3/mcp"}, False),
        ({"url": "https://localhost.example.org/mcp"}, False),
        ({"url": "https://example.org/?to=localhost"}, False),
        ({"url": "http://192.168.1.5/mcp"}, False),
        ({"url": "http://localhost@example.org/mcp"}, False),
        ({"url": "http://["}, False),
        ({}, False),
    ],
)
def test_what_is_local(server: dict[str, Any], local: bool) -> None:
    assert is_local(server, HUD) is local


def test_the_platform_s_own_address_is_not_local() -> None:
    assert not is_local({"url": "http://localhost:8765/mcp"}, BUCKEYE)
    assert is_local({"url": "http://localhost:8766/mcp"}, BUCKEYE)


def test_a_local_server_becomes_a_remote_one() -> None:
    change = config_rewriter(HUD, image="o/e:1", remote=True)
    local = {"command": "docker", "args": ["run", "x"]}
    assert change({"local": local}) == ({"hud": GATEWAY}, ("remote",))
    own = {"url": "https://tools.example.org/mcp"}
    assert change({"own": own, "local": local}) == ({"own": own, "hud": GATEWAY}, ("remote",))
    assert change({"hud": own, "local": local}) == ({"hud": own, "local": GATEWAY}, ("remote",))
    assert change({"hud": local}) == ({"hud": GATEWAY}, ("remote",))
    evil = {"hud": {"url": "https://mcp.hud.ai.example.org/mcp"}}
    assert change(evil) == (evil, ())
    two = {"a": local, "b": local}
    assert change(two) == (two, ("local", "several-local"))
    assert config_rewriter(HUD)({"local": local}) == ({"local": local}, ("local",))
    assert config_rewriter(HUD, remote=True)({"local": local}) == ({"local": local}, ("local",))


SECRET = "sk-" + "x1" * 12


@pytest.mark.parametrize(
    ("server", "changed"),
    [
        (
            {"url": "https://mcp.hud.so/v3/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
            {"headers": {"Authorization": "Bearer ${HUD_API_KEY}"}},
        ),
        (
            {
                "url": "https://x.example/mcp",
                "headers": {"Authorization": SECRET, "X-Api-Key": SECRET},
            },
            {"headers": {"Authorization": "${TOOLS_API_KEY}", "X-Api-Key": "${API_KEY}"}},
        ),
        (
            {"url": f"https://me:{SECRET}@x.example/mcp"},
            {"url": "https://me:${TOOLS_PASSWORD}@x.example/mcp"},
        ),
        (
            {"url": f"https://x.example/mcp?a=1&api_key={SECRET}#x"},
            {"url": "https://x.example/mcp?a=1&api_key=${API_KEY}#x"},
        ),
        (
            {"command": "x", "env": {"OPENAI_API_KEY": SECRET}},
            {"env": {"OPENAI_API_KEY": "${OPENAI_API_KEY}"}},
        ),
        (
            {
                "command": "docker",
                "args": ["run", "-e", f"DB_PASSWORD={SECRET}", "--env=A_TOKEN=" + SECRET, "img"],
            },
            {
                "args": [
                    "run",
                    "-e",
                    "DB_PASSWORD=${DB_PASSWORD}",
                    "--env=A_TOKEN=${A_TOKEN}",
                    "img",
                ]
            },
        ),
    ],
)
def test_secrets_are_found_and_replaced(server: dict[str, Any], changed: dict[str, Any]) -> None:
    config = {"tools": server}
    found = literal_secrets(config, HUD)
    assert found and all(SECRET not in words for _, words in found)
    after = without_secrets(config, HUD)
    assert after == {"tools": {**server, **changed}}
    assert SECRET in str(config) and literal_secrets(after, HUD) == []
    assert config_rewriter(HUD)(config)[1][-1] == "secrets"
    assert config_rewriter(HUD, replace_secrets=True)(config)[1][-1] == "secrets-replaced"


@pytest.mark.parametrize(
    "server",
    [
        {
            "url": "https://mcp.hud.ai/v3/mcp",
            "headers": {"Authorization": "Bearer $HUD_API_KEY", "Mcp-Image": "a" * 40},
        },
        {
            "url": "u",
            "headers": {"Authorization": "Bearer ${KEY:-fallback12}", "X-Keyboard": "abcdefghijkl"},
        },
        {
            "command": "x",
            "env": {"MODE": "abcdefghijkl", "A_KEY": "short"},
            "args": ["--name=abcdefghijkl"],
        },
        {"url": "https://x.example/mcp?key=$KEY&mode=abcdefghijkl&token=x"},
        {"url": "u", "headers": ["Authorization"], "env": 3, "args": "x"},
    ],
)
def test_what_is_no_secret(server: dict[str, Any]) -> None:
    assert literal_secrets({"a": server}, HUD) == []
