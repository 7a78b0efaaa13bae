"""Asking a service whether it knows a key. One request, and only when somebody asks for it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from hudtui.core.errors import InputError
from hudtui.core.settings import Settings
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    import httpx2

Verdict = Literal["works", "refused", "limited", "unclear", "unreachable", "missing", "untestable"]
"""What came of it.

`limited`: the service knows the key, but it may not do what was asked. `unclear`: the service answered, but not about the key.
"""


@dataclass(frozen=True)
class KeyCheck:
    """The answer about one key."""

    name: str
    verdict: Verdict
    message: str
    """One sentence for the person. Never holds the key."""
    account: str | None = None
    """Who the key belongs to, as the service says."""
    host: str | None = None
    """Who was asked."""
    seconds: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the key can be used."""
        return self.verdict == "works"

    def to_json(self) -> dict[str, object]:
        """The form of `hudtui settings test --json`."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "ok": self.ok,
            "message": self.message,
            "account": self.account,
            "host": self.host,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class _Request:
    base: str | None
    path: str
    account: Callable[[Any], str | None]
    method: str = "GET"
    content: bytes | None = None
    basic: bool = False
    variable: str = ""
    """What sets the address."""


def can_check(name: str, settings: Settings) -> bool:
    """Whether there is a service that can be asked about this key."""
    request = _request(name, settings)
    return request is not None and request.base is not None


async def check_key(name: str, settings: Settings, *, base_url: str | None = None, timeout: float = 15.0) -> KeyCheck:
    """Ask the key's service who it belongs to.

    Args:
        name: The variable that holds the key.
        settings: Where the key and the service's address are looked up.
        base_url: Ask there instead.
        timeout: Seconds for the whole exchange.

    Raises:
        InputError: `name` is not a key that this program knows.
        Untrusted: Settings of the project that the user has not agreed to might decide where the key goes.
    """
    settings.require_trust()
    request = _request(name, settings)
    if request is None:
        raise InputError(f"{name} is not a key that can be tested", fix=f"Keys that can be: {', '.join(_key_names(settings))}.")
    key = settings.get(name)
    if key is None:
        return KeyCheck(name, "missing", f"{name} is not set.")
    base = base_url or request.base
    if base is None:
        return KeyCheck(name, "untestable", f"There is no service that could be asked; {request.variable} would name one.")
    # A key with a line end or a letter beyond ASCII cannot be sent, and the error of the attempt would quote it.
    if not all(33 <= ord(character) <= 126 for character in key):
        return KeyCheck(name, "refused", f"{name} holds a blank, a line end or a character that no key has. Copy it again.")
    url = base.rstrip("/") + request.path
    host = urlsplit(url).netloc.rpartition("@")[2]
    start = time.monotonic()
    result = await _ask(name, key, request, url, host, timeout)
    return KeyCheck(name, result[0], result[1], result[2], host, round(time.monotonic() - start, 3))


async def _ask(name: str, key: str, request: _Request, url: str, host: str, timeout: float) -> tuple[Verdict, str, str | None]:
    import asyncio

    import httpx2

    headers = {"Accept": "application/json", "User-Agent": "hudtui"}
    if request.content is not None:
        headers["Content-Type"] = "application/json"
    if not request.basic:
        headers["Authorization"] = f"Bearer {key}"
    auth = httpx2.BasicAuth("api", key) if request.basic else None
    try:
        async with (
            asyncio.timeout(timeout),
            httpx2.AsyncClient(follow_redirects=False, timeout=timeout) as client,
            client.stream(request.method, url, headers=headers, content=request.content, auth=auth) as response,
        ):
            body = b""
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > 1_000_000:
                    break
        return _verdict(name, response, body, request, host)
    except (TimeoutError, httpx2.TimeoutException):
        return "unreachable", f"{host} did not answer within {timeout:g} s.", None
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
        return "unreachable", f"{request.variable} is not an address that can be asked.", None
    except httpx2.ConnectError as error:
        return "unreachable", f"No connection to {host}: {_reason(error)}.", None
    except httpx2.HTTPError as error:
        return "unreachable", f"{host} broke off: {type(error).__name__}.", None


def _reason(error: Exception) -> str:
    text = clean_line(str(error), 120)
    words = text.lower()
    if "certificate" in words:
        return f"its certificate is not trusted ({text})"
    if "name or service" in words or "getaddrinfo" in words or "nodename" in words or "name resolution" in words:
        return "its name cannot be resolved, or this machine is offline"
    if "refused" in words or "all connection attempts failed" in words:
        return "nothing answers there"
    return text or type(error).__name__


def _verdict(name: str, response: httpx2.Response, body: bytes, request: _Request, host: str) -> tuple[Verdict, str, str | None]:
    status = response.status_code
    data: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        data = json.loads(body)
    if status == 401:
        return "refused", f"{host} refuses the key (401): it is wrong, expired or revoked.", None
    if status == 403:
        return "limited", f"{host} knows the key but does not let it do this (403): it lacks a permission.", None
    if status == 402:
        return "limited", f"{host} knows the key, but the account has no money (402).", None
    if status == 429:
        return "unclear", f"{host} is being asked too often (429). Try again in a minute.", None
    if 300 <= status < 400:
        target = urlsplit(response.headers.get("location", "")).netloc or "elsewhere"
        return "unclear", f"{host} redirects to {clean_line(target, 80)} ({status}); the key was not sent there.", None
    if status >= 500:
        return "unclear", f"{host} has trouble of its own ({status}). The key may be fine.", None
    if status == 404:
        return "unclear", f"{host} does not know this question (404). Does {request.variable} name the right address?", None
    if status >= 400:
        return "unclear", f"{host} answered {status}.", None
    if not isinstance(data, dict | list):
        page = "a web page" if b"<html" in body[:2000].lower() else "something that is not JSON"
        return "unclear", f"{host} answered with {page}. Does {request.variable} name the right address?", None
    try:
        account = request.account(data)
    except (LookupError, TypeError, AttributeError):
        return "unclear", f"{host} answered in a form that is not known here.", None
    if account is None:
        return "refused", f"{host} does not know the key.", None
    shown = clean_line(account, 80)
    return "works", f"The key works{f': {shown}' if shown else ''}.", shown or None


def _hud(data: Any) -> str | None:
    return ""


def _prime(data: Any) -> str | None:
    user = data["data"]
    return str(user.get("email") or user.get("name") or user["id"])


def _hugging_face(data: Any) -> str | None:
    role = ((data.get("auth") or {}).get("accessToken") or {}).get("role")
    return f"{data['name']}, {role}" if role else str(data["name"])


def _openai(data: Any) -> str | None:
    return f"{len(data['data'])} models"


def _wandb(data: Any) -> str | None:
    viewer = data["data"]["viewer"]
    return None if viewer is None else str(viewer.get("entity") or viewer.get("username") or "")


def _request(name: str, settings: Settings) -> _Request | None:
    def address(variable: str) -> str | None:
        return settings.get(variable)

    if name == "PRIME_API_KEY":
        return _Request(address("PRIME_API_BASE_URL"), "/api/v1/user/whoami", _prime, variable="PRIME_API_BASE_URL")
    if name == "HF_TOKEN":
        return _Request(address("HF_ENDPOINT"), "/api/whoami-v2", _hugging_face, variable="HF_ENDPOINT")
    if name == "OPENAI_API_KEY":
        return _Request(address("OPENAI_BASE_URL"), "/models", _openai, variable="OPENAI_BASE_URL")
    if name == "WANDB_API_KEY":
        query = json.dumps({"query": "query Viewer { viewer { username entity } }"}).encode()
        return _Request(address("WANDB_BASE_URL"), "/graphql", _wandb, "POST", query, basic=True, variable="WANDB_BASE_URL")
    if name in ("HUD_API_KEY", settings.platform.key_variable):
        variable = "HUD_API_URL" if name == "HUD_API_KEY" else settings.platform.url_variable("api")
        return _Request(address(variable), "/v2/jobs?limit=1", _hud, variable=variable)
    if name == "BUCKEYE_API_KEY":
        return _Request(address("BUCKEYE_API_URL"), "/v2/jobs?limit=1", _hud, variable="BUCKEYE_API_URL")
    return None


def _key_names(settings: Settings) -> list[str]:
    return [key.name for key in settings.keys.values() if key.secret and _request(key.name, settings) is not None]
