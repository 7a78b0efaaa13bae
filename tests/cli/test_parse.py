"""`hudtui config try` and `hudtui config transform` as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hudtui.cli.app import build

CONFIG = """\
action_mappings:
  click:
    _parser: {positional: [x, y]}
    _tool: computer
    x: {from_arg: x}
    y: {from_arg: y, default: 0}
"""
ANALYSIS = {
    "source": "test",
    "server": {"name": "s", "version": "1"},
    "protocol": None,
    "tools": [
        {
            "name": "computer",
            "description": "",
            "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}},
            "kind": "agent",
            "hub": None,
        }
    ],
    "hubs": {},
    "resources": [],
    "prompts": [],
    "timings": {},
    "warnings": [],
    "instructions": "",
    "image": None,
    "analyzed_at": None,
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG)
    return path


def hudtui(*arguments: object, text: str | bytes = "", code: int = 0) -> tuple[str, str]:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    result = CliRunner().invoke(build(), [str(argument) for argument in arguments], input=data)
    assert result.exit_code == code, (result.exit_code, result.stderr, result.exception)
    assert result.stdout.isascii()
    return result.stdout, result.stderr


def lines(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def test_a_reply_becomes_json(config: Path) -> None:
    out, err = hudtui("parse", config, text="<think>go</think>\n<tool>click(1, y=2)</tool>\n")
    assert json.loads(out) == {
        "think": "go",
        "tool": "click(1, y=2)",
        "extra_calls": 0,
        "action": {"name": "click", "arguments": {"x": 1, "y": 2}},
        "error": None,
        "call": {"tool": "computer", "arguments": {"x": 1, "y": 2}},
        "done": False,
        "format": {"xml": 1, "action": 1},
    }
    assert err == ""


def test_a_refused_reply_is_an_answer(config: Path) -> None:
    out, _ = hudtui("parse", config, text="<tool>click(1</tool>")
    assert json.loads(out)["error"] == {
        "stage": "syntax",
        "message": "the parenthesis that opens in column 6 is not closed",
        "column": 6,
    }
    assert json.loads(hudtui("parse", config)[0])["error"]["stage"] == "tags"


def test_the_analysis_adds_the_schema(config: Path, tmp_path: Path) -> None:
    analysis = tmp_path / "analysis.json"
    analysis.write_text(json.dumps(ANALYSIS))
    out, _ = hudtui("parse", config, "--analysis", analysis, text="<tool>click('a')</tool>")
    assert json.loads(out)["error"] == {
        "stage": "schema",
        "message": 'x: expected a whole number, got "a"',
        "column": 7,
    }
    assert (
        json.loads(
            hudtui("parse", config, "--analysis", analysis, text="<tool>click(1)</tool>")[0]
        )["error"]
        is None
    )


def test_lines_of_json(config: Path) -> None:
    text = "\n".join(
        [
            json.dumps({"text": "<tool>click(1)</tool>"}),
            "",
            "not json",
            '{"text": 5}',
            '{"text": "a", "text": "b"}',
            "[1]",
            json.dumps({"text": "<tool>done()</tool>", "id": 7}),
        ]
    )
    out, err = hudtui("parse", config, "--jsonl", text=text, code=2)
    found = lines(out)
    assert len(found) == 6
    assert found[0]["call"] == {"tool": "computer", "arguments": {"x": 1, "y": 0}}
    assert [line["error"]["line"] for line in found[1:5]] == [3, 4, 5, 6]
    assert all(line["error"]["message"] for line in found[1:5])
    assert found[5]["done"] is True
    assert err == ""
    hudtui("parse", config, "--jsonl", text='{"text": "nothing"}\n', code=0)
    assert (
        hudtui("parse", config, "--jsonl", text=b'{"text": "\xff"}\n', code=2)[0].count("not UTF-8")
        == 1
    )


def test_the_calls_alone(config: Path) -> None:
    replies = ("click(3, 4)", "click(3)", "nothing()", "done()", "")
    text = "\n".join(
        [*(json.dumps({"text": f"<tool>{reply}</tool>"}) for reply in replies), "not json"]
    )
    whole = lines(hudtui("parse", config, "--jsonl", text=text, code=2)[0])
    alone = lines(hudtui("parse", config, "--jsonl", "--calls", text=text, code=2)[0])
    assert alone == [{"call": line["call"]} if "call" in line else line for line in whole]
    assert alone[0] == {"call": {"tool": "computer", "arguments": {"x": 3, "y": 4}}} and alone[
        2
    ] == {"call": None}
    assert "error" in alone[-1]
    assert "--jsonl" in hudtui("parse", config, "--calls", code=2)[1]


def test_odd_text_survives(config: Path) -> None:
    out, _ = hudtui(
        "parse", config, text=b"<tool>click('\xff\x1b[31m\xc2\x9b', \"\xc3\xa9\")</tool>"
    )
    assert json.loads(out)["action"]["arguments"] == {"x": "\ufffd\x1b[31m\x9b", "y": "é"}
    assert "\x1b" not in out
    depth = 100
    out, _ = hudtui("parse", config, text=f"<tool>click({'[' * depth}{']' * depth})</tool>")
    assert repr(json.loads(out)["call"]["arguments"]["x"]) == "[" * depth + "]" * depth
    out, _ = hudtui("parse", config, text=f"<tool>click({'[' * 20_000}{']' * 20_000})</tool>")
    assert json.loads(out)["error"] == {
        "stage": "syntax",
        "message": "nested more than 100 deep",
        "column": 107,
    }


def test_lines_are_answered_as_they_come(config: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hudtui", "parse", str(config), "--jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for number in range(3):
            process.stdin.write(json.dumps({"text": f"<tool>click({number})</tool>"}) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["call"]["arguments"]["x"] == number
        process.stdin.close()
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_bad_configurations(config: Path, tmp_path: Path) -> None:
    _, err = hudtui("parse", tmp_path / "missing.yaml", code=2)
    assert "there is no such file" in err
    config.write_text("action_mappings:\n  click: {_tool: t, x: {from_arg: z z}}\n")
    out, err = hudtui("parse", config, code=2)
    assert out == ""
    assert "c.yaml:2:35 (action_mappings.click.x): the argument `z z` is not listed" in err
    assert "Traceback" not in err
    config.write_text(CONFIG)
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    _, err = hudtui("parse", config, "--analysis", bad, code=2)
    assert "not an analysis" in err


def test_transform() -> None:
    out, err = hudtui("transform", "lambda x: x.split('+')", text='"ctrl+a"\n\n"b"\n')
    assert lines(out) == [{"value": ["ctrl", "a"]}, {"value": ["b"]}]
    assert err == ""


def test_transform_with_context() -> None:
    source = "lambda d, ctx: ctx.get('amount', 3) if d == 'right' else -ctx.get('amount', 3)"
    assert lines(hudtui("transform", source, "--ctx", '{"amount": 7}', text='"left"\n')[0]) == [
        {"value": -7}
    ]
    assert lines(hudtui("transform", source, text='"left"\n')[0]) == [{"value": -3}]
    _, err = hudtui("transform", "lambda x: x", "--ctx", "{}", text="1\n")
    assert "not used" in err


def test_transform_failures() -> None:
    out, _ = hudtui("transform", "lambda x: 10 // x", text="0\n5\n", code=1)
    assert lines(out) == [
        {"error": "ZeroDivisionError: integer division or modulo by zero"},
        {"value": 2},
    ]
    out, _ = hudtui("transform", "lambda x: {x}", text="1\n", code=1)
    assert lines(out) == [
        {"error": "a value of type set cannot be sent; sorted(...) makes a list of it"}
    ]
    out, _ = hudtui("transform", "lambda x: x", text="{\n1\n", code=2)
    assert list(lines(out)[0]) == ["error"]
    assert lines(out)[1] == {"value": 1}
    out, err = hudtui("transform", "lambda x: x.__class__()", text="1\n", code=2)
    assert out == ""
    assert err == "error: transform:1:13: the attribute __class__ is not allowed\n"
    assert "--ctx is a JSON object" in hudtui("transform", "lambda x: x", "--ctx", "[1]", code=2)[1]
    assert "--ctx is a JSON object" in hudtui("transform", "lambda x: x", "--ctx", "{", code=2)[1]


def test_help_names_them() -> None:
    out, _ = hudtui("config", "--help")
    assert "\n  try " in out
    assert "\n  transform " in out
