"""Requests that go wrong on purpose, and the record of all that came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

KINDS = ("refuse", "reset_before", "reset_after", "status", "html503", "errors422", "timeout", "malformed", "slow")
"""How a request can fail.

- `refuse`: its connection is dropped before it is handled, and the port refuses connections for `seconds`;
- `reset_before`, `reset_after`: the connection is reset before, or after, the request was carried out;
- `status`: this status with a `detail` in JSON, nothing carried out; `html503` and `errors422` are its other forms;
- `timeout`: no answer for `seconds`, nothing carried out, then the connection closes;
- `malformed`: carried out, and the answer stops in the middle of its JSON;
- `slow`: carried out, and answered after `seconds`.
"""

DETAILS: Mapping[int, str] = {
    400: "Missing field: simulated",
    401: "Could not validate credentials",
    402: "Insufficient balance",
    403: "Insufficient permissions",
    404: "Not found",
    409: "Conflict",
    429: "Too many requests",
    500: "Internal server error",
    502: "Bad gateway",
    503: "Service unavailable",
    504: "Gateway timeout",
}


@dataclass(frozen=True)
class Fault:
    """The next `times` requests that fit go wrong.

    `path` is a glob over the path in its canonical form (`/api/v1/pods/`), `method` a method or `*`.
    """

    method: str
    path: str
    kind: str
    times: int = 1
    status: int = 500
    detail: str | None = None
    retry_after: float | None = None
    """Seconds of a Retry-After header."""
    seconds: float = 30.0
    """Real seconds, for `refuse`, `timeout` and `slow`."""
    after: int = 0
    """Requests that fit and are let through first."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of fault {self.kind!r}; there are: {', '.join(KINDS)}")
        if self.times < 1 or self.seconds < 0 or self.after < 0 or not 400 <= self.status <= 599:
            raise ValueError("a fault needs times >= 1, seconds >= 0, after >= 0 and a status from 400 to 599")

    def fits(self, method: str, path: str) -> bool:
        """Whether it is about such a request."""
        return self.method in ("*", method) and fnmatchcase(path, self.path)

    def body(self) -> Any:
        """The JSON of a failing answer."""
        if self.kind == "errors422":
            return {"errors": [{"param": "pod.socket", "details": self.detail or "Input should be PCIe"}]}
        if self.status == 422:
            return {"detail": [{"loc": ["body", "pod", "socket"], "msg": self.detail or "Input should be PCIe", "type": "enum"}]}
        return {"detail": self.detail or DETAILS.get(self.status, "Simulated failure")}


class FaultList:
    """The faults that are still to come, oldest first."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def add(self, *faults: Fault) -> None:
        """Let these happen after those already waiting."""
        self._waiting.extend(faults)

    def clear(self) -> None:
        """Let nothing go wrong any more."""
        self._waiting.clear()

    def waiting(self) -> tuple[Fault, ...]:
        """What has not happened yet."""
        return tuple(self._waiting)

    def take(self, method: str, path: str) -> Fault | None:
        """The fault of this request, counted down; None when it shall go well."""
        for index, fault in enumerate(self._waiting):
            if not fault.fits(method, path):
                continue
            if fault.after:
                self._waiting[index] = replace(fault, after=fault.after - 1)
                continue
            if fault.times == 1:
                del self._waiting[index]
            else:
                self._waiting[index] = replace(fault, times=fault.times - 1)
            return fault
        return None


@dataclass(frozen=True)
class RecordedRequest:
    """A request that came, as it came. Its headers, and with them the key, are not kept."""

    at: float
    """Simulated seconds."""
    method: str
    path: str
    query: Mapping[str, Sequence[str]]
    body: Any
    """Parsed JSON; text that is none; None without a body."""
    status: int | None = None
    """None when no answer was sent."""
    fault: str | None = None
    handled: bool = False
    """It was carried out, whatever the client was told."""

    def to_json(self) -> dict[str, Any]:
        """For the HTTP control."""
        return asdict(self)
