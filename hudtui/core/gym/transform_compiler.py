"""From the syntax tree of a lambda to closures: what is not on the lists here is refused, with its column."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NoReturn, TypeAlias

from hudtui.core.gym.transform_functions import CONSUMES, FUNCTIONS, KEYWORDS, METHOD_KEYWORDS, METHODS, PASSES_ON, QUICK, TYPES
from hudtui.core.gym.transform_limits import (
    LARGE,
    MAX_BITS,
    MAX_STEPS,
    Frame,
    Load,
    budget_of,
    check_number,
    made,
)
from hudtui.core.gym.transform_operators import BINARY, COMPARISON, PLAIN_COMPARISON, UNARY, check_spec, formatted

Closure: TypeAlias = Callable[[Frame], Any]

MAX_DEPTH = 100
"""Levels of nesting of a transform's expressions."""

_UNBOUND: Any = object()
_NUMBERS = frozenset((int, float, bool))

_REFUSED: dict[type[ast.AST], str] = {
    ast.Lambda: "a lambda inside a lambda",
    ast.NamedExpr: "an assignment (:=)",
    ast.Starred: "a star-argument",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.MatMult: "the operator @",
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


class Compiler:
    """Turns the body of one lambda into a closure over a run's frame.

    Attributes:
        names: The lambda's parameters, in order; they take the first places of the frame after the budget.
        size: Places that a frame needs.
        nodes: Expressions compiled so far: the steps of one pass.
    """

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.scopes: list[dict[str, int]] = [{name: index for index, name in enumerate(names, 1)}]
        self.size = len(names) + 1
        self.bound = len(names) + 1
        self.nodes = 0
        self.depth = 0

    def compile(self, node: ast.expr, *, consumed: bool = False) -> Closure:
        """The closure of an expression.

        Args:
            node: The expression.
            consumed: It is used up where it stands, so that a generator may be it.

        Raises:
            Refused: It is, or holds, something that is not allowed.
        """
        self.nodes += 1
        if self.nodes > MAX_STEPS:
            raise Refused(f"it is longer than {MAX_STEPS:,} expressions", node)
        if self.depth >= MAX_DEPTH:
            raise Refused(f"it is nested deeper than {MAX_DEPTH} levels", node)
        self.depth += 1
        try:
            if isinstance(node, ast.GeneratorExp):
                if not consumed:
                    raise Refused("a generator is only allowed as the argument of a function that uses it up; use [...]", node)
                return self._generator(node)
            if isinstance(node, ast.Call):
                return self._call(node, consumed)
            method = self._METHODS.get(type(node))
            if method is None:
                self._refuse(node)
            closure: Closure = method(self, node)
            return closure
        finally:
            self.depth -= 1

    def _refuse(self, node: ast.AST) -> NoReturn:
        raise Refused(f"{_REFUSED.get(type(node), type(node).__name__)} is not allowed", node)

    def _constant(self, node: ast.Constant) -> Closure:
        value = node.value
        if value is not None and type(value) not in (str, int, float, bool):
            raise Refused(f"a literal of type {type(value).__name__} is not allowed", node)
        if type(value) is int and value.bit_length() > MAX_BITS:
            raise Refused(f"a number of more than {MAX_BITS:,} bits", node)
        return lambda frame: value

    def _place(self, name: str) -> int | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def _name(self, node: ast.Name) -> Closure:
        name = node.id
        place = self._place(name)
        if place is None:
            if "__" in name:
                raise Refused(f"the name {name} is not allowed", node)
            if name in FUNCTIONS or name == "isinstance":
                raise Refused(f"{name} can only be called", node)
            raise Refused(f"the name {name} is not known here", node)
        if place < self.bound:
            return lambda frame: frame[place]

        def read(frame: Frame) -> Any:
            value = frame[place]
            if value is _UNBOUND:
                raise NameError(f"{name} has no value yet")
            return value

        return read

    def _binary(self, node: ast.BinOp) -> Closure:
        operation = BINARY.get(type(node.op).__name__)
        if operation is None:
            self._refuse(node.op if type(node.op) in _REFUSED else node)
        left, right = self.compile(node.left), self.compile(node.right)
        if isinstance(node.op, ast.Mult):

            def multiply(frame: Frame) -> Any:
                one, two = left(frame), right(frame)
                if type(one) is float and type(two) in _NUMBERS:
                    return one * two
                return made(frame, operation(frame, one, two))

            return multiply
        return lambda frame: made(frame, operation(frame, left(frame), right(frame)))

    def _unary(self, node: ast.UnaryOp) -> Closure:
        operation = UNARY[type(node.op).__name__]
        operand = self.compile(node.operand)
        if isinstance(node.op, ast.Invert):
            return lambda frame: check_number(operation(operand(frame)))
        return lambda frame: operation(operand(frame))

    def _boolean(self, node: ast.BoolOp) -> Closure:
        values = [self.compile(value) for value in node.values]
        *first, last = values
        stop = isinstance(node.op, ast.Or)

        def run(frame: Frame) -> Any:
            for value in first:
                found = value(frame)
                if bool(found) is stop:
                    return found
            return last(frame)

        return run

    def _conditional(self, node: ast.IfExp) -> Closure:
        test, body, other = self.compile(node.test), self.compile(node.body), self.compile(node.orelse)
        return lambda frame: body(frame) if test(frame) else other(frame)

    def _comparison(self, node: ast.Compare) -> Closure:
        operands = [node.left, *node.comparators]
        for index, operator in enumerate(node.ops):
            if isinstance(operator, ast.Is | ast.IsNot) and not any(map(_is_singleton, operands[index : index + 2])):
                raise Refused("`is` only compares with None, True or False; use ==", node)
        compiled = [self.compile(operand) for operand in operands]
        first = compiled[0]
        if len(node.ops) == 1:
            name = type(node.ops[0]).__name__
            only = compiled[1]
            plain = PLAIN_COMPARISON[name]
            if isinstance(operands[1], ast.Constant):
                value = operands[1].value
                if name == "Eq":
                    place = self._place(operands[0].id) if isinstance(operands[0], ast.Name) else None
                    if place is not None and place < self.bound:
                        return lambda frame: frame[place] == value
                    return lambda frame: first(frame) == value
                return lambda frame: plain(first(frame), value)
            operation = COMPARISON[name]
            return lambda frame: operation(frame, first(frame), only(frame))
        rest = [(COMPARISON[type(operator).__name__], right) for operator, right in zip(node.ops, compiled[1:], strict=True)]

        def run(frame: Frame) -> Any:
            left = first(frame)
            result: Any = True
            for operation, operand in rest:
                right = operand(frame)
                result = operation(frame, left, right)
                if not result:
                    return result
                left = right
            return result

        return run

    def _subscript(self, node: ast.Subscript) -> Closure:
        value = self.compile(node.value)
        if isinstance(node.slice, ast.Slice):
            bounds = node.slice
            start, stop, step = (
                (lambda frame: None) if bound is None else self.compile(bound)
                for bound in (bounds.lower, bounds.upper, bounds.step)
            )
            return lambda frame: made(frame, value(frame)[start(frame) : stop(frame) : step(frame)])
        index = self.compile(node.slice)
        return lambda frame: value(frame)[index(frame)]

    def _display(self, node: ast.List | ast.Tuple | ast.Set) -> Closure:
        parts = [self.compile(part) for part in node.elts]
        kind: Any = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]

        def run(frame: Frame) -> Any:
            load = Load()
            values = []
            for part in parts:
                value = part(frame)
                load.add(value)
                values.append(value)
            load.settle(frame)
            return values if kind is list else kind(values)

        return run

    def _dictionary(self, node: ast.Dict) -> Closure:
        pairs = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                raise Refused("** is not allowed", value)
            pairs.append((self.compile(key), self.compile(value)))

        def run(frame: Frame) -> Any:
            load = Load()
            result = {}
            for make_key, make_value in pairs:
                key = make_key(frame)
                value = make_value(frame)
                load.add(key)
                load.add(value)
                result[key] = value
            load.settle(frame)
            return result

        return run

    def _formatted_text(self, node: ast.JoinedStr) -> Closure:
        parts: list[Closure] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.nodes += 1
                parts.append(self._field(part))
            else:
                parts.append(self.compile(part))

        def run(frame: Frame) -> Any:
            load = Load()
            texts = []
            for part in parts:
                text = part(frame)
                load.add(text)
                texts.append(text)
            return made(frame, "".join(texts))

        return run

    def _field(self, node: ast.FormattedValue) -> Closure:
        value = self.compile(node.value)
        conversion = node.conversion
        if node.format_spec is None:
            return lambda frame: formatted(frame, value(frame), conversion, "")
        if isinstance(node.format_spec, ast.JoinedStr) and all(
            isinstance(part, ast.Constant) for part in node.format_spec.values
        ):
            constant = "".join(str(part.value) for part in node.format_spec.values if isinstance(part, ast.Constant))
            try:
                check_spec(constant)
            except Exception as error:
                raise Refused(f"{error}", node) from None
        spec = self.compile(node.format_spec)
        return lambda frame: formatted(frame, value(frame), conversion, spec(frame))

    def _call(self, node: ast.Call, consumed: bool) -> Closure:
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self._refuse(argument)
        seen = set()
        for keyword in node.keywords:
            if keyword.arg is None:
                raise Refused("** is not allowed", keyword.value)
            if keyword.arg in seen:
                raise Refused(f"the argument {keyword.arg} is given twice", keyword.value)
            seen.add(keyword.arg)
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func)
        if not isinstance(node.func, ast.Name):
            raise Refused("only the allowed functions and methods can be called", node.func)
        name = node.func.id
        if self._place(name) is not None:
            raise Refused(f"{name} is a value here and cannot be called", node.func)
        if name == "isinstance":
            return self._isinstance(node)
        function = FUNCTIONS.get(name)
        if function is None:
            raise Refused(f"the function {name} is not allowed", node.func)
        allowed = KEYWORDS.get(name, frozenset())
        for keyword in node.keywords:
            if allowed is not None and keyword.arg not in allowed:
                raise Refused(f"{name} takes no argument {keyword.arg} here", keyword.value)
        eager = name in CONSUMES or (name in PASSES_ON and consumed)
        arguments, keywords = self._arguments(node, eager)
        if keywords or len(arguments) > 3:
            collect = _collector(arguments, keywords)

            def run(frame: Frame) -> Any:
                values, named = collect(frame)
                return made(frame, function(frame, *values, **named))

            return run
        if len(arguments) == 1:
            (only,) = arguments
            if name == "int":

                def to_int(frame: Frame) -> Any:
                    value = only(frame)
                    return int(value) if type(value) is float else made(frame, function(frame, value))

                return to_int
            return lambda frame: made(frame, function(frame, only(frame)))
        return lambda frame: made(frame, function(frame, *[argument(frame) for argument in arguments]))

    def _arguments(self, node: ast.Call, consumed: bool) -> tuple[list[Closure], list[tuple[str, Closure]]]:
        arguments = [self.compile(argument, consumed=consumed) for argument in node.args]
        keywords = [(keyword.arg or "", self.compile(keyword.value)) for keyword in node.keywords]
        return arguments, keywords

    def _method(self, node: ast.Call, attribute: ast.Attribute) -> Closure:
        name = attribute.attr
        table = METHODS.get(name)
        if table is None:
            raise Refused(f"the attribute {name} is not allowed", attribute)
        allowed = METHOD_KEYWORDS.get(name, frozenset())
        for keyword in node.keywords:
            if keyword.arg not in allowed:
                raise Refused(f"{name} takes no argument {keyword.arg} here", keyword.value)
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
                return made(frame, method(frame, value, *values, **named))

            return run
        if name == "get" and node.args and all(isinstance(argument, ast.Constant) for argument in node.args):
            constants = tuple(argument.value for argument in node.args if isinstance(argument, ast.Constant))

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
                return made(frame, find(value)(frame, value, *texts))

            return on_short_text
        if len(arguments) == 1:
            (only,) = arguments

            def call_one(frame: Frame) -> Any:
                value = target(frame)
                return made(frame, find(value)(frame, value, only(frame)))

            return call_one

        def call(frame: Frame) -> Any:
            value = target(frame)
            return made(frame, find(value)(frame, value, *[argument(frame) for argument in arguments]))

        return call

    def _isinstance(self, node: ast.Call) -> Closure:
        if len(node.args) != 2 or node.keywords:
            raise Refused("isinstance takes a value and a type", node)
        value = self.compile(node.args[0])
        types = self._types(node.args[1])
        return lambda frame: isinstance(value(frame), types)

    def _types(self, node: ast.expr) -> Any:
        self.nodes += 1
        if isinstance(node, ast.Name) and self._place(node.id) is None and node.id in TYPES:
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
                raise Refused("types are combined as `a | b` or as (a, b)", node)
            return left | right
        raise Refused(f"isinstance only asks for {', '.join(TYPES)}", node)

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
                raise Refused("an async comprehension is not allowed", generator.target)
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
                raise Refused(f"the name {target.id} is not allowed", target)
            if target.id not in scope:
                scope[target.id] = self.size
                self.size += 1
        elif isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._targets(part, scope)
        elif isinstance(target, ast.Starred):
            raise Refused("a starred target is not allowed", target)
        else:
            raise Refused("a comprehension can only assign to names", target)

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

    def _comprehension(self, node: ast.ListComp | ast.SetComp) -> Closure:
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

    def _dict_comprehension(self, node: ast.DictComp) -> Closure:
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

    def _generator(self, node: ast.GeneratorExp) -> Closure:
        levels, body, places = self._loops(node, lambda: self.compile(node.elt))

        def run(frame: Frame) -> Any:
            # Python evaluates the first source at once, and everything else as items are asked for.
            source = iter(levels[0].source(frame))
            return (body(frame) for _ in _walk(frame, levels, places, source))

        return run

    _METHODS: ClassVar[dict[type[ast.AST], Any]] = {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.BoolOp: _boolean,
        ast.IfExp: _conditional,
        ast.Compare: _comparison,
        ast.Subscript: _subscript,
        ast.List: _display,
        ast.Tuple: _display,
        ast.Set: _display,
        ast.Dict: _dictionary,
        ast.JoinedStr: _formatted_text,
        ast.ListComp: _comprehension,
        ast.SetComp: _comprehension,
        ast.DictComp: _dict_comprehension,
    }


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
        frame[place] = _UNBOUND
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


def _is_singleton(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is True or node.value is False)
