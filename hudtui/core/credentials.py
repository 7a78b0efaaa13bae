"""Key checks.

One request that asks a service whether it knows a key, sent only when the user asks for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from hudtui.core.errors import InputError
from hudtui.core.extensions import PROVIDERS, extensions
from hudtui.core.http import (
    HttpAnswer,
    HttpClient,
    HttpError,
    bad_key_character,
    is_http_url,
    keeps_secrets,
)
from hudtui.core.platform import BUCKEYE, HUD
from hudtui.core.settings import Settings
from hudtui.core.text import clean_line

Verdict = Literal["works", "refused", "limited", "unclear", "unreachable", "missing", "untestable"]
"""Verdict of a check.

`limited`: the service knows the key, but it may not do what was asked. `unclear`: the service
answered, but not about the key.
"""


@dataclass(frozen=True)
class KeyCheck:
    """The answer about one key."""

    name: str
    verdict: Verdict
    message: str
    """One sentence for the user, without the key."""
    account: str | None = None
    """The owner of the key, as the service says."""
    host: str | None = None
    """The service that was asked."""
    seconds: float | None = None

    @property
    def ok(self) -> bool:
        return self.verdict == "works"


_Found = tuple[Verdict, str, str | None]
"""Verdict, message and account of a `KeyCheck`."""
_MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class KeyRequest:
    """The question to a service whose a key is."""

    variable: str
    """The setting that holds the address."""
    path: str
    account: Callable[[Any], str | None]
    method: str = "GET"
    body: Mapping[str, str] | None = None
    basic: bool = False


def can_check(name: str, settings: Settings) -> bool:
    """Return True if a service can be asked about this key."""
    request = _request(name, settings)
    return request is not None and settings.get(request.variable) is not None


async def check_key(name: str, settings: Settings, *, timeout: float = 15.0) -> KeyCheck:
    """Ask the key's service who it belongs to.

    Args:
        name: The variable that holds the key.
        settings: Where the key and the service's address are looked up.
        timeout: Seconds for the whole exchange.

    Raises:
        InputError: `name` is not a key that can be tested.
        Untrusted: The user has not agreed to settings of the project, which might decide where the
            key goes.
    """
    settings.require_trust()
    request = _request(name, settings)
    if request is None:
        keys = ", ".join(
            key.name
            for key in settings.keys.values()
            if key.secret and _request(key.name, settings)
        )
        raise InputError(
            f"{name} is not a key that can be tested", fix=f"Keys that can be: {keys}."
        )
    key = settings.get(name)
    if key is None:
        return KeyCheck(name, "missing", f"{name} {settings.lacking(name)[0]}.")
    base = settings.get(request.variable)
    if base is None:
        return KeyCheck(
            name,
            "untestable",
            f"No service can be asked about {name}: {request.variable} is not set.",
        )
    if bad_key_character(key) is not None:
        return KeyCheck(
            name,
            "refused",
            f"{name} holds a blank, a line end or a character that no key has. Copy it again.",
        )
    url = base.rstrip("/") + request.path
    host = urlsplit(url).netloc.rpartition("@")[2]
    if is_http_url(url) and not keeps_secrets(url):
        return KeyCheck(
            name,
            "untestable",
            f"{request.variable} is not https: {name} would be sent to {host} in the clear.",
        )
    client = HttpClient(
        key, user="api" if request.basic else None, timeout=timeout, max_bytes=_MAX_BYTES
    )
    start = time.monotonic()
    try:
        answer = await client.send(request.method, url, body=request.body)
    except HttpError as error:
        messages = {
            "timeout": f"{host} did not answer within {timeout:g} s.",
            "address": f"{request.variable} is not an address that can be asked.",
            "unsent": f"No connection to {host}: {error.why}.",
        }
        judged: _Found = (
            "unreachable",
            messages.get(error.kind, f"{host} broke off: {error.why}."),
            None,
        )
    else:
        judged = _judged(name, answer, request, host)
    finally:
        await client.aclose()
    return KeyCheck(name, *judged, host, round(time.monotonic() - start, 3))


_STATUSES: Mapping[int, tuple[Verdict, str]] = {
    401: ("refused", "{host} refuses the key (401): it is wrong, expired or revoked."),
    402: ("limited", "{host} knows the key, but the account has no money (402)."),
    403: (
        "limited",
        "{host} knows the key but does not let it do this (403): it lacks a permission.",
    ),
    404: (
        "unclear",
        "{host} does not know this question (404). Does {variable} name the right address?",
    ),
    429: ("unclear", "{host} is being asked too often (429). Try again in a minute."),
}


def _judged(name: str, answer: HttpAnswer, request: KeyRequest, host: str) -> _Found:
    """Return the verdict of an answer about the key."""
    status, data = answer.status, answer.data
    if status in _STATUSES:
        verdict, words = _STATUSES[status]
        return verdict, words.format(host=host, variable=request.variable), None
    if 300 <= status < 400:
        target = urlsplit(answer.headers.get("location", "")).netloc or "another address"
        return (
            "unclear",
            f"{host} redirects to {clean_line(target, 80)} ({status}); the key was not sent there.",
            None,
        )
    if status >= 500:
        return "unclear", f"{host} has trouble of its own ({status}). The key may be fine.", None
    if status >= 400:
        return "unclear", f"{host} answered {status}.", None
    if not isinstance(data, dict | list):
        page = (
            "a web page" if b"<html" in answer.body[:2000].lower() else "something that is not JSON"
        )
        return (
            "unclear",
            f"{host} answered with {page}. Does {request.variable} name the right address?",
            None,
        )
    try:
        account = request.account(data)
    except (LookupError, TypeError, AttributeError):
        return "unclear", f"{host} answered in a form that is not known here.", None
    if account is None:
        return "refused", f"{host} does not know the key.", None
    shown = clean_line(account, 80)
    return "works", f"The key works{f': {shown}' if shown else ''}.", shown or None


def _hugging_face(data: Any) -> str | None:
    role = ((data.get("auth") or {}).get("accessToken") or {}).get("role")
    return f"{data['name']}, {role}" if role else str(data["name"])


def _openai(data: Any) -> str | None:
    return f"{len(data['data'])} models"


def _wandb(data: Any) -> str | None:
    viewer = data["data"]["viewer"]
    return None if viewer is None else str(viewer.get("entity") or viewer.get("username") or "")


_REQUESTS: Mapping[str, KeyRequest] = {
    "HF_TOKEN": KeyRequest("HF_ENDPOINT", "/api/whoami-v2", _hugging_face),
    "OPENAI_API_KEY": KeyRequest("OPENAI_BASE_URL", "/models", _openai),
    "WANDB_API_KEY": KeyRequest(
        "WANDB_BASE_URL",
        "/graphql",
        _wandb,
        "POST",
        {"query": "query Viewer { viewer { username entity } }"},
        basic=True,
    ),
}


def _request(name: str, settings: Settings) -> KeyRequest | None:
    if name in _REQUESTS:
        return _REQUESTS[name]
    for provider in extensions(PROVIDERS).loaded.values():
        if provider.key == name and provider.key_request is not None:
            request: KeyRequest = provider.key_request()
            return request
    platform = next(
        (one for one in (HUD, settings.platform, BUCKEYE) if one.key_variable == name), None
    )
    return (
        None
        if platform is None
        else KeyRequest(platform.url_variable("api"), "/v2/jobs?limit=1", lambda data: "")
    )
