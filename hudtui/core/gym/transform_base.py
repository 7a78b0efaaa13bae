"""What the parts of the transform compiler share: names and their places, and the way to refuse."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from hudtui.core.gym.transform_limits import Frame

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


class Refused(Exception):
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

    def refuse(self, node: ast.AST) -> NoReturn:
        """Refuse a kind of expression."""
        raise Refused(f"{_REFUSED.get(type(node), type(node).__name__)} is not allowed", node)
