"""Secrets in the calls of a task: they are sent as they are written, and kept in traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hudtui.core.masking import looks_secret
from hudtui.core.platform import BUILT_IN
from hudtui.core.settings import known_settings
from hudtui.core.tasks.servers import masked
from hudtui.core.tasks.task import FieldProblem
from hudtui.core.variables import Lookup, variable_names

_SHORTEST = 8
"""Shorter values are more likely placeholders than secrets."""
_ADVICE = "a server gets its secrets by `env` or `headers` of mcp_config"


def known_secrets(lookup: Lookup | None) -> tuple[str, ...]:
    """Return the values of the credentials that hudtui knows by name."""
    if lookup is None:
        return ()
    names = {key.name for one in BUILT_IN for key in known_settings(one) if key.secret}
    values = (lookup(name) for name in sorted(names))
    return tuple(value for value in values if value and len(value) >= _SHORTEST)


def call_secrets(
    place: str, arguments: Mapping[str, Any], secrets: tuple[str, ...]
) -> list[FieldProblem]:
    """Return a warning for each secret in the arguments of a call.

    Args:
        place: Dotted path of the arguments.
        arguments: Data.
        secrets: See `known_secrets`.
    """
    found = []
    for path, text in _texts(place, arguments):
        name = next(filter(looks_secret, variable_names(text)), None)
        secret = next((value for value in secrets if value in text), None)
        message = ""
        if secret is not None:
            message = f"a secret ({masked(secret)}) is written out here, and traces keep it; "
        elif name is not None:
            message = f"the variable {name} gets no value here: it is sent as it is written; "
        if message:
            found.append(FieldProblem(path, message + _ADVICE, "secret", "warning"))
    return found


def _texts(place: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each text in a value with its path."""
    pending: list[tuple[str, Any]] = [(place, value)]
    while pending:
        path, one = pending.pop(0)
        if isinstance(one, str):
            yield path, one
        elif isinstance(one, Mapping):
            pending += [(f"{path}.{name}", item) for name, item in one.items()]
        elif isinstance(one, list):
            pending += [(f"{path}[{number}]", item) for number, item in enumerate(one)]
