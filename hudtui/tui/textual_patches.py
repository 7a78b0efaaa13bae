"""Changes to Textual itself that save time and change nothing else. `hudtui.tui.screen` imports this module."""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType, MethodType
from typing import Any

from textual import _callback
from textual.css.model import RuleSet

RuleSet.__hash__ = object.__hash__  # type: ignore[method-assign]
"""As Textual's own, but not in Python: it is asked for every rule of the style sheet and every widget."""

_signature_length = _callback._count_parameters


def _count_parameters(func: Callable[..., Any]) -> int:
    """Return the number of parameters of a callable, for most functions without `inspect.signature`.

    Textual counts them again for each callback that it makes, a dozen times a key.
    """
    function = func.__func__ if isinstance(func, MethodType) else func
    if not isinstance(function, FunctionType) or {"__wrapped__", "__signature__"} & function.__dict__.keys():
        return _signature_length(func)
    code = function.__code__
    more = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    bound = function is not func and code.co_argcount > 0
    return code.co_argcount + code.co_kwonlyargcount + more - bound


_callback._count_parameters = _count_parameters
