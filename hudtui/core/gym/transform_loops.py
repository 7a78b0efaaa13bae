"""Comprehensions and generators in transforms."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from hudtui.core.gym.sandbox import Frame, Load, budget_of
from hudtui.core.gym.transform_base import Closure, CompilerBase, SubsetError

UNBOUND: Any = object()
"""What a loop's variable holds before its loop begins."""


class Loops(CompilerBase):
    """The part of the compiler that knows loops."""

    def _loops(self, node: Any, make: Callable[[], Any]) -> tuple[list[_Level], Any, tuple[int, ...]]:
        """Compile the `for` parts of a comprehension, then what it collects.

        Returns:
            The levels, what `make` returned, and the places in the frame that belong to the loop's variables.
        """
        generators: list[ast.comprehension] = node.generators
        scope: dict[str, int] = {}
        first = self.compile(generators[0].iter, consumed=True)
        for generator in generators:
            if generator.is_async:
                raise SubsetError("an async comprehension is not allowed", generator.target)
            self._targets(generator.target, scope)
        places = tuple(scope.values())
        self.scopes.append(scope)
        levels = []
        counts = []
        for index, generator in enumerate(generators):
            source = first if index == 0 else self.compile(generator.iter, consumed=True)
            before = self.nodes
            conditions = [self.compile(condition) for condition in generator.ifs]
            counts.append(self.nodes - before + 1)
            levels.append((source, self._assign(generator.target, scope), conditions))
        before = self.nodes
        body = make()
        counts[-1] += self.nodes - before
        self.scopes.pop()
        steps = [_Level(*level, count) for level, count in zip(levels, counts, strict=True)]
        return steps, body, places

    def _targets(self, target: ast.expr, scope: dict[str, int]) -> None:
        self.nodes += 1
        if isinstance(target, ast.Name):
            if "__" in target.id:
                raise SubsetError(f"the name {target.id} is not allowed", target)
            if target.id not in scope:
                scope[target.id] = self.size
                self.size += 1
        elif isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._targets(part, scope)
        elif isinstance(target, ast.Starred):
            raise SubsetError("a starred target is not allowed", target)
        else:
            raise SubsetError("a comprehension can only assign to names", target)

    def _assign(self, target: ast.expr, scope: dict[str, int]) -> Callable[[Frame, Any], None]:
        if isinstance(target, ast.Name):
            place = scope[target.id]
            return lambda frame, value: frame.__setitem__(place, value)
        assert isinstance(target, ast.Tuple | ast.List)
        parts = [self._assign(part, scope) for part in target.elts]
        expected = len(parts)

        def unpack(frame: Frame, value: Any) -> None:
            values: list[Any] = []
            for item in value:
                if len(values) == expected:
                    raise ValueError(f"too many values to unpack (expected {expected})")
                values.append(item)
            if len(values) < expected:
                raise ValueError(f"not enough values to unpack (expected {expected}, got {len(values)})")
            for part, item in zip(parts, values, strict=True):
                part(frame, item)

        return unpack

    def comprehension(self, node: ast.ListComp | ast.SetComp) -> Closure:
        """The closure of a list or set comprehension."""
        levels, body, places = self._loops(node, lambda: self.compile(node.elt))
        is_set = isinstance(node, ast.SetComp)

        def run(frame: Frame) -> Any:
            load = Load()
            result: Any = set() if is_set else []
            add = result.add if is_set else result.append
            for _ in _walk(frame, levels, places):
                value = body(frame)
                load.add(value)
                add(value)
            load.settle(frame)
            return result

        return run

    def dict_comprehension(self, node: ast.DictComp) -> Closure:
        """The closure of a dict comprehension."""
        levels, (make_key, make_value), places = self._loops(node, lambda: (self.compile(node.key), self.compile(node.value)))

        def run(frame: Frame) -> Any:
            load = Load()
            result = {}
            for _ in _walk(frame, levels, places):
                key = make_key(frame)
                value = make_value(frame)
                load.add(key)
                load.add(value)
                result[key] = value
            load.settle(frame)
            return result

        return run

    def generator(self, node: ast.GeneratorExp) -> Closure:
        """The closure of a generator that is used up where it stands."""
        levels, body, places = self._loops(node, lambda: self.compile(node.elt))

        def run(frame: Frame) -> Any:
            # Python evaluates the first source at once, and everything else as items are asked for.
            source = iter(levels[0].source(frame))
            return (body(frame) for _ in _walk(frame, levels, places, source))

        return run


class _Level:
    """One `for ... in ... if ...` of a comprehension."""

    __slots__ = ("assign", "conditions", "source", "steps")

    def __init__(self, source: Closure, assign: Callable[[Frame, Any], None], conditions: list[Closure], steps: int) -> None:
        self.source = source
        self.assign = assign
        self.conditions = conditions
        self.steps = steps


def _walk(frame: Frame, levels: list[_Level], places: tuple[int, ...], source: Iterator[Any] | None = None) -> Iterator[None]:
    """Put each combination of items into the frame, one after the other."""
    first = levels[0].source(frame) if source is None else source
    for place in places:
        frame[place] = UNBOUND
    budget = budget_of(frame)
    pending = [iter(first)]
    last = len(levels) - 1
    while pending:
        at = len(pending) - 1
        level = levels[at]
        for item in pending[-1]:
            budget.spend(level.steps)
            level.assign(frame, item)
            if all(condition(frame) for condition in level.conditions):
                if at == last:
                    yield
                else:
                    pending.append(iter(levels[at + 1].source(frame)))
                    break
        else:
            pending.pop()
