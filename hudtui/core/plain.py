"""Dataclasses and structs as plain JSON values, and back.

msgspec 0.22 learns a class when it first converts something to it. A second thread that converts to
the same class meanwhile uses what is incomplete, and the process ends with a segmentation fault.
The functions of this module may be called from any thread; a `msgspec.json.Decoder` that a module
makes when it is imported may, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, is_dataclass
from threading import RLock
from typing import Any, TypeVar

from hudtui.core.errors import InputError

T = TypeVar("T")

_LEARNING = RLock()


def convert(data: Any, kind: type[T]) -> T:
    """Return what `msgspec.convert` makes of plain values.

    Raises:
        msgspec.ValidationError: The data does not fit the class.
    """
    import msgspec

    with _LEARNING:
        return msgspec.convert(data, kind)


def decode(data: bytes | str, kind: type[T]) -> T:
    """Return what `msgspec.json.decode` makes of a JSON text.

    Raises:
        msgspec.DecodeError: It is not JSON, or does not fit the class (`msgspec.ValidationError`).
    """
    import msgspec

    with _LEARNING:
        return msgspec.json.decode(data, type=kind)


def to_plain(value: Any, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a dataclass or struct as JSON values, in their order.

    Those named in `without` are left out.
    """
    import msgspec

    if is_dataclass(value):
        names = (field.name for field in fields(value) if field.name not in without)
        return {name: _plain(getattr(value, name)) for name in names}
    plain = msgspec.to_builtins(value)
    return {name: one for name, one in plain.items() if name not in without}


def _plain(value: Any) -> Any:
    """Return JSON values.

    msgspec leaves a default that it was not given out of an instance, and then out of what it makes
    of the instance: the names come from the class.
    """
    import msgspec

    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    return msgspec.to_builtins(value)


def from_plain(data: Any, kind: type[T]) -> T:
    """Read what `to_plain` returned. Unknown names are ignored.

    Raises:
        InputError: The data does not fit the dataclass.
    """
    import msgspec

    try:
        return convert(data, kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(
            f"this is not a {kind.__name__} that this version of hudtui understands", why=str(error)
        ) from None
