"""What the parts of the transform compiler share: names and their places, and the way to refuse."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

from hudtui.core.gym.sandbox import Frame

Closure: TypeAlias = Callable[[Frame], Any]

MAX_DEPTH = 100
"""Levels of nesting of a transform's expressions."""

_REFUSED: dict[type[ast.AST], str] = {
    ast.Lambda: "a lambda inside a lambda",
    ast.NamedExpr: "an assignment (:=)",
    ast.Starred: "a star-argument",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Attribute: "an attribute that is not called",
}


class SubsetError(Exception):
    """Part of a transform is outside the subset.

    Args:
        message: What, and what to do instead where that is known.
        node: Where.
    """

    def __init__(self, message: str, node: ast.AST) -> None:
        super().__init__(message)
        self.message = message
        self.node = node


class CompilerBase(ABC):
    """State of one compilation.

    Attributes:
        names: The lambda's parameters, in order; they take the first places of the frame after the budget.
        scopes: Names of the lambda and of the comprehensions around the current place, with their places in the frame.
        size: Places that a frame needs.
        bound: Places below this one always hold a value.
        nodes: Expressions compiled so far: the steps of one pass.
        depth: Expressions around the current one.
    """

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.scopes: list[dict[str, int]] = [{name: index for index, name in enumerate(names, 1)}]
        self.size = len(names) + 1
        self.bound = len(names) + 1
        self.nodes = 0
        self.depth = 0

    @abstractmethod
    def compile(self, node: ast.expr, *, consumed: bool = False) -> Closure:
        """The closure of an expression.

        Args:
            node: The expression.
            consumed: It is used up where it stands, so that a generator may be it.

        Raises:
            Refused: It is, or holds, something that is not allowed.
        """

    def place(self, name: str) -> int | None:
        """Where in the frame the value of a name is; None for a name that is none of the lambda's own."""
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def sure_place(self, node: ast.expr) -> int | None:
        """Where the value of an expression is, when it is one of the lambda's parameters."""
        place = self.place(node.id) if isinstance(node, ast.Name) else None
        return place if place is not None and place < self.bound else None

    def refuse(self, node: ast.AST) -> NoReturn:
        """Refuse a kind of expression."""
        raise SubsetError(f"{_REFUSED.get(type(node), type(node).__name__)} is not allowed", node)


NO_CONSTANT: Any = object()


def constant_of(node: ast.expr) -> Any:
    """The value of an expression that is the same in every run, or NO_CONSTANT.

    Constants, and lists, tuples, sets and dicts of them. It may be kept and used again as long as it does not leave the place
    where it stands: nothing in a transform can change it.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int | float) and not isinstance(value, bool) else NO_CONSTANT
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        values = _atoms(node.elts)
        if values is None:
            return NO_CONSTANT
        return values if isinstance(node, ast.List) else tuple(values) if isinstance(node, ast.Tuple) else set(values)
    if isinstance(node, ast.Dict):
        keys, values = _atoms(node.keys), _atoms(node.values)
        return NO_CONSTANT if keys is None or values is None else dict(zip(keys, values, strict=True))
    return NO_CONSTANT


def _atoms(nodes: Sequence[ast.expr | None]) -> list[Any] | None:
    found = []
    for node in nodes:
        if not isinstance(node, ast.Constant | ast.UnaryOp):
            return None
        value = constant_of(node)
        if value is NO_CONSTANT:
            return None
        found.append(value)
    return found
