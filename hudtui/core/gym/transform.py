"""Transforms: the lambdas of a configuration, in a small and total subset of Python.

A transform is parsed, and a new syntax tree is built from the parts of it that are allowed: every
operator, call, method, subscript, display and loop becomes a call of a guard of `sandbox`, with the
run's budget as its first argument. Only that tree is compiled, and it runs without builtins. What
is left of Python in it is names, constants, conditions, comparisons, unary signs and
comprehensions, so that within the subset a result is Python's own, types included. All of it rests
on `ast`; nothing depends on the bytecode of one version of Python.

The guards go by names that no source text can hold (`$Add`, `$int`), and the tree has no attributes
at all.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

from hudtui.core.errors import InputError
from hudtui.core.gym import sandbox
from hudtui.core.gym.sandbox import Budget, BudgetExceededError
from hudtui.core.text import clean_line

MAX_SOURCE = 10_000
"""Characters of a transform."""
MAX_DEPTH = 100
"""Levels of nesting of a transform's expressions."""

_BUDGET = "$budget"
_GLOBALS: dict[str, Any] = {
    "__builtins__": {},
    "$UNPACK": sandbox.UNPACK,
    **{f"${name}": guard for name, guard in sandbox.GUARDS.items()},
    **{f"$type {name}": kind for name, kind in sandbox.TYPES.items()},
}
"""All that a compiled transform can reach."""

_compiling = threading.Lock()


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
    """A run failed or exceeded its budget; the message says why."""


class Transform:
    """A compiled transform. Immutable, and safe to call from several threads.

    Attributes:
        source: The text it was compiled from.
        parameters: The names of the lambda's parameters, one or two.
    """

    __slots__ = ("_default", "_function", "parameters", "source")

    def __init__(self, source: str, tree: ast.Lambda) -> None:
        self.source = source
        self.parameters, default = _signature(tree)
        self._function = _compile(self.parameters, tree.body)
        self._default = () if default is None else (_value_of(default),)

    def __repr__(self) -> str:
        return f"Transform({self.source!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transform) and other.source == self.source

    def __hash__(self) -> int:
        return hash(self.source)

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_transform, (self.source,)

    def wants_context(self, use_context: bool = False) -> bool:
        """True if a run is given the arguments of the action.

        The signature decides: a second parameter is given them. A second parameter with a default
        is given them only when the configuration says `use_context`.
        """
        return len(self.parameters) == 2 and (use_context or not self._default)

    def __call__(self, value: Any, context: dict[str, Any] | None = None) -> Any:
        """Run the transform.

        Args:
            value: The argument.
            context: All arguments of the action, for a second parameter; None leaves that parameter
                to its default, or empty.

        Raises:
            TransformFailure: The run failed or exceeded a limit.
        """
        try:
            sandbox.check_argument(value)
            if len(self.parameters) == 1:
                return self._function(Budget(), value)
            if context is None:
                context = self._default[0] if self._default else {}
            else:
                for argument in context.values():
                    if argument is not value:
                        sandbox.check_argument(argument)
            return self._function(Budget(), value, context)
        except Exception as error:
            raise TransformFailure(_reason(error)) from None


def _reason(error: Exception) -> str:
    if isinstance(error, BudgetExceededError):
        return str(error)
    if isinstance(error, RecursionError):
        return "a value is nested too deeply"
    text = clean_line(str(error), 200)
    if isinstance(error, NameError) and (name := re.search(r"'(\w+)'", text)) is not None:
        return f"NameError: {name[1]} has no value yet"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@lru_cache(maxsize=4096)
def compile_transform(source: str) -> Transform:
    """Compile a transform.

    The name of an allowed function (`int`) is short for a lambda that calls it.

    Args:
        source: `lambda x: ...` or `lambda x, ctx: ...`.

    Raises:
        TransformError: It does not parse, or is outside the subset; with the column.
    """
    if len(source) > MAX_SOURCE:
        raise TransformError(f"it is longer than {MAX_SOURCE:,} characters", MAX_SOURCE + 1)
    tree = _parsed(source)
    if isinstance(tree, ast.Name) and tree.id in sandbox.FUNCTIONS:
        tree = _parsed(f"lambda x: {tree.id}(x)")
    if not isinstance(tree, ast.Lambda):
        raise TransformError(
            "a transform is a lambda: `lambda x: ...`", len(source) - len(source.lstrip()) + 1
        )
    try:
        return Transform(source, tree)
    except _NotAllowedError as error:
        raise TransformError(str(error), _column(source, error.node)) from None
    except RecursionError:
        raise TransformError("it is nested too deeply") from None


# Reading the source


@contextmanager
def _silently() -> Iterator[None]:
    # Python warns about odd spellings such as "\d". A program that runs with warnings as errors
    # must not see them as such.
    with _compiling, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _parsed(source: str) -> ast.expr:
    stripped = source.lstrip(" \t\n\r")
    offset = len(source) - len(stripped)
    try:
        with _silently():
            return ast.parse(stripped.rstrip(), mode="eval").body
    except SyntaxError as error:
        column = len(source) + 1  # where the end came too early
        if error.lineno and error.offset:
            lines = stripped.split("\n")
            line = min(error.lineno, len(lines))
            column = (
                offset
                + sum(len(text) + 1 for text in lines[: line - 1])
                + min(error.offset, len(lines[line - 1]) + 1)
            )
        raise TransformError(f"this is not Python: {error.msg}", column) from None
    except (RecursionError, MemoryError):
        raise TransformError("it is nested too deeply", offset + 1) from None
    except (
        ValueError
    ) as error:  # a null character, a lone surrogate, a number beyond Python's digit limit
        raise TransformError(
            f"this is not Python: {clean_line(str(error), 100)}", offset + 1
        ) from None


def _column(source: str, node: ast.AST) -> int:
    stripped = source.lstrip(" \t\n\r")
    if isinstance(node, ast.Attribute):  # the attribute itself rather than the value before the dot
        end = _offset(stripped, node.end_lineno or 1, node.end_col_offset or 0)
        start = stripped.rfind(".", 0, end) + 1
    else:
        start = _offset(stripped, getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
    return len(source) - len(stripped) + start + 1


def _offset(text: str, line: int, byte: int) -> int:
    """The place of a syntax node, in characters from the beginning."""
    lines = text.split("\n")
    before = sum(len(part) + 1 for part in lines[: line - 1])
    inside = (
        lines[line - 1].encode()[: max(byte, 0)].decode(errors="ignore")
        if line <= len(lines)
        else ""
    )
    return before + len(inside)


class _NotAllowedError(Exception):
    """Part of a transform is outside the subset."""

    def __init__(self, message: str, node: ast.AST) -> None:
        super().__init__(message)
        self.node = node


def _signature(tree: ast.Lambda) -> tuple[tuple[str, ...], ast.expr | None]:
    """The names of a lambda's parameters, and the default of the second one."""
    arguments = tree.args
    for extra in (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs):
        if extra is not None:
            raise _NotAllowedError(
                "a transform has one or two plain parameters: the value, and all arguments", extra
            )
    parameters = [*arguments.posonlyargs, *arguments.args]
    for parameter in parameters:
        _check_name(parameter.arg, parameter)
    if not parameters:
        raise _NotAllowedError("a transform has a parameter: the value", tree)
    if len(parameters) > 2:
        raise _NotAllowedError(
            "a transform has one or two parameters: the value, and all arguments", parameters[2]
        )
    names = tuple(parameter.arg for parameter in parameters)
    if len(set(names)) < len(names):
        raise _NotAllowedError(f"two parameters are called {names[1]}", parameters[1])
    for default in arguments.defaults:
        _value_of(default)
    return names, arguments.defaults[-1] if len(names) == 2 and arguments.defaults else None


def _value_of(default: ast.expr) -> Any:
    """The value of a default. It sees no names, so that it is the same in every run."""
    try:
        return _compile((), default)(Budget())
    except (_NotAllowedError, RecursionError):
        raise
    except Exception as error:
        raise _NotAllowedError(f"this default fails: {_reason(error)}", default) from None


def _check_name(name: str, node: ast.AST) -> None:
    if "__" in name:
        raise _NotAllowedError(f"the name {name} is not allowed", node)


# Rewriting and compiling


def _compile(parameters: tuple[str, ...], body: ast.expr) -> Any:
    """Compile the body of a lambda to a function of a budget and of the parameters' values."""
    rewritten = _Rewriter(parameters).visit(body)
    arguments = [_new(ast.arg, name) for name in (_BUDGET, *parameters)]
    signature = ast.arguments(
        posonlyargs=[], args=arguments, kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    function = _new(ast.Lambda, signature, rewritten)
    with _silently():
        code = compile(ast.Expression(function), "<transform>", "eval")
    return eval(code, _GLOBALS)  # noqa: S307 - the code holds nothing but what _Rewriter puts together


_REFUSED: dict[type[ast.AST], str] = {
    ast.Lambda: "a lambda inside a lambda",
    ast.NamedExpr: "an assignment (:=)",
    ast.Starred: "a star-argument",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Attribute: "an attribute that is not called",
}


E = TypeVar("E", bound=ast.AST)


def _new(kind: Callable[..., E], *parts: Any) -> E:
    return kind(*parts, lineno=1, col_offset=0)


@lru_cache
def _name(identifier: str) -> ast.expr:
    name: ast.expr = _new(ast.Name, identifier, ast.Load())
    return name


def _call(guard: str, *arguments: ast.expr, keywords: Sequence[ast.keyword] = ()) -> ast.expr:
    call: ast.expr = _new(ast.Call, _name(f"${guard}"), list(arguments), list(keywords))
    return call


def _guarded(guard: str, *arguments: ast.expr, keywords: Sequence[ast.keyword] = ()) -> ast.expr:
    return _call(guard, _name(_BUDGET), *arguments, keywords=keywords)


class _Rewriter:
    """Builds the tree that is compiled from the tree that was parsed. Each node of it is made here.

    Attributes:
        scopes: Names of the lambda and of the comprehensions around the current place.
        nodes: Expressions seen so far: the steps of one pass.
        depth: Expressions around the current one.
    """

    def __init__(self, parameters: tuple[str, ...]) -> None:
        self.scopes: list[set[str]] = [set(parameters)]
        self.nodes = 0
        self.depth = 0

    def visit(self, node: ast.expr, *, consumed: bool = False) -> ast.expr:
        """Rewrite an expression.

        Args:
            node: The expression.
            consumed: Its value is used up where it stands, so that it may be a generator.

        Raises:
            _NotAllowedError: It is, or holds, something that is not allowed.
        """
        self.nodes += 1
        if self.depth >= MAX_DEPTH:
            raise _NotAllowedError(f"it is nested deeper than {MAX_DEPTH} levels", node)
        self.depth += 1
        try:
            if isinstance(node, ast.GeneratorExp) and not consumed:
                raise _NotAllowedError(
                    "a generator is only allowed as the argument of a function that uses it up; "
                    "use [...]",
                    node,
                )
            if isinstance(node, ast.Call):
                return self.call(node, consumed)
            method = getattr(self, f"visit_{type(node).__name__}", None)
            if method is None:
                self.refuse(node)
            rewritten: ast.expr = method(node)
            return rewritten
        finally:
            self.depth -= 1

    def refuse(self, node: ast.AST) -> NoReturn:
        raise _NotAllowedError(
            f"{_REFUSED.get(type(node), type(node).__name__)} is not allowed", node
        )

    def known(self, name: str) -> bool:
        """True if a name is one of the lambda's own."""
        return any(name in scope for scope in self.scopes)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        value = node.value
        if value is not None and type(value) not in (str, int, float, bool):
            raise _NotAllowedError(f"a literal of type {type(value).__name__} is not allowed", node)
        if type(value) is int and value.bit_length() > sandbox.MAX_BITS:
            raise _NotAllowedError(f"a number of more than {sandbox.MAX_BITS:,} bits", node)
        return _new(ast.Constant, value)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = node.id
        _check_name(name, node)
        if not self.known(name):
            if name in sandbox.FUNCTIONS or name == "isinstance":
                raise _NotAllowedError(f"{name} can only be called", node)
            raise _NotAllowedError(f"the name {name} is not known here", node)
        return _name(name)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        operation = type(node.op).__name__
        if operation not in sandbox.GUARDS:
            raise _NotAllowedError("the operator @ is not allowed", node)
        return _guarded(operation, self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        return (
            _guarded("Invert", operand)
            if isinstance(node.op, ast.Invert)
            else _new(ast.UnaryOp, node.op, operand)
        )

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return _new(ast.BoolOp, node.op, [self.visit(value) for value in node.values])

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return _new(
            ast.IfExp, self.visit(node.test), self.visit(node.body), self.visit(node.orelse)
        )

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        operands = [node.left, *node.comparators]
        rewritten = [self.visit(operand) for operand in operands]
        for index, sign in enumerate(node.ops, 1):
            if isinstance(sign, ast.Is | ast.IsNot) and not any(
                map(_is_singleton, operands[index - 1 : index + 1])
            ):
                raise _NotAllowedError("`is` only compares with None, True or False; use ==", node)
            searched = isinstance(sign, ast.In | ast.NotIn)
            if not _is_constant(operands[index]):
                rewritten[index] = _guarded(
                    "container" if searched else "operand", rewritten[index]
                )
            if searched and index == 1 and not _is_constant(node.left):
                rewritten[0] = _guarded("operand", rewritten[0])
        return _new(ast.Compare, rewritten[0], node.ops, rewritten[1:])

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        value = self.visit(node.value)
        if not isinstance(node.slice, ast.Slice):
            return _guarded("item", value, self.visit(node.slice))
        bounds = (node.slice.lower, node.slice.upper, node.slice.step)
        return _guarded(
            "slice",
            value,
            *(_new(ast.Constant, None) if bound is None else self.visit(bound) for bound in bounds),
        )

    def visit_List(self, node: ast.List | ast.Tuple | ast.Set) -> ast.expr:
        kind = type(node).__name__.lower()
        if any(isinstance(part, ast.Starred) for part in node.elts):
            return _guarded("unpack", _new(ast.Constant, kind), *map(self._unpacked, node.elts))
        parts = [self.visit(part) for part in node.elts]
        if _is_constant(node):
            return _new(ast.Set, parts) if kind == "set" else _new(type(node), parts, ast.Load())
        return (
            _guarded("Set", _tuple(*parts))
            if kind == "set"
            else _guarded("built", _new(type(node), parts, ast.Load()))
        )

    visit_Tuple = visit_Set = visit_List

    def _unpacked(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Starred):
            return _guarded("materialise", self.visit(node.value, consumed=True))
        return _tuple(self.visit(node))

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        if all(key is not None and _is_constant(key) for key in node.keys) and all(
            map(_is_constant, node.values)
        ):
            keys = [self.visit(key) for key in node.keys if key is not None]
            return _new(ast.Dict, keys, [self.visit(value) for value in node.values])
        parts: list[ast.expr] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                parts += (_name("$UNPACK"), _call("mapping", self.visit(value)))
            else:
                parts += (self.visit(key), self.visit(value))
        return _guarded("Dict", *parts)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return _guarded("join", *map(self.visit, node.values))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        value = self.visit(node.value)
        conversion = _new(ast.Constant, "" if node.conversion == -1 else chr(node.conversion))
        if node.format_spec is None:
            return _guarded("format", value, conversion, _new(ast.Constant, ""))
        if isinstance(node.format_spec, ast.JoinedStr):
            literals = [
                str(part.value)
                for part in node.format_spec.values
                if isinstance(part, ast.Constant)
            ]
            if len(literals) == len(node.format_spec.values):
                try:
                    sandbox.check_spec("".join(literals))
                except (ValueError, BudgetExceededError) as error:
                    raise _NotAllowedError(str(error), node) from None
        return _guarded("format", value, conversion, self.visit(node.format_spec))

    # Calls

    def call(self, node: ast.Call, consumed: bool) -> ast.expr:
        """Rewrite a call; `consumed` as for `visit`."""
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self.refuse(argument)
        seen = set()
        for keyword in node.keywords:
            if keyword.arg is None:
                raise _NotAllowedError("** is not allowed", keyword.value)
            if keyword.arg in seen:
                raise _NotAllowedError(f"the argument {keyword.arg} is given twice", keyword.value)
            seen.add(keyword.arg)
        if isinstance(node.func, ast.Attribute):
            return self._method_call(node, node.func)
        if not isinstance(node.func, ast.Name):
            raise _NotAllowedError(
                "only the allowed functions and methods can be called", node.func
            )
        name = node.func.id
        if self.known(name):
            raise _NotAllowedError(f"{name} is a value here and cannot be called", node.func)
        if name == "isinstance":
            return self._isinstance(node)
        if name not in sandbox.FUNCTIONS:
            raise _NotAllowedError(f"the function {name} is not allowed", node.func)
        if name != "dict":
            self._check_keywords(name, node)
        uses_up = name in sandbox.CONSUMES or (name in sandbox.PASSES_ON and consumed)
        arguments, keywords = self._arguments(node, uses_up)
        make = _call if name in sandbox.UNGUARDED else _guarded
        return make(name, *arguments, keywords=keywords)

    def _method_call(self, node: ast.Call, method: ast.Attribute) -> ast.expr:
        name = method.attr
        if f".{name}" not in sandbox.GUARDS:
            raise _NotAllowedError(f"the attribute {name} is not allowed", method)
        self._check_keywords(name, node)
        value = self.visit(method.value)
        arguments, keywords = self._arguments(node, name in sandbox.CONSUMES)
        given = [*arguments, *(keyword.value for keyword in keywords)]
        if not all(isinstance(argument, ast.Constant) for argument in given):
            # Python finds the method before it looks at the arguments.
            value = _call("receiver", _new(ast.Constant, name), value)
        return _guarded(f".{name}", value, *arguments, keywords=keywords)

    def _arguments(
        self, node: ast.Call, consumed: bool
    ) -> tuple[list[ast.expr], list[ast.keyword]]:
        arguments = [self.visit(argument, consumed=consumed) for argument in node.args]
        return arguments, [
            _new(ast.keyword, keyword.arg, self.visit(keyword.value)) for keyword in node.keywords
        ]

    def _check_keywords(self, name: str, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg not in sandbox.KEYWORDS.get(name, ()):
                raise _NotAllowedError(
                    f"{name} takes no argument {keyword.arg} here", keyword.value
                )

    def _isinstance(self, node: ast.Call) -> ast.expr:
        if len(node.args) != 2 or node.keywords:
            raise _NotAllowedError("isinstance takes a value and a type", node)
        return _call(
            "isinstance", self.visit(node.args[0]), _tuple(*map(_name, self._types(node.args[1])))
        )

    def _types(self, node: ast.expr) -> list[str]:
        """The guards' names of the types that the second argument of `isinstance` lists."""
        self.nodes += 1
        if isinstance(node, ast.Name) and not self.known(node.id) and node.id in sandbox.TYPES:
            return [f"$type {node.id}"]
        parts: list[ast.expr] = []
        if isinstance(node, ast.Tuple):
            parts = node.elts
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            parts = [node.left, node.right]
            if any(isinstance(part, ast.Tuple) for part in parts):
                raise _NotAllowedError("types are combined as `a | b` or as (a, b)", node)
        if (parts or isinstance(node, ast.Tuple)) and self.depth < MAX_DEPTH:
            self.depth += 1
            names = [name for part in parts for name in self._types(part)]
            self.depth -= 1
            return names
        raise _NotAllowedError(f"isinstance only asks for {', '.join(sandbox.TYPES)}", node)

    # Comprehensions

    def visit_ListComp(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> ast.expr:
        """Rewrite a comprehension.

        Python's own scopes hold for its names; each source is charged for the items it gives.
        """
        first = self.visit(node.generators[0].iter, consumed=True)
        names: set[str] = set()
        for generator in node.generators:
            if generator.is_async:
                raise _NotAllowedError("an async comprehension is not allowed", generator.target)
            self._collect_targets(generator.target, names)
        self.scopes.append(names)
        loops: list[tuple[ast.expr, ast.expr, list[ast.expr], int]] = []
        for index, generator in enumerate(node.generators):
            source = self.visit(generator.iter, consumed=True) if index else first
            before = self.nodes
            conditions = [self.visit(condition) for condition in generator.ifs]
            loops.append((_target(generator.target), source, conditions, self.nodes - before + 1))
        before = self.nodes
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        results = [self.visit(part) for part in parts]
        self.scopes.pop()
        target, source, conditions, steps = loops[-1]
        loops[-1] = (target, source, conditions, steps + self.nodes - before)
        generators = [
            ast.comprehension(
                target, _guarded("loop", _new(ast.Constant, steps), source), conditions, 0
            )
            for target, source, conditions, steps in loops
        ]
        if isinstance(node, ast.GeneratorExp):
            return _new(ast.GeneratorExp, *results, generators)
        if isinstance(node, ast.ListComp):
            return _guarded("built", _new(ast.ListComp, *results, generators))
        # What Python would hash one by one is gathered, and its hashes are looked at first.
        members = _new(ast.GeneratorExp, _guarded("hashed", *results), generators)
        return _guarded("Set" if isinstance(node, ast.SetComp) else "Pairs", members)

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def _collect_targets(self, target: ast.expr, names: set[str]) -> None:
        self.nodes += 1
        if isinstance(target, ast.Name):
            _check_name(target.id, target)
            names.add(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._collect_targets(part, names)
        elif isinstance(target, ast.Starred):
            raise _NotAllowedError("a starred target is not allowed", target)
        else:
            raise _NotAllowedError("a comprehension can only assign to names", target)


def _target(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return _new(ast.Name, target.id, ast.Store())
    assert isinstance(target, ast.Tuple | ast.List)
    return _new(ast.Tuple, [_target(part) for part in target.elts], ast.Store())


def _tuple(*parts: ast.expr) -> ast.expr:
    return _new(ast.Tuple, list(parts), ast.Load())


def _is_singleton(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (
        node.value is None or node.value is True or node.value is False
    )


def _is_constant(node: ast.expr) -> bool:
    """Return whether an expression is a constant, a signed one, or a collection of those.

    A collection is a list, a tuple or a set.
    """
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.UAdd) and isinstance(node.operand, ast.Constant)
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.List | ast.Tuple | ast.Set)
        and all(
            isinstance(part, ast.Constant | ast.UnaryOp) and _is_constant(part)
            for part in node.elts
        )
    )
