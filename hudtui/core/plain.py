"""Dataclasses and structs as plain JSON values, and back.

msgspec 0.22 learns a class when it first converts something to it. A second thread that converts to the same class meanwhile uses
what is incomplete, and the process ends with a segmentation fault. The functions of this module may be called from any thread;
a `msgspec.json.Decoder` that a module makes when it is imported may, too.
"""

from __future__ import annotations

from collections.abc import Collection
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


def to_plain(value: object, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON values, in their order; the fields named in `without` are left out."""
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(value)
    for name in without:
        del plain[name]
    return plain


def from_plain(data: Any, kind: type[T]) -> T:
    """Read what `to_plain` returned. Unknown names are ignored.

    Raises:
        InputError: The data does not fit the dataclass.
    """
    import msgspec

    try:
        return convert(data, kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(f"this is not a {kind.__name__} that this version of hudtui understands", why=str(error)) from None
