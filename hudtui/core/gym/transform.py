"""Transforms: the lambdas of a configuration, in a small and total subset of Python.

A transform is never evaluated as Python. It is parsed, checked against what is allowed, compiled once into closures and run under
a budget of steps, time, memory and sizes. Within the subset its results are Python's own, types included.
"""

from __future__ import annotations

import ast
import threading
import warnings
from functools import lru_cache
from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.gym.sandbox import BudgetExceededError, check_text, size_of
from hudtui.core.gym.transform_base import Closure, SubsetError
from hudtui.core.gym.transform_compiler import Compiler
from hudtui.core.gym.transform_functions import FUNCTIONS
from hudtui.core.text import clean_line

MAX_SOURCE = 10_000
"""Characters of a transform."""

_parsing = threading.Lock()


class TransformError(InputError):
    """A transform that is outside the subset, or no lambda at all.

    Attributes:
        what: What is wrong, without the place.
        column: Where, in characters from 1 from the beginning of the transform's text.
    """

    def __init__(self, what: str, column: int = 1) -> None:
        super().__init__(what)
        self.column = column


class TransformFailure(Exception):
    """A run that failed or ran out of its budget; the text says why."""


class Transform:
    """A compiled transform. Immutable, and safe to call from several threads.

    Attributes:
        source: The text it was compiled from.
        parameters: The names of the lambda's parameters, one or two.
    """

    __slots__ = ("_body", "_default", "_padding", "parameters", "source")

    def __init__(self, source: str, parameters: tuple[str, ...], default: tuple[Any, ...], body: Closure, size: int) -> None:
        self.source = source
        self.parameters = parameters
        self._default = default
        self._body = body
        self._padding = [None] * (size - 1 - len(parameters))

    def __repr__(self) -> str:
        return f"Transform({self.source!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transform) and other.source == self.source

    def __hash__(self) -> int:
        return hash(self.source)

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_transform, (self.source,)

    def wants_context(self, use_context: bool = False) -> bool:
        """Whether a run is given the arguments of the action.

        The signature decides: a second parameter is given them. One that has a default of its own is given them only when the
        configuration says `use_context`.
        """
        return len(self.parameters) == 2 and (use_context or not self._default)

    def __call__(self, value: Any, context: dict[str, Any] | None = None) -> Any:
        """Run it.

        Args:
            value: The argument.
            context: All arguments of the action. A transform with a second parameter sees them there; None leaves that parameter
                to its default, or empty.

        Raises:
            TransformFailure: The run failed or exceeded a limit.
        """
        try:
            if type(value) is str:
                check_text(value)
            else:
                size_of(value)
            if context and len(self.parameters) == 2:
                size_of(context)
            return self.run(value, context)
        except TransformFailure:
            raise
        except Exception as error:
            raise TransformFailure(_reason(error)) from None

    def body(self, use_context: bool) -> Closure:
        """The transform without its guard, for whoever prepares runs of it and handles what it raises, whatever that is.

        Args:
            use_context: As in `wants_context`.

        Returns:
            A function of a frame: a list of None, the value and, when the context is wanted, the context.
        """
        if not self._padding and (len(self.parameters) == 1 or self.wants_context(use_context)):
            return self._body
        rest = [] if len(self.parameters) == 1 or self.wants_context(use_context) else [*self._default]
        tail = [*rest, *self._padding]
        inner = self._body
        return lambda frame: inner(frame + tail)

    def run(self, value: Any, context: dict[str, Any] | None = None) -> Any:
        """As calling it, for values that are known to be small.

        Raises:
            TransformFailure: The run failed or exceeded a limit.
        """
        frame = [None, value]
        if len(self.parameters) == 2:
            frame.append(context if context is not None else self._default[0] if self._default else {})
        frame += self._padding
        try:
            return self._body(frame)
        except Exception as error:
            raise TransformFailure(_reason(error)) from None


def _reason(error: Exception) -> str:
    if isinstance(error, BudgetExceededError):
        return str(error)
    if isinstance(error, RecursionError):
        return "a value is nested too deeply"
    text = clean_line(str(error), 200)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@lru_cache(maxsize=4096)
def compile_transform(source: str) -> Transform:
    """Compile a transform. The name of an allowed function (`int`) is short for a lambda that calls it.

    Args:
        source: `lambda x: ...` or `lambda x, ctx: ...`.

    Raises:
        TransformError: It does not parse, or is outside the subset; with the column.
    """
    if len(source) > MAX_SOURCE:
        raise TransformError(f"it is longer than {MAX_SOURCE:,} characters", MAX_SOURCE + 1)
    tree = _parsed(source)
    if isinstance(tree, ast.Name) and tree.id in FUNCTIONS:
        name = tree.id
        function = FUNCTIONS[name]
        return Transform(source, ("x",), (), lambda frame: function(frame, frame[1]), 2)
    if not isinstance(tree, ast.Lambda):
        raise TransformError("a transform is a lambda: `lambda x: ...`", len(source) - len(source.lstrip()) + 1)
    try:
        names, default = _signature(tree)
        compiler = Compiler(names)
        body = compiler.compile(tree.body)
    except SubsetError as refused:
        raise TransformError(refused.message, _column(source, refused.node)) from None
    except RecursionError:
        raise TransformError("it is nested too deeply") from None
    return Transform(source, tuple(names), default, body, compiler.size)


def _parsed(source: str) -> ast.expr:
    stripped = source.lstrip(" \t\n\r")
    offset = len(source) - len(stripped)
    try:
        # Parsing warns about odd spellings such as "\d". Whoever runs Python with warnings as errors must not see them as such.
        with _parsing, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(stripped.rstrip(), mode="eval").body
    except SyntaxError as error:
        column = len(source) + 1  # where the end came too early
        if error.lineno and error.offset:
            lines = stripped.split("\n")
            line = min(error.lineno, len(lines))
            column = offset + sum(len(text) + 1 for text in lines[: line - 1]) + min(error.offset, len(lines[line - 1]) + 1)
        raise TransformError(f"this is not Python: {error.msg}", column) from None
    except (RecursionError, MemoryError):
        raise TransformError("it is nested too deeply", offset + 1) from None
    except ValueError as error:  # a null character, a lone surrogate, a number beyond Python's digit limit
        raise TransformError(f"this is not Python: {clean_line(str(error), 100)}", offset + 1) from None
    return tree


def _column(source: str, node: ast.AST) -> int:
    stripped = source.lstrip(" \t\n\r")
    if isinstance(node, ast.Attribute):  # the attribute itself rather than the value before the dot
        end = _offset(stripped, node.end_lineno or 1, node.end_col_offset or 0)
        start = stripped.rfind(".", 0, end) + 1
    else:
        start = _offset(stripped, getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
    return len(source) - len(stripped) + start + 1


def _offset(text: str, line: int, byte: int) -> int:
    """The place of a syntax tree, in characters from the beginning."""
    lines = text.split("\n")
    before = sum(len(part) + 1 for part in lines[: line - 1])
    inside = lines[line - 1].encode()[: max(byte, 0)].decode(errors="ignore") if line <= len(lines) else ""
    return before + len(inside)


def _signature(tree: ast.Lambda) -> tuple[list[str], tuple[Any, ...]]:
    arguments = tree.args
    for extra in (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs):
        if extra is not None:
            raise SubsetError("a transform has one or two plain parameters: the value, and all arguments", extra)
    parameters = [*arguments.posonlyargs, *arguments.args]
    for parameter in parameters:
        if "__" in parameter.arg:
            raise SubsetError(f"the name {parameter.arg} is not allowed", parameter)
    if not parameters:
        raise SubsetError("a transform has a parameter: the value", tree)
    if len(parameters) > 2:
        raise SubsetError("a transform has one or two parameters: the value, and all arguments", parameters[2])
    if len(parameters) == 2 and parameters[0].arg == parameters[1].arg:
        raise SubsetError(f"two parameters are called {parameters[1].arg}", parameters[1])
    defaults = [_constant(default) for default in arguments.defaults]
    return [parameter.arg for parameter in parameters], tuple(defaults[-1:]) if len(parameters) == 2 else ()


def _constant(node: ast.expr) -> Any:
    """The value of a default. It sees no names, so that it is the same in every run."""
    compiler = Compiler([])
    closure = compiler.compile(node)
    try:
        return closure([None] * compiler.size)
    except Exception as error:
        raise SubsetError(f"this default fails: {_reason(error)}", node) from None
