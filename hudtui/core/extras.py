"""Packages that only an extra of hudtui brings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def from_extra(extra: str, module: str) -> Iterator[None]:
    """Let an import within say which extra brings the module, when the module is not installed.

    Args:
        extra: The extra, such as `verifiers`.
        module: The module that it brings.

    Raises:
        ModuleNotFoundError: The module, or another one, is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        hint = (
            f"No module named {module!r}, which an extra of hudtui brings: pip install "
            f"'hudtui[{extra}]'"
        )
        raise ModuleNotFoundError(hint, name=module) from None
