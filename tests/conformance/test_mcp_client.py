"""The protocol's own conformance suite: `hudtui env` as the client, and text-2048 as the server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import servers

node_modules, serve_2048 = servers.node_modules, servers.serve_2048

pytestmark = pytest.mark.xdist_group("mcp-conformance")

CLIENT = Path(__file__).parent / "mcp_client.py"
SCENARIOS = {
    "initialize": 1,
    "tools_call": 1,
    "sse-retry": 3,
    "auth/metadata-default": 12,
    "auth/metadata-var1": 12,
    "auth/metadata-var2": 12,
    "auth/metadata-var3": 12,
    "auth/basic-cimd": 12,
    "auth/scope-from-www-authenticate": 13,
    "auth/scope-from-scopes-supported": 13,
    "auth/scope-omitted-when-undefined": 13,
    "auth/scope-step-up": 20,
    "auth/scope-retry-limit": 10,
    "auth/token-endpoint-auth-basic": 17,
    "auth/token-endpoint-auth-post": 17,
    "auth/token-endpoint-auth-none": 17,
    "auth/pre-registration": 12,
    "auth/2025-03-26-oauth-metadata-backcompat": 11,
    "auth/2025-03-26-oauth-endpoint-fallback": 6,
    # drafts and extensions
    "auth/resource-mismatch": 2,
    "auth/offline-access-scope": 12,
    "auth/offline-access-not-supported": 13,
}
"""Scenario -> the fewest checks that it makes of a client that goes to its end."""
NOT_OFFERED = {
    "auth/cross-app-access-complete-flow",
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "elicitation-sep1034-client-defaults",
}
"""Extensions for an identity provider in front of the authorization server and for accounts of
machines, and a form that wants to be accepted: hudtui logs people in, and declines forms."""
SERVER_SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)
"""Those that need no tool, resource or prompt of the suite's own."""


async def conform(
    node_modules: Path, *words: str, out: Path, cwd: Path
) -> dict[str, list[dict[str, Any]]]:
    """Run the suite; scenario -> its checks."""
    node = next((path / "bin" / "node" for path in node_modules.glob("node-linux-*")), None)
    suite = node_modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    assert suite.is_file(), "run `npm ci` in tests/support/npm"
    process = await asyncio.create_subprocess_exec(
        str(node or "node"),
        str(suite),
        *words,
        "--output-dir",
        str(out),
        cwd=cwd,
        env={
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HUDTUI_", "OPENAI_", "SSH_"))
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), 400)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found = {}
    for file in out.rglob("checks.json"):
        name = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", str(file.parent.relative_to(out))).removeprefix(
            "server-"
        )
        found[name] = json.loads(file.read_text())
    assert found, said.decode(errors="replace")[-3000:]
    return found


def complaints(checks: list[dict[str, Any]]) -> list[str]:
    """What is wrong; a late reconnection is not: this machine may be busy."""
    bad = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    late = [
        check
        for check in bad
        if check["id"] == "client-sse-retry-timing" and not check["details"].get("tooEarly", True)
    ]
    return [
        f"{check['id']}: {check.get('errorMessage') or check.get('description')}"
        for check in bad
        if check not in late
    ]


@pytest.fixture(scope="module")
def client_checks(
    node_modules: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, Any]]]:
    """The checks of every client scenario, of one run."""
    place = tmp_path_factory.mktemp("mcp-client")
    words = (
        "client",
        "--suite",
        "all",
        "--timeout",
        "240000",
        "--command",
        f"{sys.executable} -I -S {CLIENT} {place}/socket",
    )
    with subprocess.Popen(
        [sys.executable, str(CLIENT), "serve", f"{place}/socket"], stdout=subprocess.PIPE, text=True
    ) as ready:
        try:
            assert ready.stdout is not None and ready.stdout.readline() == "ready\n"
            return asyncio.run(conform(node_modules, *words, out=place / "out", cwd=place))
        finally:
            ready.kill()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_client_passes_the_scenario(
    client_checks: dict[str, list[dict[str, Any]]], scenario: str
) -> None:
    checks = client_checks[scenario]
    assert complaints(checks) == []
    passed = [check for check in checks if check["status"] == "SUCCESS"]
    assert len(passed) >= SCENARIOS[scenario] - (scenario == "sse-retry")


def test_no_scenario_of_the_suite_is_left_out_unnoticed(
    client_checks: dict[str, list[dict[str, Any]]],
) -> None:
    assert set(client_checks) == {*SCENARIOS, *NOT_OFFERED}


async def test_the_server_passes_every_scenario_that_applies_to_it(
    node_modules: Path, serve_2048: Any, tmp_path: Path
) -> None:
    async with serve_2048() as url:
        words = ("server", "--suite", "all", "--url", url)
        found = await conform(node_modules, *words, out=tmp_path / "out", cwd=tmp_path)
    assert [(name, wrong) for name in SERVER_SCENARIOS if (wrong := complaints(found[name]))] == []
