"""Logging in at a server: what is asked of the person, where tokens go, and what hostile servers
get."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import time
from typing import Any

import pytest
from support import servers
from support.oauth_world import OAuthWorld
from support.person import ScriptedPerson
from support.servers import reply

from hudtui.core.environment.client import connect
from hudtui.core.environment.login_file import (
    ClientCredentials,
    LoginOptions,
    login_path,
    read_login,
    write_login,
)
from hudtui.core.environment.source import Source, parse_source
from hudtui.core.errors import ConnectError
from hudtui.core.flows.login import log_in, log_out, with_login
from hudtui.core.paths import app_paths
from hudtui.core.platform import choose_platform
from hudtui.core.settings import load_settings

odd_http = servers.odd_http


@pytest.fixture
async def world(odd_http: Any) -> OAuthWorld:
    return await OAuthWorld.start(odd_http)


@pytest.fixture
def settings(tmp_path):
    return load_settings(tmp_path, choose_platform(tmp_path))


@pytest.fixture(autouse=True)
def no_desktop(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def source(world: OAuthWorld) -> Source:
    return parse_source(world.url, lookup=lambda _: None)


async def say(world: OAuthWorld) -> str:
    """Call a tool in a session of its own."""
    async with connect(source(world)) as session:
        return (await session.call_tool("say", {})).text


async def refused(
    world: OAuthWorld, person: ScriptedPerson, settings: Any, options: LoginOptions | None = None
) -> ConnectError:
    with pytest.raises(ConnectError) as caught:
        await log_in(source(world), person, settings, options=options)
    assert read_login(world.url) is None, "nothing is kept"
    assert "token-" not in str(caught.value)
    return caught.value


async def test_a_login_is_kept_for_the_user_alone_and_no_project_holds_it(
    world, settings, tmp_path, caplog
):
    with caplog.at_level(logging.DEBUG):
        made = await log_in(source(world), ScriptedPerson(world.browse), settings)
        async with connect(source(world)) as session:
            assert (await session.call_tool("say", {})).text == "said"
    assert [login.issuer for login in made] == [world.issuer]
    path = login_path(world.url)
    assert path.is_relative_to(app_paths().state)
    assert (
        stat.S_IMODE(path.stat().st_mode) == 0o600
        and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    )
    assert "access-token-1" in path.read_text()
    assert set(world.tokens) == {"Bearer access-token-1"}, "the second session needs no login"
    assert not any(
        "access-token" in file.read_text() for file in tmp_path.rglob("*") if file.is_file()
    )
    assert (
        "access-token" not in caplog.text
        and "refresh-token" not in caplog.text
        and "registered-secret" not in caplog.text
    )
    assert "token" not in json.dumps(
        [login.to_json() for login in made]
    ) and "access-token" not in repr(made)


async def test_a_token_is_masked_where_a_server_sends_it_back(world, settings):
    await log_in(source(world), ScriptedPerson(world.browse), settings)
    async with connect(source(world)) as session:
        assert (
            session.secrets.hide("Bearer access-token-1 and refresh-token-1")
            == "Bearer *** and ***"
        )


async def test_without_a_person_nothing_is_asked_and_the_error_names_the_command(world):
    with pytest.raises(ConnectError) as caught:
        async with connect(source(world)):
            pytest.fail("there should be no connection")
    assert f"hudtui env login {world.url}" in caught.value.fix
    assert world.asked == []


async def test_an_expired_token_is_refreshed_at_the_authorization_server(world, settings):
    world.lifetime = 1
    await log_in(source(world), ScriptedPerson(world.browse), settings)
    world.lifetime = 3600
    async with connect(source(world)) as session:
        await session.call_tool("say", {})
    assert world.grants()[0] == "authorization_code" and set(world.grants()[1:]) == {
        "refresh_token"
    }
    assert not [seen for seen in world.seen if seen.path == "/token"], (
        "a refresh token goes to the one that gave it"
    )
    kept = read_login(world.url)
    assert (
        kept is not None
        and kept.tokens["access_token"] in world.valid
        and kept.expires_at > time.time() + 60
    )


async def test_a_token_that_the_server_takes_no_longer_is_refreshed_before_anybody_is_asked(
    world, settings
):
    await log_in(source(world), ScriptedPerson(world.browse), settings)
    world.valid.clear()
    person = ScriptedPerson()
    assert await with_login(source(world), person, settings, lambda: say(world)) == "said"
    assert world.grants() == ["authorization_code", "refresh_token"] and person.questions == []


async def test_many_sessions_refresh_once(world, settings):
    await log_in(source(world), ScriptedPerson(world.browse), settings)
    kept = read_login(world.url)
    write_login(type(kept)(**{**vars(kept), "expires_at": time.time() - 5}))

    async def play() -> None:
        async with connect(source(world)) as session:
            await session.call_tool("say", {})

    await asyncio.gather(*(play() for _ in range(8)))
    assert world.grants() == ["authorization_code", "refresh_token"]


async def test_a_login_that_cannot_be_renewed_is_said_to_have_expired(world, settings):
    world.refreshes = False
    await log_in(source(world), ScriptedPerson(world.browse), settings)
    world.valid.clear()
    with pytest.raises(ConnectError, match="has expired") as caught:
        async with connect(source(world)):
            pytest.fail("there should be no connection")
    assert f"hudtui env login {world.url}" in caught.value.fix


async def test_no_token_goes_to_another_origin(world, settings, odd_http):
    await log_in(source(world), ScriptedPerson(world.browse), settings)
    elsewhere = []

    async def other(method, path, headers, body, writer):
        elsewhere.append(headers)
        writer.write(reply("200 OK", "{}"))

    target = await odd_http(other)
    world.answers["/mcp"] = reply("307 Temporary Redirect", location=f"{target}/mcp")
    with pytest.raises(ConnectError):
        async with connect(source(world)):
            pytest.fail("there should be no connection")
    world.answers.clear()
    with pytest.raises(ConnectError):
        async with connect(parse_source(f"{target}/mcp")):
            pytest.fail("there should be no connection")
    assert not [headers for headers in elsewhere if "authorization" in headers]
    assert not [
        one for one in world.asked if "access-token" in f"{one.headers}{one.path}{one.body}"
    ]


async def test_a_token_for_a_trillion_years_can_be_listed(world, settings):
    world.lifetime = 10**18
    [made] = await log_in(source(world), ScriptedPerson(world.browse), settings)
    assert "logged in" in made.words() and made.to_json()["expires_at"] is None


async def test_another_path_of_a_host_is_another_server(world, settings):
    await log_in(source(world), ScriptedPerson(world.browse), settings)
    world.seen.clear()
    with pytest.raises(ConnectError):
        async with connect(parse_source(world.url.replace("/mcp", "/other"))):
            pytest.fail("there should be no connection")
    assert world.tokens == []


async def test_an_event_stream_gets_the_token_too(world, settings):
    place = parse_source(world.url, sse=True)
    with pytest.raises(ConnectError, match="405"):  # the world speaks no event streams
        await log_in(place, ScriptedPerson(world.browse), settings)
    assert read_login(world.url) is not None
    assert [seen.headers.get("authorization") for seen in world.seen if seen.path == "/mcp"] == [
        None,
        "Bearer access-token-1",
    ]


async def test_a_header_of_the_user_comes_first(world, settings):
    await log_in(source(world), ScriptedPerson(world.browse), settings)
    world.seen.clear()
    world.valid["the-users-own"] = ()
    async with connect(parse_source(world.url, headers={"Authorization": "Bearer the-users-own"})):
        pass
    assert set(world.tokens) == {"Bearer the-users-own"}


async def test_a_person_who_declines_is_shown_no_address(world, settings):
    person = ScriptedPerson(False)
    with pytest.raises(ConnectError, match="you declined"):
        await with_login(source(world), person, settings, lambda: say(world))
    assert person.titles == ["Log in?"] and world.asked == []


async def test_a_login_is_offered_where_a_server_requires_one_and_the_work_is_done(world, settings):
    person = ScriptedPerson(True, world.browse)
    assert await with_login(source(world), person, settings, lambda: say(world)) == "said"
    assert person.titles == ["Log in?", f"Log in at {world.url}"]


async def test_a_login_that_the_person_cancels(world, settings):
    error = await refused(world, ScriptedPerson(None), settings)
    assert error.what == f"the login at {world.url} was cancelled"


async def test_a_login_that_the_authorization_server_refuses(world, settings):
    async def deny(address: str) -> None:
        back = await world.visit(address)
        await world.visit(
            back.replace("code=the-code", "error=access_denied&error_description=not%20you%1b[31m")
        )

    error = await refused(world, ScriptedPerson(deny), settings)
    assert (
        error.what == f"{world.issuer} refuses the login"
        and error.why == "It says: access_denied: not you"
    )


async def test_a_login_that_nobody_finishes_ends_by_itself(world, settings, monkeypatch):
    from hudtui.core.environment import login

    monkeypatch.setattr(login, "LOGIN_LIMIT", 0.3)

    async def wait(_: str) -> None:
        await asyncio.Event().wait()

    error = await refused(world, ScriptedPerson(wait), settings)
    assert error.what.startswith(f"there was no answer from {world.issuer} within")


async def test_an_address_can_be_pasted_and_one_of_another_login_does_not_count(world, settings):
    async def paste(address: str) -> str:
        back = await world.visit(address)
        await world.visit(
            back.replace("state=", "state=x")
        )  # what another page in the browser sends is ignored
        return back

    person = ScriptedPerson("http://127.0.0.1:1/callback?code=evil&state=evil", paste)
    assert len(await log_in(source(world), person, settings)) == 1
    assert "That is no answer of this login" in person.questions[1].lines[0]


async def test_more_scopes_are_asked_for_when_a_call_needs_them(world, settings):
    await log_in(
        source(world), ScriptedPerson(world.browse), settings, options=LoginOptions(scope="read")
    )
    world.scopes = ("write",)
    person = ScriptedPerson(True, world.browse)
    assert await with_login(source(world), person, settings, lambda: say(world)) == "said"
    assert "It asks for the scopes: write" in person.questions[0].lines
    assert world.valid == {"access-token-2": ("read", "write")}, (
        "those that were granted before are kept"
    )


async def test_a_login_and_more_scopes_are_asked_for_in_one_piece_of_work(world, settings):
    world.scopes = ("write",)
    person = ScriptedPerson(True, world.browse, True, world.browse)
    assert await with_login(source(world), person, settings, lambda: say(world)) == "said"


@pytest.mark.parametrize("path", ["", "/tenant"])
async def test_an_older_server_is_its_own_authorization_server(world, settings, path):
    origin = world.url.removesuffix("/mcp")
    world.answers["/.well-known/oauth-protected-resource/mcp"] = reply("404 Not Found")
    metadata = {
        "issuer": f"{origin}{path}",
        "authorization_endpoint": f"{world.issuer}/authorize",
        "token_endpoint": f"{world.issuer}/token",
        "registration_endpoint": f"{world.issuer}/register",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
    }
    world.answers["/.well-known/oauth-authorization-server"] = reply("200 OK", json.dumps(metadata))
    await log_in(source(world), ScriptedPerson(world.browse), settings)
    assert await say(world) == "said"


async def test_a_server_that_is_never_satisfied_is_asked_once(world, settings):
    await log_in(source(world), ScriptedPerson(world.browse), settings)
    world.answers["/mcp"] = reply("401 Unauthorized", www_authenticate="Bearer")
    person = ScriptedPerson(True, world.browse)
    with pytest.raises(ConnectError):
        await with_login(source(world), person, settings, lambda: say(world))
    assert person.titles == ["Log in?", f"Log in at {world.url}"]


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "file:///etc/passwd", "http://example.invalid/authorize"]
)
@pytest.mark.parametrize(
    "name", ["authorization_endpoint", "token_endpoint", "registration_endpoint"]
)
async def test_addresses_of_other_schemes_are_neither_shown_nor_asked(
    world, settings, name, address
):
    world.metadata[name] = address
    person = ScriptedPerson(world.browse)
    await refused(world, person, settings)
    assert not [
        copied
        for copied in person.copied
        if not copied.startswith(world.issuer) and "127.0.0.1" not in copied
    ]


@pytest.mark.parametrize(
    "answer",
    [
        reply("200 OK", b'{"issuer": "' + b"x" * 3_000_000 + b'"}'),
        reply("200 OK", b"[" * 100_000),
        reply("200 OK", '{"issuer": 3, "authorization_endpoint": [], "token_endpoint": {}}'),
        reply("200 OK", "<html>", "text/html"),
        reply("200 OK", b"\xff\xfe\x00"),
        reply("500 Internal Server Error"),
    ],
    ids=["huge", "deep", "types", "html", "bytes", "500"],
)
@pytest.mark.parametrize(
    "place",
    ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"],
)
async def test_metadata_without_sense_end_the_login_in_words(world, settings, place, answer):
    world.answers[place] = answer
    await refused(world, ScriptedPerson(), settings)


@pytest.mark.parametrize(
    ("path", "answer", "words"),
    [
        (
            "/register",
            reply("403 Forbidden", '{"error": "access_denied"}'),
            "does not register hudtui",
        ),
        ("/register", reply("201 Created", "[]"), "does not register hudtui"),
        (
            "/token",
            reply(
                "400 Bad Request", '{"error": "invalid_grant", "error_description": "no\x1b[31m"}'
            ),
            "gives no token",
        ),
        ("/token", reply("200 OK", '{"refresh_token": "secret-token-9"}'), "gives no token"),
        (
            "/token",
            reply("200 OK", '{"access_token": "secret-token-9", "token_type": "mac"}'),
            "gives no token",
        ),
        ("/token", reply("302 Found", location="https://example.invalid/"), "gives no token"),
    ],
)
async def test_an_authorization_server_that_says_no(world, settings, path, answer, words, caplog):
    world.answers[path] = answer
    with caplog.at_level(logging.DEBUG):
        error = await refused(world, ScriptedPerson(world.browse), settings)
    assert words in error.what and "\x1b" not in str(error)
    assert "secret-token-9" not in str(error) and "secret-token-9" not in caplog.text


async def test_an_authorization_server_that_does_not_answer_is_named(world, settings):
    gone = {"resource": world.url, "authorization_servers": ["http://127.0.0.1:9"]}
    world.answers["/.well-known/oauth-protected-resource/mcp"] = reply("200 OK", json.dumps(gone))
    error = await refused(world, ScriptedPerson(), settings)
    assert "http://127.0.0.1:9" in error.what


async def test_a_server_on_the_network_without_encryption_gets_no_login():
    from hudtui.core.environment.login import login_for
    from hudtui.core.environment.servers import Secrets

    assert (
        await asyncio.to_thread(login_for, "http://example.invalid/mcp", LoginOptions(), Secrets())
        is None
    )


async def test_a_clients_secret_goes_only_to_the_named_authorization_server(world, settings):
    credentials = ClientCredentials("mine", "the-client-secret", issuer="https://example.invalid")
    error = await refused(world, ScriptedPerson(), settings, LoginOptions(credentials))
    assert "another authorization server" in error.what
    assert error.fix == f"If the client is registered there: --issuer {world.issuer}"
    assert not [one for one in world.asked if one.path == "/token"]
    assert "the-client-secret" not in "".join(one.body for one in world.asked)


@pytest.mark.parametrize("methods", [["client_secret_post"], ["client_secret_basic"], None])
async def test_a_registered_clients_secret_is_sent_as_the_authorization_server_takes_it(
    world, settings, methods
):
    world.metadata["token_endpoint_auth_methods_supported"] = methods
    credentials = ClientCredentials("mine", "the-client-secret", issuer=world.issuer)
    person = ScriptedPerson(world.browse)
    await log_in(source(world), person, settings, options=LoginOptions(credentials))
    world.valid.clear()
    assert await say(world) == "said", "the token is renewed with the same client"
    for one in [one for one in world.asked if one.path == "/token"]:
        assert ("the-client-secret" in one.body) is (methods == ["client_secret_post"])
        assert ("authorization" in one.headers) is (methods != ["client_secret_post"])
    assert not [one for one in world.asked if one.path == "/register"]


async def test_a_server_that_does_not_answer_a_login_ends_it_within_its_limit(odd_http, settings):
    async def silent(method, path, headers, body, writer):
        await asyncio.Event().wait()

    place = parse_source(f"{await odd_http(silent)}/mcp", lookup=lambda _: None)
    async with asyncio.timeout(60):
        with pytest.raises(ConnectError, match="no answer in time"):
            await log_in(place, ScriptedPerson(), settings, timeout=0.5)


async def test_logging_out_removes_the_tokens(world, settings):
    await log_in(source(world), ScriptedPerson(world.browse), settings)
    assert await log_out(source(world)) == (world.url,)
    assert not login_path(world.url).exists() and await log_out(source(world)) == ()


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 1}', '{"format": 1, "server": 3, "tokens": []}', "\x00"]
)
async def test_a_damaged_file_counts_as_no_login(world, settings, text):
    path = login_path(world.url)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert read_login(world.url) is None
    await log_in(source(world), ScriptedPerson(world.browse), settings)
    assert read_login(world.url) is not None and stat.S_IMODE(os.stat(path).st_mode) == 0o600
