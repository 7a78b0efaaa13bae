"""`hudtui config try` and `hudtui config transform`.

What a reply means under a configuration, and what a lambda returns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from hudtui.cli import console
from hudtui.cli.command import top


@top.command("parse")
def parse(
    config: Annotated[Path, typer.Argument(help="Gym configuration (YAML).")],
    analysis: Annotated[
        Path | None,
        typer.Option(
            "--analysis",
            metavar="FILE",
            help="Check calls against the output of `hudtui env show --json`.",
        ),
    ] = None,
    lines: Annotated[
        bool,
        typer.Option(
            "--jsonl",
            help='Read one JSON object {"text": ...} per line, and write one line for each.',
        ),
    ] = False,
    calls: Annotated[
        bool, typer.Option("--calls", help="With --jsonl: write only the calls, without reasons.")
    ] = False,
) -> None:
    """Read an agent's reply from standard input, and show how it is parsed.

    The answer has its tags, action and tool call, or the reason for refusal.

    The whole input is one reply, unless --jsonl is given. A reply that is refused is an answer like
    any other. A line that is not JSON gets an error of its own. Exit code 2 if a line is not JSON.
    """
    from hudtui.core.errors import InputError
    from hudtui.core.gym.config import load_config
    from hudtui.core.gym.interpreter import Interpreter

    with console.failures():
        if calls and not lines:
            raise InputError(
                "--calls is for many replies", fix="Give --jsonl too, and one reply a line."
            )
        tools = None
        if analysis is not None:
            from hudtui.cli.analyses import read_analysis

            tools = {tool.name: tool for tool in read_analysis(analysis).tools}
        interpreter = Interpreter(load_config(console.config_file(config)), tools)
        if not lines:
            _write(
                interpreter.interpret(sys.stdin.buffer.read().decode(errors="replace")).to_json(),
                pretty=True,
            )
            return
        bad = False
        for number, line in _lines():
            text, problem = _reply_in(line)
            if problem is not None:
                bad = True
                _write({"error": {"line": number, "message": problem}})
                continue
            meaning = interpreter.interpret(text).to_json()
            _write({"call": meaning["call"]} if calls else meaning)
        if bad:
            raise typer.Exit(InputError.exit_code)


@top.command("transform")
def transform(
    source: Annotated[
        str, typer.Argument(metavar="LAMBDA", help="'lambda x: ...' or 'lambda x, ctx: ...'")
    ],
    ctx: Annotated[
        str | None,
        typer.Option("--ctx", metavar="JSON", help="Arguments for the second parameter."),
    ] = None,
) -> None:
    """Apply a transform to JSON values, one per line.

    It prints {"value": ...} or {"error": ...} for each.

    A lambda outside the allowed subset is refused with its column. Exit code 1 if the transform
    failed on a value. Exit code 2 if the lambda is refused or a line was not JSON.
    """
    from hudtui.core.errors import InputError, Location
    from hudtui.core.gym.json_safe import NotJsonError, to_json_value
    from hudtui.core.gym.transform import TransformError, TransformFailure, compile_transform

    with console.failures():
        try:
            compiled = compile_transform(source)
        except TransformError as error:
            raise InputError(error.what, where=Location("transform", 1, error.column)) from None
        context: dict[str, Any] | None = None
        if ctx is not None:
            context, problem = _json(ctx)
            if problem is not None or not isinstance(context, dict):
                raise InputError("--ctx is a JSON object", why=problem)
            if len(compiled.parameters) < 2:
                console.say("note: this lambda has one parameter, so that --ctx is not used")
        code = 0
        for _, line in _lines():
            value, problem = _json(line.decode(errors="replace"))
            if problem is not None:
                code = InputError.exit_code
                _write({"error": problem})
                continue
            try:
                _write({"value": to_json_value(compiled(value, context))})
            except (TransformFailure, NotJsonError) as failure:
                code = code or console.FOUND
                _write({"error": str(failure)})
        if code:
            raise typer.Exit(code)


def _lines() -> Iterator[tuple[int, bytes]]:
    """Yield the lines of standard input that are not empty, with their numbers, as they come in."""
    for number, line in enumerate(iter(sys.stdin.buffer.readline, b""), 1):
        if line.strip():
            yield number, line


def _reply_in(line: bytes) -> tuple[str, str | None]:
    """Return the reply in a line of JSON, and what is wrong with the line."""
    try:
        value, problem = _json(line.decode())
    except UnicodeDecodeError:
        return "", "this line is not UTF-8"
    if problem is None and not (isinstance(value, dict) and isinstance(value.get("text"), str)):
        problem = 'a line is an object with a text: {"text": "..."}'
    return value["text"] if problem is None else "", problem


def _json(text: str) -> tuple[Any, str | None]:
    from hudtui.core.errors import InputError
    from hudtui.core.files import parse_json

    try:
        return parse_json(text, "input"), None
    except InputError as error:
        return None, error.what


def _write(value: dict[str, Any], *, pretty: bool = False) -> None:
    # All ASCII: an argument may hold half a surrogate pair or a control character, and neither
    # belongs on a terminal.
    typer.echo(json.dumps(value, indent=2 if pretty else None))
    sys.stdout.flush()
