"""From the syntax tree of a lambda to closures: what is not on the lists here is refused, with its column."""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hudtui.core.gym.sandbox import MAX_BITS, MAX_STEPS, Frame, Load, check_number, checked_result, materialise
from hudtui.core.gym.transform_base import MAX_DEPTH, NO_CONSTANT, Closure, SubsetError, constant_of
from hudtui.core.gym.transform_calls import Calls
from hudtui.core.gym.transform_functions import FUNCTIONS
from hudtui.core.gym.transform_loops import UNBOUND, Loops
from hudtui.core.gym.transform_operators import BINARY, COMPARISON, PLAIN_COMPARISON, UNARY, check_spec, formatted

_NUMBERS = frozenset((int, float, bool))
_ON_NUMBERS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


class Compiler(Calls, Loops):
    """Turns the body of one lambda into a closure over a run's frame."""

    def compile(self, node: ast.expr, *, consumed: bool = False) -> Closure:
        """The closure of an expression; see the base class."""
        self.nodes += 1
        if self.nodes > MAX_STEPS:
            raise SubsetError(f"it is longer than {MAX_STEPS:,} expressions", node)
        if self.depth >= MAX_DEPTH:
            raise SubsetError(f"it is nested deeper than {MAX_DEPTH} levels", node)
        self.depth += 1
        try:
            if isinstance(node, ast.GeneratorExp):
                if not consumed:
                    raise SubsetError(
                        "a generator is only allowed as the argument of a function that uses it up; use [...]", node
                    )
                return self.generator(node)
            if isinstance(node, ast.Call):
                return self.call(node, consumed)
            method = self._METHODS.get(type(node))
            if method is None:
                self.refuse(node)
            closure: Closure = method(self, node)
            return closure
        finally:
            self.depth -= 1

    def _constant(self, node: ast.Constant) -> Closure:
        value = node.value
        if value is not None and type(value) not in (str, int, float, bool):
            raise SubsetError(f"a literal of type {type(value).__name__} is not allowed", node)
        if type(value) is int and value.bit_length() > MAX_BITS:
            raise SubsetError(f"a number of more than {MAX_BITS:,} bits", node)
        return lambda frame: value

    def _name(self, node: ast.Name) -> Closure:
        name = node.id
        place = self.place(name)
        if place is None:
            if "__" in name:
                raise SubsetError(f"the name {name} is not allowed", node)
            if name in FUNCTIONS or name == "isinstance":
                raise SubsetError(f"{name} can only be called", node)
            raise SubsetError(f"the name {name} is not known here", node)
        if place < self.bound:
            return lambda frame: frame[place]

        def read(frame: Frame) -> Any:
            value = frame[place]
            if value is UNBOUND:
                raise NameError(f"{name} has no value yet")
            return value

        return read

    def _binary(self, node: ast.BinOp) -> Closure:
        operation = BINARY.get(type(node.op).__name__)
        if operation is None:
            raise SubsetError("the operator @ is not allowed", node)
        left, right = self.compile(node.left), self.compile(node.right)
        plain = _ON_NUMBERS.get(type(node.op))
        if plain is not None:
            constant = constant_of(node.right)
            if type(constant) in _NUMBERS:

                def with_constant(frame: Frame) -> Any:
                    one = left(frame)
                    if type(one) in _NUMBERS:
                        result = plain(one, constant)
                        return result if type(result) is float else check_number(result)
                    return checked_result(frame, operation(frame, one, constant))

                return with_constant

            def on_numbers(frame: Frame) -> Any:
                one, two = left(frame), right(frame)
                if type(one) in _NUMBERS and type(two) in _NUMBERS:
                    result = plain(one, two)
                    return result if type(result) is float else check_number(result)
                return checked_result(frame, operation(frame, one, two))

            return on_numbers
        return lambda frame: checked_result(frame, operation(frame, left(frame), right(frame)))

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
        for index, sign in enumerate(node.ops):
            if isinstance(sign, ast.Is | ast.IsNot) and not any(map(_is_singleton, operands[index : index + 2])):
                raise SubsetError("`is` only compares with None, True or False; use ==", node)
        compiled = [self.compile(operand) for operand in operands]
        first = compiled[0]
        if len(node.ops) == 1:
            name = type(node.ops[0]).__name__
            only = compiled[1]
            plain = PLAIN_COMPARISON[name]
            value = constant_of(operands[1])
            if value is not NO_CONSTANT:
                if name == "Eq":
                    place = self.sure_place(operands[0])
                    if place is not None:
                        return lambda frame: frame[place] == value
                    return lambda frame: first(frame) == value
                return lambda frame: plain(first(frame), value)
            operation = COMPARISON[name]
            return lambda frame: operation(frame, first(frame), only(frame))
        rest = [(COMPARISON[type(sign).__name__], right) for sign, right in zip(node.ops, compiled[1:], strict=True)]

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
            return lambda frame: checked_result(frame, value(frame)[start(frame) : stop(frame) : step(frame)])
        index = self.compile(node.slice)
        table = constant_of(node.value)
        if table is not NO_CONSTANT:
            place = self.sure_place(node.slice)
            if place is not None:
                return lambda frame: table[frame[place]]
            return lambda frame: table[index(frame)]
        return lambda frame: value(frame)[index(frame)]

    def _display(self, node: ast.List | ast.Tuple | ast.Set) -> Closure:
        kind: Any = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        if any(isinstance(part, ast.Starred) for part in node.elts):
            return self._unpacking(node.elts, kind)
        parts = [self.compile(part) for part in node.elts]

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

    def _unpacking(self, nodes: Sequence[ast.expr], kind: Any) -> Closure:
        """A display with stars in it: `[*x, 1]`."""
        parts = [
            (True, self.compile(node.value, consumed=True)) if isinstance(node, ast.Starred) else (False, self.compile(node))
            for node in nodes
        ]

        def run(frame: Frame) -> Any:
            load = Load()
            values: list[Any] = []
            for starred, part in parts:
                value = part(frame)
                for item in materialise(frame, value) if starred else (value,):
                    load.add(item)
                    values.append(item)
            load.settle(frame)
            return kind(values)

        return run

    def _dictionary(self, node: ast.Dict) -> Closure:
        pairs = [
            (None if key is None else self.compile(key), self.compile(value))
            for key, value in zip(node.keys, node.values, strict=True)
        ]

        def run(frame: Frame) -> Any:
            load = Load()
            made_pairs: list[tuple[Any, Any]] = []
            for make_key, make_value in pairs:
                if make_key is None:
                    more = make_value(frame)
                    if not isinstance(more, Mapping):
                        raise TypeError(f"'{type(more).__name__}' object is not a mapping")
                    found = list(more.items())
                else:
                    found = [(make_key(frame), make_value(frame))]
                for key, value in found:
                    load.add(key)
                    load.add(value)
                made_pairs += found
            load.settle(frame)
            return dict(made_pairs)

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
            return checked_result(frame, "".join(texts))

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
                raise SubsetError(f"{error}", node) from None
        spec = self.compile(node.format_spec)
        return lambda frame: formatted(frame, value(frame), conversion, spec(frame))

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
        ast.ListComp: Loops.comprehension,
        ast.SetComp: Loops.comprehension,
        ast.DictComp: Loops.dict_comprehension,
    }


def _is_singleton(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is True or node.value is False)
