"""One request to Prime's API: sent with the key, repeated where that is harmless, and answered with JSON or an error in words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from hudtui.core.compute.provider import AuthError, InsufficientFunds, OutcomeUnknown, ProviderError
from hudtui.core.errors import InputError
from hudtui.core.http import is_loopback, retry_after
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    import httpx2
    from pydantic import SecretStr

PREFIX = "/api/v1"
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that may be another the next time."""
_UNCLEAR = frozenset({408, 500, 502, 503, 504, 520, 522, 524})
"""Statuses that do not tell whether a request was carried out: somebody on the way may have given up waiting."""
_ATTEMPTS = 4
_PAUSE = 0.5
_LONGEST_PAUSE = 60.0
_REDIRECTS = 5
_HIDDEN = "••••"

Query = Sequence[tuple[str, str | int]]


class PrimeApiError(ProviderError):
    """The service answered with an error status: it has not done what was asked."""

    def __init__(self, what: str, *, status: int, told: str, fix: str | None = None) -> None:
        super().__init__(what, why=f"{status}: {told}" if told else f"status {status}", fix=fix)
        self.status = status
        self.told = told
        """What the service says, in one line."""


class PrimeHttp:
    """Requests to one API with one key. The connections belong to the event loop of the first request.

    Args:
        key: The API key. It is sent over https or to this machine alone, and is in no error.
        base_url: Origin of the API; an `/api/v1` at its end is left out.
        title: What errors call the service.
        timeout: Seconds for one attempt, from connecting to the last byte.
        sleep: Waits between attempts.

    Raises:
        InputError: The address is none, or would carry the key in the clear; or the key cannot be one.
    """

    def __init__(
        self,
        key: SecretStr,
        base_url: str,
        *,
        title: str,
        timeout: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._key = key
        self.base_url = _origin(base_url)
        self._title = title
        self._timeout = timeout
        self._sleep = sleep
        self._client: httpx2.AsyncClient | None = None
        text = key.get_secret_value()
        if not text or not (text.isascii() and text.isprintable()) or " " in text:
            raise InputError(
                "PRIME_API_KEY does not look like a key",
                fix="It is empty, or holds blanks, line ends or letters that no key has.",
            )

    async def close(self) -> None:
        """Let connections go."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def send(
        self, method: str, path: str, *, query: Query = (), body: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """The answer to one request.

        Reading, changing and deleting are repeated after passing faults. A POST is repeated only when it was certainly not
        carried out: no connection came about, or 429.

        Args:
            method: GET, POST, PATCH or DELETE.
            path: Below `/api/v1`, in its canonical form.
            query: Pairs; a name may come several times.
            body: Sent as JSON.

        Raises:
            AuthError: 401 or 403.
            InsufficientFunds: 402.
            Refusal: Another error status.
            OutcomeUnknown: A POST that may or may not have been carried out.
            ProviderError: No answer that could be understood.
        """
        pause, attempt = _PAUSE, 1
        while True:
            named: float | None = None
            try:
                response = await self._once(method, path, query, body)
            except _Fault as fault:
                failure, again = fault.error, fault.unsent or method != "POST"
            else:
                if response.is_success:
                    answer = _parsed(response)
                    if answer is not None:
                        return answer
                    shown = self._safe(clean_line(response.text, 120))
                    failure = self._failure(method, "its answer could not be understood", shown or "it was empty")
                    again = method != "POST"
                else:
                    status, named = response.status_code, retry_after(response.headers)
                    again = status in _PASSING if method != "POST" else status == 429
                    unclear = method == "POST" and status in _UNCLEAR
                    refusal = self._refusal(response)
                    failure = self._failure(method, "it failed", refusal.why or "") if unclear else refusal
            if not again or attempt >= _ATTEMPTS or (named is not None and named > _LONGEST_PAUSE):
                raise failure
            await self._sleep(pause if named is None else named)
            attempt, pause = attempt + 1, pause * 2

    async def _once(self, method: str, path: str, query: Query, body: Mapping[str, Any] | None) -> httpx2.Response:
        import httpx2

        client = self._open()
        url = f"{self.base_url}{PREFIX}{path}"
        request = client.build_request(
            method, url, params=list(query) or None, content=None if body is None else json.dumps(body)
        )
        try:
            # One deadline for the whole answer: the client's own limits begin anew with every byte that trickles in.
            async with asyncio.timeout(self._timeout):
                for _ in range(_REDIRECTS):
                    response = await client.send(request)
                    if not response.is_redirect:
                        return response
                    request = self._follow(client, request, response, body)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            reason = self._safe(clean_line(str(error), 200)) or type(error).__name__
            raise _Fault(ProviderError(f"{self._title} cannot be reached", why=reason, fix="Check your network."), True) from None
        except TimeoutError:
            raise _Fault(self._failure(method, f"it did not answer within {self._timeout:g} s", ""), False) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = self._safe(clean_line(str(error), 200)) or type(error).__name__
            raise _Fault(self._failure(method, "its answer was lost", reason), False) from None
        raise ProviderError(f"{self._title} redirects without end")

    def _follow(
        self, client: httpx2.AsyncClient, request: httpx2.Request, response: httpx2.Response, body: Mapping[str, Any] | None
    ) -> httpx2.Request:
        """The next request of a redirect: the same one elsewhere at the same origin."""
        target = urljoin(str(request.url), response.headers.get("location", ""))
        if _origin_of(target) != _origin_of(self.base_url):
            raise ProviderError(
                f"{self._title} redirects to another address",
                why=self._safe(clean_line(target, 200)),
                fix="The key is not sent there.",
            )
        if response.status_code not in (307, 308) and request.method != "GET":
            raise ProviderError(f"{self._title} redirects a request that changes something", why=f"status {response.status_code}")
        return client.build_request(request.method, target, content=None if body is None else json.dumps(body))

    def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            import httpx2

            self._client = httpx2.AsyncClient(
                headers={
                    "Authorization": f"Bearer {self._key.get_secret_value()}",
                    "Content-Type": "application/json",
                    "Accept": "application/json",
                    "User-Agent": "hudtui",
                },
                timeout=httpx2.Timeout(self._timeout, connect=min(self._timeout, 10.0)),
                # A connection that lay idle may be closed by the other side just as a POST is sent on it.
                limits=httpx2.Limits(max_connections=20, max_keepalive_connections=10, keepalive_expiry=4.0),
                follow_redirects=False,  # they are followed here: with the key, and to the same origin only
                trust_env=not is_loopback(self.base_url),
            )
        return self._client

    def _failure(self, method: str, what: str, why: str) -> ProviderError:
        if method == "POST":
            return OutcomeUnknown(f"{self._title} may or may not have carried out the request: {what}", why=why or None)
        return ProviderError(f"{self._title}: {what}", why=why or None)

    def _refusal(self, response: httpx2.Response) -> ProviderError:
        status = response.status_code
        told = self._safe(told_in(response.text, response.headers.get("content-type", "")))
        why = f"{status}: {told}" if told else f"status {status}"
        if status == 401:
            return AuthError(
                f"{self._title} does not accept the API key",
                why=why,
                fix="Set PRIME_API_KEY to a valid one: https://app.primeintellect.ai/dashboard/tokens",
            )
        if status == 403:
            return AuthError(
                f"{self._title} does not let this key do that",
                why=why,
                fix="The key needs the scopes Availability (read) and Instances (read and write), and SSH keys to register one.",
            )
        if status == 402:
            return InsufficientFunds(
                "the wallet is empty", why=why, fix="Top it up: https://app.primeintellect.ai/dashboard/billing"
            )
        if status == 429:
            return PrimeApiError(
                f"{self._title} limits the rate of requests", status=status, told=told, fix="Try again in a minute."
            )
        if status >= 500:
            return PrimeApiError(f"{self._title} failed", status=status, told=told, fix="Try again in a while.")
        return PrimeApiError(f"{self._title} refused the request", status=status, told=told)

    def _safe(self, text: str) -> str:
        return text.replace(self._key.get_secret_value(), _HIDDEN)


class _Fault(Exception):
    """An attempt without an answer."""

    def __init__(self, error: ProviderError, unsent: bool) -> None:
        super().__init__()
        self.error = error
        self.unsent = unsent
        """It never left this machine."""


def told_in(text: str, kind: str = "") -> str:
    """What an error answer says, in one line: both forms of 422, `detail` as text, other JSON, a proxy's page, plain text."""
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
            words = _words(data.get(key))
            if words:
                return clean_line(words, 400)
    return clean_line(json.dumps(data), 300) if data else ""


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        place, text = value.get("loc", value.get("param")), value.get("msg", value.get("details", value.get("message")))
        if not isinstance(text, str):
            return json.dumps(value)
        if isinstance(place, list):
            place = ".".join(str(part) for part in place if part != "body")
        return f"{place}: {text}" if place else text
    if isinstance(value, list):
        return "; ".join(filter(None, map(_words, value)))
    return ""


def _parsed(response: httpx2.Response) -> Mapping[str, Any] | None:
    try:
        answer = response.json()
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, Mapping) else None


def _origin_of(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return "", None, None


def _origin(url: str) -> str:
    shown = clean_line(url, 200)
    scheme, host, _ = _origin_of(url)
    if scheme not in ("http", "https") or not host:
        raise InputError(f"{shown!r} is not the address of an API", fix="PRIME_API_BASE_URL looks like https://host.")
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise InputError("PRIME_API_BASE_URL must not hold a name or password")
    if scheme == "http" and not is_loopback(url):
        raise InputError(f"{shown} would carry the API key in the clear", fix="Use https.")
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix(PREFIX)}"
