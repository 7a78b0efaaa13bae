from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudtui.core.environment.matching import identity_of, servers_in, uses_environment
from hudtui.core.environment.values import Analysis, Server, Tool

HOSTED = {
    "url": "https://mcp.hud.so/v3/mcp",
    "headers": {"Mcp-Image": "hudevals/hud-browser:0.1.6"},
}


def analysis_of(source: str, name: str = "", *tools: str, image: str | None = None) -> Analysis:
    return Analysis(
        source, Server(name, "1"), tools=tuple(Tool(tool) for tool in tools), image=image
    )


@pytest.mark.parametrize(
    ("source", "name", "image", "config", "same"),
    [
        ("text-2048", "text-2048", None, {"text-2048": {"command": "python3"}}, True),
        (
            "text-2048",
            "text-2048",
            None,
            {"game": {"command": "py", "args": ["-m", "hudtui.envs.text_2048"]}},
            True,
        ),
        ("text-2048", "text-2048", None, {"browser": {"command": "node", "args": ["b.js"]}}, False),
        (
            "-- node files.js data",
            "files",
            None,
            {"f": {"command": "node", "args": ["files.js", "${EPISODE_DIR:data}"]}},
            True,
        ),
        (
            "-- node files.js data",
            "files",
            None,
            {"f": {"command": "node", "args": ["files.js", "${EPISODE_DIR:other}"]}},
            False,
        ),
        ("text-2048", "text-2048", None, {"hud": HOSTED}, False),
        (
            "text-2048",
            "text-2048",
            None,
            {"hud": {**HOSTED, "headers": {"Mcp-Image": "org/text_2048:1"}}},
            True,
        ),
        ("hudevals/hud-browser:1", "x", "hudevals/hud-browser:1", {"hud": HOSTED}, True),
        (
            "docker.io/hudevals/hud-browser:1",
            "x",
            "docker.io/hudevals/hud-browser:1",
            {
                "local": {
                    "command": "docker",
                    "args": [
                        "run",
                        "--rm",
                        "-i",
                        "-e",
                        "KEY",
                        "hudevals/hud-browser@sha256:" + "0" * 64,
                    ],
                }
            },
            True,
        ),
        ("other/hud-browser:1", "hud-browser", "other/hud-browser:1", {"hud": HOSTED}, False),
        (
            "-- npx -y @org/server",
            "everything",
            None,
            {"local": {"command": "npx", "args": ["-y", "@org/server"]}},
            True,
        ),
        (
            "-- npx -y @org/server",
            "everything",
            None,
            {"local": {"command": "npx", "args": ["-y", "@org/other"]}},
            False,
        ),
        (
            "-- npx -y @org/server",
            "local",
            None,
            {"local": {"command": "npx", "args": ["-y", "@org/other"]}},
            False,
        ),
        ("https://host/mcp/", "x", None, {"a": {"url": "https://HOST/mcp"}}, True),
        ("https://host/mcp", "x", None, {"x": {"url": "https://host/other"}}, False),
        ("gone.json", "desk", None, {"desk": {"command": "run"}}, True),
        ("text-2048", "text-2048", None, {"text-2048": "nonsense"}, False),
        ("text-2048", "text-2048", None, [], False),
    ],
)
def test_servers_that_are_the_analysed_environment(
    tmp_path: Path, source: str, name: str, image: str | None, config: Any, same: bool
) -> None:
    assert (
        uses_environment(config, identity_of(analysis_of(source, name, image=image), tmp_path))
        is same
    )


def test_servers_are_called_by_their_image_where_they_have_one() -> None:
    assert servers_in({"hud": HOSTED, "search": {"command": "s"}}) == "hud-browser, search"
    assert servers_in(None) == servers_in({"a": {}}) == ""
