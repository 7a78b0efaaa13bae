"""HTTP as every client of a web service here uses it.

One request with a deadline, retries, a bound, and no key in any error.

`HttpClient.send` returns an `HttpAnswer` of any status, or raises `HttpError` when no answer came.
What a status means is for the caller to say. The key goes to the origin that was asked and nowhere
else: redirects to another origin are not followed. It goes over TLS whose certificate was checked,
or to this machine; what is asked at this machine passes no proxy.
"""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, urljoin, urlsplit

from hudtui.core.errors import InputError
from hudtui.core.text import MASK, clean_line

if TYPE_CHECKING:
    import ssl

    import httpx2

MAX_BYTES = 64 << 20
"""Largest size of an answer; more is not read."""
_CONNECT_TIMEOUT = 10.0
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

Query = Sequence[tuple[str, str | int]]


class HttpError(Exception):
    """A request without an answer.

    Args:
        kind: `unsent`: no connection came about, so the service has seen nothing; `timeout`: no
            whole answer in time; `lost`: the answer broke off; `address`: the URL cannot be asked,
            or not with a key; `redirect`: it leads where the request must not go.
        why: The reason in words, without the key.
    """

    def __init__(
        self, kind: Literal["unsent", "timeout", "lost", "address", "redirect"], why: str
    ) -> None:
        super().__init__(why)
        self.kind = kind
        self.why = why


@dataclass(frozen=True)
class HttpAnswer:
    """An answer of any status."""

    status: int
    headers: Mapping[str, str]
    """Names in small letters."""
    body: bytes
    """Cut at the client's bound."""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @cached_property
    def data(self) -> Any:
        """The body read as JSON; None if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def message(self) -> str:
        """Return the message of an error answer; see `error_message`.

        It may quote the key: see `HttpClient.redact`.
        """
        return error_message(self.text, self.headers.get("content-type", ""))


@dataclass(frozen=True)
class Retry:
    """When a request is sent again.

    The pause doubles each time; a pause that the service names (`Retry-After`) replaces it.
    """

    attempts: int = 1
    pause: float = 0.5
    """Seconds before the second attempt."""
    jitter: float = 0.0
    """The part of a pause by which it may be longer or shorter, so that many clients do not come
    back at the same moment."""
    longest: float = 60.0
    """Seconds that no pause exceeds."""


def never_again(result: HttpAnswer | HttpError) -> bool:
    """The rule of a request that is sent once."""
    return False


class HttpClient:
    """Requests to a service, which may have several addresses.

    The connections belong to the event loop of the first request.

    Args:
        key: Sent as a bearer token, and masked in every error. An address that would get it in the
            clear is not asked.
        user: The key is sent as the password of this user instead.
        timeout: Seconds for one attempt, from connecting to the last byte.
        retry: How often and when a request is sent again.
        max_bytes: The most bytes of an answer.
        connections: The most connections at a time, to this machine and to others each; None for no
            limit.
        follow: Follow redirects within the same origin.
        sleep: Waits between attempts; `asyncio.sleep` by default.
    """

    def __init__(
        self,
        key: str | None = None,
        *,
        user: str | None = None,
        timeout: float = 30.0,
        retry: Retry = Retry(),
        max_bytes: int = MAX_BYTES,
        connections: int | None = 20,
        follow: bool = False,
        sleep: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        self._key = key
        self._headers = {"Accept": "application/json", "User-Agent": "hudtui"}
        if key is not None and user is not None:
            import base64

            self._headers["Authorization"] = (
                "Basic " + base64.b64encode(f"{user}:{key}".encode()).decode()
            )
        elif key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self.timeout = timeout
        self._retry = retry
        self._max_bytes = max_bytes
        self._connections = connections
        self._follow = follow
        self._sleep = sleep
        self._clients: dict[tuple[bool, bool], httpx2.AsyncClient] = {}
        self._closed = False

    async def aclose(self) -> None:
        """Close the connections. A later request is refused: nobody would close what it opens."""
        self._closed = True
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    def redact(self, text: str) -> str:
        """`text` with the key masked."""
        return text.replace(self._key, MASK) if self._key else text

    async def send(
        self,
        method: str,
        url: str,
        *,
        query: Query = (),
        body: Any = None,
        again: Callable[[HttpAnswer | HttpError], bool] = never_again,
    ) -> HttpAnswer:
        """Send a request, and again after a pause while `again` says so of its result.

        It is sent again only while attempts are left.

        Args:
            method: GET, POST, PATCH or DELETE.
            url: The address.
            query: Pairs; a name may come several times.
            body: Sent as JSON unless None.
            again: Whether a result may be another one the next time, and sending the request twice
                does no harm.

        Raises:
            HttpError: No answer came at the last attempt.
        """
        import asyncio
        import random

        sleep = self._sleep or asyncio.sleep
        pause, attempt = self._retry.pause, 1
        while True:
            result: HttpAnswer | HttpError
            named = None
            try:
                result = await self._once(method, url, query, body)
                named = retry_after(result.headers)
            except HttpError as error:
                result = error
            if attempt >= self._retry.attempts or not again(result):
                if isinstance(result, HttpError):
                    raise result
                return result
            jitter = random.uniform(1 - self._retry.jitter, 1 + self._retry.jitter)
            await sleep(min(pause * jitter if named is None else named, self._retry.longest))
            attempt, pause = attempt + 1, min(pause * 2, self._retry.longest)

    async def _once(self, method: str, url: str, query: Query, body: Any) -> HttpAnswer:
        import asyncio

        import httpx2

        headers = {} if body is None else {"Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        try:
            # One deadline for the whole answer: the library's own limits start again with every
            # byte that trickles in.
            async with asyncio.timeout(self.timeout):
                client = self._open(url)
                request = client.build_request(
                    method, url, params=list(query) or None, content=content, headers=headers
                )
                for _ in range(_MAX_REDIRECTS):
                    answer = await self._answer(client, request)
                    if (
                        not self._follow
                        or answer.status not in _REDIRECTS
                        or "location" not in answer.headers
                    ):
                        return answer
                    target = self._target(request, answer)
                    request = client.build_request(method, target, content=content, headers=headers)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise HttpError("unsent", self.redact(_reason(error))) from None
        except (TimeoutError, httpx2.TimeoutException):
            raise HttpError("timeout", f"no answer within {self.timeout:g} s") from None
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise HttpError("address", self.redact(_reason(error))) from None
        except httpx2.HTTPError as error:
            raise HttpError("lost", self.redact(_reason(error))) from None
        raise HttpError("redirect", "redirects without end")

    async def _answer(self, client: httpx2.AsyncClient, request: httpx2.Request) -> HttpAnswer:
        response = await client.send(request, stream=True)
        try:
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) >= self._max_bytes:
                    break
        finally:
            await response.aclose()
        return HttpAnswer(response.status_code, response.headers, bytes(body[: self._max_bytes]))

    def _target(self, request: httpx2.Request, answer: HttpAnswer) -> str:
        """Return the target of a redirect: the same request elsewhere at the same origin."""
        target = urljoin(str(request.url), answer.headers.get("location", ""))
        if origin_of(target) != origin_of(str(request.url)):
            where = self.redact(clean_line(target, 200))
            raise HttpError(
                "redirect", f"redirects to another address, {where}; the key is not sent there"
            )
        if request.method != "GET" and answer.status not in (307, 308):
            raise HttpError(
                "redirect", f"redirects a request that changes something (status {answer.status})"
            )
        return target

    def _open(self, url: str) -> httpx2.AsyncClient:
        """The connections for an address. Proxy and certificates are decided for each address."""
        import httpx2

        if self._closed:
            raise HttpError("unsent", "the connections are closed")
        address = str(
            httpx2.URL(url)
        )  # as it will be asked: another parser might see another host in it
        if self._key is not None and not keeps_secrets(address):
            raise HttpError(
                "address", "would get the key in the clear: its address does not begin with https"
            )
        kind = is_loopback(address), address.startswith("https:")
        if kind not in self._clients:
            self._clients[kind] = httpx2.AsyncClient(
                headers=self._headers,
                timeout=httpx2.Timeout(self.timeout, connect=min(self.timeout, _CONNECT_TIMEOUT)),
                # An idle connection may be closed by the service just as a POST is sent on it.
                limits=httpx2.Limits(
                    max_connections=self._connections,
                    max_keepalive_connections=20,
                    keepalive_expiry=4.0,
                ),
                # A proxy cannot reach this machine's own services, and would get what is sent.
                trust_env=not kind[0],
                verify=tls_context() if kind != (True, False) else _no_tls(),
            )
        return self._clients[kind]


def past_proxies(url: str) -> dict[str, None]:
    """Return the `mounts` of a client for this address.

    No proxy of the environment is asked for a service of this machine.

    It could not reach the service, and would get what is sent there.
    """
    return {f"all://{urlsplit(url).netloc.rpartition('@')[2]}": None} if is_loopback(url) else {}


def tls_context() -> ssl.SSLContext:
    """Return the context that checks the certificates of servers.

    Its authorities are those of `SSL_CERT_FILE` or `SSL_CERT_DIR`, else the usual ones.
    """
    return _tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.lru_cache(maxsize=1)
def _tls_context(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Certificates take 30 ms to load: all connections share them."""
    import httpx2

    return httpx2.create_ssl_context()


@functools.cache
def _no_tls() -> ssl.SSLContext:
    """For http to this machine, which needs no TLS: it trusts nobody, and takes no time to load."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _reason(error: Exception) -> str:
    """Return the reason why no answer came, for the user."""
    text = clean_line(str(error), 200)
    words = text.lower()
    if "certificate" in words:
        return f"its certificate is not trusted ({text})"
    if any(
        part in words for part in ("name or service", "getaddrinfo", "nodename", "name resolution")
    ):
        return "its name cannot be resolved, or this machine is offline"
    if "refused" in words or "all connection attempts failed" in words:
        return "nothing answers there"
    return text or type(error).__name__


def error_message(text: str, kind: str = "") -> str:
    """Return the message of an error answer in one line.

    The answer is JSON with `detail`, `errors`, `message` or `error`, a proxy's page, or plain text.

    Args:
        text: The body.
        kind: Its content type.
    """
    if "html" in kind or text.lstrip()[:15].lower().startswith(("<html", "<!doctype")):
        begin, end = text.lower().find("<title>"), text.lower().find("</title>")
        title = clean_line(text[begin + 7 : end], 100) if 0 <= begin < end else ""
        return f"a page instead of an answer ({title})" if title else "a page instead of an answer"
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return clean_line(text, 300)
    if isinstance(data, Mapping):
        for key in ("detail", "errors", "message", "error"):
            if words := _words(data.get(key)):
                return clean_line(words, 400)
    return clean_line(json.dumps(data), 300) if data else ""


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        place = value.get("loc", value.get("param"))
        text = next(
            (value[key] for key in ("msg", "details", "message", "detail") if value.get(key)), None
        )
        if not isinstance(text, str):
            return json.dumps(value)
        if isinstance(place, list):
            place = ".".join(str(part) for part in place if part != "body")
        return f"{place}: {text}" if place else text
    if isinstance(value, list):
        return "; ".join(filter(None, map(_words, value)))
    return ""


# --- addresses and keys ---------------------------------------------------------------------------


def parse_address(url: str, what: str, example: str) -> SplitResult:
    """An http(s) address that a key can be sent to.

    Args:
        url: The address.
        what: What it is the address of, for messages.
        example: What such an address looks like.

    Raises:
        InputError: It is not http or https with a host, or it holds a user name or password.
    """
    if not is_http_url(url):
        raise InputError(
            f"{clean_line(url, 200)!r} is not the address of {what}",
            fix=f"It looks like {example}.",
        )
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise InputError(
            f"the address of {what} must not hold a name or password",
            fix="Give the key by a variable or a setting instead.",
        )
    return parts


def is_http_url(text: str) -> bool:
    """Return True if a text is an http or https address with a host."""
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        return False


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port of an address; empty for what is not one."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme,
            parts.hostname,
            parts.port or {"https": 443, "http": 80}.get(parts.scheme),
        )
    except ValueError:
        return "", None, None


def is_loopback(url: str) -> bool:
    """Return True if the address of a web server or of a socket is of this machine."""
    import ipaddress

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme in ("http", "https", "ws", "wss") and (
            host == "localhost" or ipaddress.ip_address(host).is_loopback
        )
    except ValueError:
        return False


def keeps_secrets(url: str) -> bool:
    """Return True if a key may be sent to an address: over https, or to this machine."""
    return urlsplit(url).scheme == "https" or is_loopback(url)


def bad_key_character(text: str) -> int | None:
    """The position, counting from 1, of the first character that no API key has.

    None if all could be in one. Keys are visible ASCII characters. A header with any other cannot
    be sent, and the error of the attempt would quote the key.
    """
    return next(
        (place for place, character in enumerate(text, 1) if not "!" <= character <= "~"), None
    )


def require_key(text: str, name: str) -> str:
    """The key itself, if it can be one.

    Raises:
        InputError: It is empty, or holds a character that no key has. The error names the key and
            does not quote it.
    """
    if not text or bad_key_character(text) is not None:
        raise InputError(
            f"{name} does not look like a key",
            fix="It is empty, or holds blanks, line ends or letters that no key has.",
        )
    return text


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a service asks to wait, given as a number or as a date.

    None if it does not ask.

    Args:
        headers: Of the answer, with names in small letters.
    """
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (when - datetime.now(UTC)).total_seconds()) if when.tzinfo else None
