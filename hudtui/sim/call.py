"""A request as a handler sees it, an answer as it gives one, and what all handlers share: pages and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hudtui.sim.account import SimAccount
from hudtui.sim.order import as_errors


@dataclass(frozen=True)
class SimResponse:
    """JSON and its status."""

    body: Any
    status: int = 200


@dataclass(frozen=True)
class SimRequest:
    """One request to a handler."""

    world: SimAccount
    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: Any
    origin: str
    """Where the simulator itself is reached."""

    def one(self, name: str) -> str | None:
        """The last value of a query parameter."""
        values = self.query.get(name)
        return values[-1] if values else None

    def number(self, name: str, default: int, low: int, high: int | None = None) -> int:
        """A query parameter that counts.

        Raises:
            Refused: It is no number, or outside of its range.
        """
        text = self.one(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            raise refused_query(name, "Input should be a valid integer, unable to parse string as an integer") from None
        if value < low:
            raise refused_query(name, f"Input should be greater than or equal to {low}")
        if high is not None and value > high:
            raise refused_query(name, f"Input should be less than or equal to {high}")
        return value

    def window(self, rows: Sequence[Any]) -> dict[str, Any]:
        """The answer of the paths that page with offset and limit."""
        offset, limit = self.number("offset", 0, 0), self.number("limit", 100, 1, 100)
        return {"data": list(rows[offset : offset + limit]), "total_count": len(rows), "offset": offset, "limit": limit}

    def page(self, rows: Sequence[Any]) -> dict[str, Any]:
        """The answer of the paths that page with page and page_size."""
        page, size = self.number("page", 1, 1), self.number("page_size", 100, 1, 100)
        return {"items": list(rows[(page - 1) * size : page * size]), "totalCount": len(rows)}


class SimRefused(Exception):
    """The request is answered with an error."""

    def __init__(self, answer: SimResponse) -> None:
        super().__init__(answer.status)
        self.answer = answer


def refused(status: int, detail: Any) -> SimRefused:
    """An error in the common form."""
    return SimRefused(SimResponse({"detail": detail}, status))


def refused_query(name: str, text: str) -> SimRefused:
    """422 about a query parameter."""
    return refused(422, [{"loc": ["query", name], "msg": text, "type": "value_error"}])


def refused_body(faults: list[dict[str, Any]], *, documented: bool = False) -> SimRefused:
    """422 about a body: FastAPI's form, or the one that the published schema documents."""
    return SimRefused(SimResponse(as_errors(faults) if documented else {"detail": faults}, 422))
