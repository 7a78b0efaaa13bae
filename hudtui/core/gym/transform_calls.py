"""Calls in transforms: which functions and methods there are, and with which arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from hudtui.core.gym.sandbox import LARGE, Frame, Load, checked_result
from hudtui.core.gym.transform_base import MAX_DEPTH, Closure, CompilerBase, SubsetError
from hudtui.core.gym.transform_functions import (
    CONSUMES,
    FUNCTIONS,
    KEYWORDS,
    METHOD_KEYWORDS,
    METHODS,
    PASSES_ON,
    QUICK,
    TYPES,
)


class Calls(CompilerBase):
    """The part of the compiler that knows calls."""

    def call(self, node: ast.Call, consumed: bool) -> Closure:
        """The closure of a call; `consumed` as in `compile`."""
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self.refuse(argument)
        seen = set()
        for keyword in node.keywords:
            if keyword.arg is None:
                raise SubsetError("** is not allowed", keyword.value)
            if keyword.arg in seen:
                raise SubsetError(f"the argument {keyword.arg} is given twice", keyword.value)
            seen.add(keyword.arg)
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func)
        if not isinstance(node.func, ast.Name):
            raise SubsetError("only the allowed functions and methods can be called", node.func)
        name = node.func.id
        if self.place(name) is not None:
            raise SubsetError(f"{name} is a value here and cannot be called", node.func)
        if name == "isinstance":
            return self._isinstance(node)
        function = FUNCTIONS.get(name)
        if function is None:
            raise SubsetError(f"the function {name} is not allowed", node.func)
        allowed = KEYWORDS.get(name, frozenset())
        for keyword in node.keywords:
            if allowed is not None and keyword.arg not in allowed:
                raise SubsetError(f"{name} takes no argument {keyword.arg} here", keyword.value)
        eager = name in CONSUMES or (name in PASSES_ON and consumed)
        arguments, keywords = self._arguments(node, eager)
        if keywords or len(arguments) > 3:
            collect = _collector(arguments, keywords)

            def run(frame: Frame) -> Any:
                values, named = collect(frame)
                return checked_result(frame, function(frame, *values, **named))

            return run
        if len(arguments) == 1:
            (only,) = arguments
            if name == "int":

                def to_int(frame: Frame) -> Any:
                    value = only(frame)
                    return int(value) if type(value) is float else checked_result(frame, function(frame, value))

                return to_int
            return lambda frame: checked_result(frame, function(frame, only(frame)))
        return lambda frame: checked_result(frame, function(frame, *[argument(frame) for argument in arguments]))

    def _arguments(self, node: ast.Call, consumed: bool) -> tuple[list[Closure], list[tuple[str, Closure]]]:
        arguments = [self.compile(argument, consumed=consumed) for argument in node.args]
        keywords = [(keyword.arg or "", self.compile(keyword.value)) for keyword in node.keywords]
        return arguments, keywords

    def _method(self, node: ast.Call, attribute: ast.Attribute) -> Closure:
        name = attribute.attr
        table = METHODS.get(name)
        if table is None:
            raise SubsetError(f"the attribute {name} is not allowed", attribute)
        allowed = METHOD_KEYWORDS.get(name, frozenset())
        for keyword in node.keywords:
            if keyword.arg not in allowed:
                raise SubsetError(f"{name} takes no argument {keyword.arg} here", keyword.value)
        target = self.compile(attribute.value)
        arguments, keywords = self._arguments(node, name in CONSUMES)

        def find(value: Any) -> Any:
            method = table.get(type(value))
            if method is None:
                raise AttributeError(f"a value of type {type(value).__name__} has no method {name}")
            return method

        if keywords or len(arguments) > 3:
            collect = _collector(arguments, keywords)

            def run(frame: Frame) -> Any:
                value = target(frame)
                method = find(value)
                values, named = collect(frame)
                return checked_result(frame, method(frame, value, *values, **named))

            return run
        if name == "get" and node.args and all(isinstance(argument, ast.Constant) for argument in node.args):
            constants = tuple(argument.value for argument in node.args if isinstance(argument, ast.Constant))
            place = self.sure_place(attribute.value)

            if place is not None and len(constants) == 2:
                key, default = constants

                def look_up_in_parameter(frame: Frame) -> Any:
                    value = frame[place]
                    if type(value) is not dict:
                        find(value)
                    return value.get(key, default)

                return look_up_in_parameter

            def look_up(frame: Frame) -> Any:
                value = target(frame)
                if type(value) is not dict:
                    find(value)
                return value.get(*constants)

            return look_up
        if name in QUICK and not keywords and all(map(_is_small, node.args)):
            texts = tuple(argument.value for argument in node.args if isinstance(argument, ast.Constant))
            direct = getattr(str, name)

            def on_short_text(frame: Frame) -> Any:
                value = target(frame)
                if type(value) is str and len(value) <= LARGE:
                    return direct(value, *texts)
                return checked_result(frame, find(value)(frame, value, *texts))

            return on_short_text
        if len(arguments) == 1:
            (only,) = arguments

            def call_one(frame: Frame) -> Any:
                value = target(frame)
                return checked_result(frame, find(value)(frame, value, only(frame)))

            return call_one

        def call(frame: Frame) -> Any:
            value = target(frame)
            return checked_result(frame, find(value)(frame, value, *[argument(frame) for argument in arguments]))

        return call

    def _isinstance(self, node: ast.Call) -> Closure:
        if len(node.args) != 2 or node.keywords:
            raise SubsetError("isinstance takes a value and a type", node)
        value = self.compile(node.args[0])
        types = self._types(node.args[1])
        return lambda frame: isinstance(value(frame), types)

    def _types(self, node: ast.expr) -> Any:
        self.nodes += 1
        if isinstance(node, ast.Name) and self.place(node.id) is None and node.id in TYPES:
            return TYPES[node.id]
        if isinstance(node, ast.Tuple) and self.depth < MAX_DEPTH:
            self.depth += 1
            found = tuple(self._types(part) for part in node.elts)
            self.depth -= 1
            return found
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and self.depth < MAX_DEPTH:
            self.depth += 1
            left, right = self._types(node.left), self._types(node.right)
            self.depth -= 1
            if isinstance(left, tuple) or isinstance(right, tuple):
                raise SubsetError("types are combined as `a | b` or as (a, b)", node)
            return left | right
        raise SubsetError(f"isinstance only asks for {', '.join(TYPES)}", node)


def _collector(
    arguments: list[Closure], keywords: list[tuple[str, Closure]]
) -> Callable[[Frame], tuple[list[Any], dict[str, Any]]]:
    def collect(frame: Frame) -> tuple[list[Any], dict[str, Any]]:
        load = Load()
        values = []
        for argument in arguments:
            value = argument(frame)
            load.add(value)
            values.append(value)
        named = {}
        for name, argument in keywords:
            named[name] = argument(frame)
            load.add(named[name])
        load.settle(frame)
        return values, named

    return collect


def _is_small(node: ast.expr) -> bool:
    """A constant that no method on a short text makes much of."""
    if not isinstance(node, ast.Constant):
        return False
    value = node.value
    return value is None or (isinstance(value, str) and len(value) <= 32) or (isinstance(value, int) and abs(value) <= 4_096)
