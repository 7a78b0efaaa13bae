"""Requests to Prime's API.

Repeated where that is harmless, and answered with JSON or an error in words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hudtui.core.compute.provider import AuthError, InsufficientFunds, OutcomeUnknown, ProviderError
from hudtui.core.errors import InputError
from hudtui.core.http import (
    HttpAnswer,
    HttpClient,
    HttpError,
    Query,
    Retry,
    keeps_secrets,
    parse_address,
    require_key,
    retry_after,
)
from hudtui.core.text import clean_line

PREFIX = "/api/v1"
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that may be another the next time."""
_UNCLEAR = frozenset({408, 500, 502, 503, 504, 520, 522, 524})
"""Statuses that leave open whether a request was carried out: a server on the way may have given up
waiting."""
RETRY = Retry(attempts=4)
"""How often and when a request is repeated after a passing fault."""


class PrimeApiError(ProviderError):
    """The service answered with an error status: it has not done what was asked."""

    def __init__(self, what: str, *, status: int, told: str, fix: str | None = None) -> None:
        super().__init__(what, why=f"{status}: {told}" if told else f"status {status}", fix=fix)
        self.status = status
        self.told = told
        """What the service says, in one line."""


class PrimeHttp:
    """Requests to one API with one key.

    Args:
        key: The API key. It is sent over https or to this machine alone, and is in no error.
        base_url: Origin of the API; an `/api/v1` at its end is left out.
        title: What errors call the service.
        timeout: Seconds for one attempt, from connecting to the last byte.
        sleep: Waits between attempts; `asyncio.sleep` by default.

    Raises:
        InputError: The address is not one, or would carry the key in the clear; or the key cannot
            be one.
    """

    def __init__(
        self,
        key: str,
        base_url: str,
        *,
        title: str,
        timeout: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        parts = parse_address(base_url, "an API", "https://host (PRIME_API_BASE_URL)")
        if not keeps_secrets(base_url):
            raise InputError(
                f"{clean_line(base_url, 200)} would send the API key unencrypted", fix="Use https."
            )
        self.base_url = (
            f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix(PREFIX)}"
        )
        self._title = title
        self._http = HttpClient(
            require_key(key, "PRIME_API_KEY"),
            timeout=timeout,
            retry=RETRY,
            follow=True,
            sleep=sleep,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def send(
        self, method: str, path: str, *, query: Query = (), body: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Send one request, and return its answer.

        Reading, changing and deleting are repeated after passing faults. A POST is repeated only
        when it was certainly not carried out: no connection came about, or 429. `path` is below
        `/api/v1`, in its canonical form.

        Raises:
            AuthError: 401 or 403.
            InsufficientFunds: 402.
            PrimeApiError: Another error status.
            OutcomeUnknown: A POST that may or may not have been carried out.
            ProviderError: No answer that could be understood.
        """

        def again(result: HttpAnswer | HttpError) -> bool:
            if isinstance(result, HttpError):
                return result.kind == "unsent" or (
                    result.kind in ("timeout", "lost") and method != "POST"
                )
            if (retry_after(result.headers) or 0) > RETRY.longest:
                return False
            if method == "POST":
                return result.status == 429
            return result.status in _PASSING or (result.ok and not isinstance(result.data, Mapping))

        try:
            answer = await self._http.send(
                method, f"{self.base_url}{PREFIX}{path}", query=query, body=body, again=again
            )
        except HttpError as error:
            if error.kind == "unsent":
                raise ProviderError(
                    f"{self._title} cannot be reached", why=error.why, fix="Check your network."
                ) from None
            if error.kind in ("redirect", "address"):
                raise ProviderError(f"{self._title} {error.why}") from None
            late = error.kind == "timeout"
            what = (
                f"it did not answer within {self._http.timeout:g} s"
                if late
                else "its answer was lost"
            )
            raise self._failure(method, what, None if late else error.why) from None
        if answer.ok:
            if isinstance(answer.data, Mapping):
                return answer.data
            shown = self._http.redact(clean_line(answer.text, 120))
            raise self._failure(
                method, "its answer could not be understood", shown or "it was empty"
            )
        refusal = self._refusal(answer)
        if method == "POST" and answer.status in _UNCLEAR:
            raise self._failure(method, "it failed", refusal.why)
        raise refusal

    def _failure(self, method: str, what: str, why: str | None) -> ProviderError:
        if method == "POST":
            return OutcomeUnknown(
                f"{self._title} may or may not have carried out the request: {what}", why=why
            )
        return ProviderError(f"{self._title}: {what}", why=why)

    def _refusal(self, answer: HttpAnswer) -> ProviderError:
        status = answer.status
        told = self._http.redact(answer.message())
        why = f"{status}: {told}" if told else f"status {status}"
        if status == 401:
            return AuthError(
                f"{self._title} does not accept the API key",
                why=why,
                fix=(
                    "Set PRIME_API_KEY to a valid one: "
                    "https://app.primeintellect.ai/dashboard/tokens"
                ),
            )
        if status == 403:
            return AuthError(
                f"{self._title} does not let this key do that",
                why=why,
                fix=(
                    "The key needs the scopes Availability (read) and Instances (read and write), "
                    "and SSH keys to register one."
                ),
            )
        if status == 402:
            return InsufficientFunds(
                "the wallet is empty",
                why=why,
                fix="Top it up: https://app.primeintellect.ai/dashboard/billing",
            )
        if status == 429:
            return PrimeApiError(
                f"{self._title} limits the rate of requests",
                status=status,
                told=told,
                fix="Try again in a minute.",
            )
        if status >= 500:
            return PrimeApiError(
                f"{self._title} failed", status=status, told=told, fix="Try again later."
            )
        return PrimeApiError(f"{self._title} refused the request", status=status, told=told)
