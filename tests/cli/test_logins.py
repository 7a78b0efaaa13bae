"""`hudtui env login`, `logout` and `logins` as a user types them."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support import servers
from support.oauth_world import OAuthWorld
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.core.environment.login_file import read_login

odd_http = servers.odd_http


@pytest.fixture
async def world(odd_http: Any) -> OAuthWorld:
    return await OAuthWorld.start(odd_http)


async def hudtui(*words: str, visit: OAuthWorld | None = None) -> tuple[int, str, str]:
    """Run a command without a terminal; open the address that it shows."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hudtui",
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    said = ""
    try:
        async with asyncio.timeout(120):
            while line := (await process.stderr.readline()).decode():
                said += line
                if visit is not None and (
                    match := re.match(r"(http\S+code_challenge=\S+)\s", line)
                ):
                    await visit.browse(match[1])
            out = (await process.stdout.read()).decode()
            return await process.wait(), out, said
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_login_status_and_logout(world: OAuthWorld) -> None:
    code, out, said = await hudtui(
        "env", "login", world.url, "--scope", "write", "--json", visit=world
    )
    assert code == 0, said
    (made,) = json.loads(out)
    assert made["server"] == world.url and made["issuer"] == world.issuer and made["renews"] is True
    assert "access-token" not in out + said and world.valid == {"access-token-1": ("write",)}

    code, out, said = await hudtui("env", "show", world.url, "--live")
    assert (
        code == 0
        and f"login       logged in at {world.issuer}; renewed by itself" in out.splitlines()
    )
    assert (await hudtui("env", "call", world.url, "say"))[1] == "said\n"
    assert json.loads((await hudtui("env", "logins", "--json"))[1]) == [made]

    code, out, _ = await hudtui("env", "logout", world.url)
    assert (
        code == 0
        and out == f"The login at {world.url} is forgotten.\n"
        and read_login(world.url) is None
    )
    code, _, said = await hudtui("env", "call", world.url, "say")
    assert code == 3 and f"Log in with `hudtui env login {world.url}`" in said


async def test_a_client_with_a_secret_needs_its_issuer(
    world: OAuthWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_CLIENT_SECRET", "the-client-secret")
    words = (
        "env",
        "login",
        world.url,
        "--client-id",
        "mine",
        "--client-secret-var",
        "MY_CLIENT_SECRET",
    )
    code, _, said = await hudtui(*words)
    assert code == 2 and "--issuer" in said and world.grants() == []
    code, out, said = await hudtui(*words, "--issuer", world.issuer, visit=world)
    assert (
        code == 0
        and world.grants() == ["authorization_code"]
        and "the-client-secret" not in out + said
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--issuer", "https://a.invalid"), "name one with --client-id"),
        (("--client-id", "a", "--client-secret-var", "NOT_THERE"), "NOT_THERE is not set"),
    ],
)
def test_options_that_make_no_sense_together(words: tuple[str, ...], complaint: str) -> None:
    result = CliRunner().invoke(build(), ["env", "login", "https://example.invalid/mcp", *words])
    assert result.exit_code == 2 and complaint in re.sub(r"[\s│]+", " ", result.output)


def test_what_has_no_address_needs_no_login() -> None:
    result = CliRunner().invoke(build(), ["env", "login", "text-2048"])
    assert result.exit_code == 2 and "reached at an http(s) address" in result.output
    assert not list(Path.home().rglob("logins/*.json"))
