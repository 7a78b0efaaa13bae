"""Checks of the transforms and of what reaches them.

By reading the lambda, and by running it on plausible arguments.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from hudtui.core.gym.lint.findings import MAPPINGS, Severity
from hudtui.core.gym.lint.report import LintReport, shown
from hudtui.core.gym.lint.tools import kinds_only
from hudtui.core.gym.schema_examples import ToolSchema
from hudtui.core.gym.transform import Transform, TransformFailure
from hudtui.core.gym.values import ActionMapping, FromArg, FromArgs
from hudtui.core.text import clean_line

Arguments = Mapping[str, Any]
Add = Callable[[str, Severity, str], None]
"""Reports a code, a severity and a message about the transform that is checked."""

_TEXTS = (
    "hello",
    "a",
    "1",
    "2.5",
    "a,b",
    "a b",
    "a+b",
    "a-b",
    "a:b",
    "1,2",
    "true",
    "https://example.com/a?b=c",
    "2025-01-31",
)
_OTHERS = (1, 2.5, 0, -1, 100, True, [1, 2], ["a", "b"], {"x": 1, "y": 2})
_EDGES: tuple[tuple[Any, str], ...] = ((0, "ZeroDivisionError"), ("", "IndexError"))
_MOST_CONSTANTS = 40
_PATIENCE = 0.25
"""Seconds for trying arguments on one transform; only a transform that always runs into its own
limits takes so long."""


@dataclass(frozen=True)
class TransformTraits:
    """Traits that the text of a transform shows."""

    ignores_value: bool
    ignores_context: bool
    context: frozenset[str] | None
    """Arguments that the transform looks up in the context by name; None where that cannot be
    determined."""
    constants: tuple[Any, ...]
    """Texts and numbers in the transform: good candidates for what it expects."""


@lru_cache(maxsize=4096)
def transform_traits(source: str) -> TransformTraits:
    """Read a transform that compiles."""
    tree = ast.parse(source.strip(), mode="eval").body
    if not isinstance(tree, ast.Lambda):
        return TransformTraits(False, True, frozenset(), ())
    names = [argument.arg for argument in (*tree.args.posonlyargs, *tree.args.args)]
    used = {node.id for node in ast.walk(tree.body) if isinstance(node, ast.Name)}
    constants = tuple(
        dict.fromkeys(
            node.value
            for node in ast.walk(tree.body)
            if isinstance(node, ast.Constant)
            and type(node.value) in (str, int, float)
            and len(str(node.value)) < 100
        )
    )[:_MOST_CONSTANTS]
    context = names[1] if len(names) > 1 else None
    return TransformTraits(
        ignores_value=names[0] not in used,
        ignores_context=context is None or context not in used,
        context=frozenset() if context is None else _asked(tree.body, context),
        constants=constants,
    )


def _asked(body: ast.expr, context: str) -> frozenset[str] | None:
    """The names that are looked up in the context; None when it is used in any other way."""
    names: set[str] = set()
    understood = 0
    for node in ast.walk(body):
        key: ast.expr | None = None
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            key = node.args[0] if _is(node.func.value, context) else None
        elif isinstance(node, ast.Subscript) and _is(node.value, context):
            key = node.slice
        elif (
            isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and isinstance(node.ops[0], ast.In | ast.NotIn)
        ):
            key = node.left if _is(node.comparators[0], context) else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            names.add(key.value)
            understood += 1
    uses = sum(_is(node, context) for node in ast.walk(body))
    return frozenset(names) if uses == understood else None


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def check_arguments(report: LintReport) -> None:
    """Report arguments that the agent may give but that no parameter uses."""
    for mapping in report.config.mappings.values():
        used: set[str] = set()
        for parameter in mapping.parameters.values():
            if isinstance(parameter, FromArgs):
                used.update(parameter.args)
            elif isinstance(parameter, FromArg):
                used.add(parameter.arg)
                if parameter.transform is not None and parameter.transform.wants_context(
                    parameter.use_context
                ):
                    asked = transform_traits(parameter.transform.source).context
                    used.update(mapping.positional if asked is None else asked)
        for index, name in enumerate(mapping.positional):
            if name not in used and mapping.name != "done":
                report.add(
                    "unreachable-argument",
                    "warning",
                    f"the argument `{name}` is accepted, but no parameter is taken from it",
                    (MAPPINGS, mapping.name, "_parser", "positional", index),
                    at_value=True,
                )


def check_transforms(report: LintReport, examples: Mapping[str, Sequence[Arguments]]) -> None:
    """Report transforms that ignore their argument, or that fail on arguments that can be expected.

    `examples` has the arguments of the prompt's usage examples, by action.
    """
    for mapping, name, parameter, path in report.parameters():
        if not isinstance(parameter, FromArg) or parameter.transform is None:
            continue
        add: Add = partial(report.add, path=(*path, "transform"))
        traits = transform_traits(parameter.transform.source)
        if traits.ignores_value and traits.ignores_context:
            what = f"whatever `{parameter.arg}` is, `{name}` is the same; `static` says that"
            add(
                "transform-ignores-argument",
                "warning",
                f"the transform ignores its argument: {what}",
            )
        elif traits.ignores_value:
            message = (
                f"the transform ignores its argument `{parameter.arg}` and reads only the others"
            )
            add("transform-ignores-argument", "info", message)
        given = [
            arguments for arguments in examples.get(mapping.name, ()) if parameter.arg in arguments
        ]
        if given:
            _run_examples(add, parameter, given)
        else:
            _run_guesses(report, add, mapping, name, parameter, traits)


def _run_examples(add: Add, parameter: FromArg, given: Sequence[Arguments]) -> None:
    for arguments in given:
        value = arguments[parameter.arg]
        try:
            _run(parameter, value, arguments)
        except TransformFailure as failure:
            why = clean_line(str(failure), 120)
            add(
                "transform-fails",
                "error",
                f"the transform fails on {shown(value)}, an example of the prompt: {why}",
            )
            return


def _run_guesses(
    report: LintReport,
    add: Add,
    mapping: ActionMapping,
    name: str,
    parameter: FromArg,
    traits: TransformTraits,
) -> None:
    schema = report.schema(mapping.tool)
    prop = (
        next((prop for prop in schema.properties() if prop.name == name), None)
        if schema is not None
        else None
    )
    kinds = kinds_only(schema, prop.schema) if schema is not None and prop is not None else None
    results: list[tuple[Any, Any]] = []
    failures: list[tuple[Any, str]] = []
    fits = hurried = False
    end = time.thread_time() + _PATIENCE  # of work: what other programs do to it does not count
    for number, value in enumerate(_guesses(traits, prop.schema if prop is not None else {})):
        hurried = time.thread_time() > end
        if (fits and number >= len(_EDGES)) or hurried:
            break
        try:
            result = _first_run(parameter, mapping, value)
        except TransformFailure as failure:
            failures.append((value, clean_line(str(failure), 120)))
        else:
            results.append((value, result))
            fits = fits or kinds is None or (schema is not None and schema.fits(kinds, result))
    if not results:
        if not hurried:  # else too little was tried to say that nothing works
            value, why = failures[0]
            message = (
                "the transform fails on every argument that was tried, for example on "
                f"{shown(value)}: {why}"
            )
            add("transform-fails", "error", message)
        return
    reasons = {(type(value), repr(value)): reason for value, reason in reversed(failures)}
    for value, expected in _EDGES:
        why = reasons.get((type(value), repr(value)), "")
        if why.startswith(expected):
            add("transform-fails", "info", f"the transform fails on {shown(value)}: {why}")
    if not fits and kinds is not None and schema is not None and prop is not None:
        telling = [pair for pair in results if pair[0] not in ("", 0)]
        value, result = (telling or results)[0]
        words = f"nothing that the transform gave fits `{name}` ({schema.words(prop.schema)})"
        code = "enum-mismatch" if "enum" in kinds else "type-mismatch"
        add(code, "warning", f"{words}: {shown(value)} became {shown(result)}")


def _guesses(traits: TransformTraits, wanted: Mapping[str, Any]) -> Iterator[Any]:
    seen: set[tuple[type, str]] = set()
    listed = wanted.get("enum")
    choices: list[Any] = listed if isinstance(listed, list) else []
    pool: list[Any] = [*choices, *traits.constants]
    for text in _only_texts(pool):
        pool += (text.upper(), text.title(), text.lower())
    for text in _only_texts(choices):
        pool += (f"a{text}", f"{text}a")
    pool += [str(choice) for choice in pool if isinstance(choice, int | float)]
    for text in _only_texts(traits.constants):
        if 0 < len(text) <= 3:  # what an argument may be split at
            pool += (f"a{text}b", f"1{text}2")
    example = ToolSchema(wanted).example(wanted)
    edges = [edge for edge, _ in _EDGES]
    examples = [example] if _plain(example) else []
    for value in (*edges, *pool[:120], *_TEXTS, *_OTHERS, *examples):
        mark = (type(value), repr(value))
        if mark not in seen:
            seen.add(mark)
            yield value


def _only_texts(values: Sequence[Any]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | list | dict)


def _first_run(parameter: FromArg, mapping: ActionMapping, value: Any) -> Any:
    """The result of the transform for a value.

    With no other arguments, else with numbers, else with texts.
    """
    others = [name for name in mapping.positional if name != parameter.arg]
    last = TransformFailure("")
    for filler in (None, 3, "a") if others else (None,):
        context = {parameter.arg: value} | ({} if filler is None else dict.fromkeys(others, filler))
        try:
            return _run(parameter, value, context)
        except TransformFailure as failure:
            last = failure
    raise last


def _run(parameter: FromArg, value: Any, arguments: Arguments) -> Any:
    transform: Transform | None = parameter.transform
    assert transform is not None
    return transform(
        value, dict(arguments) if transform.wants_context(parameter.use_context) else None
    )
