"""A draft of tasks: what its variables give, how it is split, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.errors import InputError
from hudtui.core.tasks.draft import DraftedTasks, draft_tasks, load_draft, read_draft
from hudtui.core.tasks.read import read_tasks
from hudtui.core.tasks.task_file import add_tasks, replace_task

WRITE = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
}
SCALE = {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]}
ANALYSIS = Analysis(
    "files",
    tools=(
        Tool("write_file", "Writes.", WRITE),
        Tool("read_file", "Reads.", {"type": "object", "properties": {"path": {}}}),
        Tool("scale", "Scales.", SCALE),
    ),
)
BASE = {
    "id": "word",
    "prompt": "Write ${word} into out.txt, ${n} times.",
    "mcp_config": {"files": {"command": "server", "args": ["${EPISODE_DIR}"]}},
    "setup_tool": {"name": "write_file", "arguments": {"path": "in.txt", "content": "${n}"}},
    "evaluate": [
        {
            "call": {"name": "read_file", "arguments": {"path": "out.txt"}},
            "expect": {"contains": "${word}"},
        },
        {"reply": {"number": "${n}"}, "weight": 0.5},
    ],
    "variables": {"word": ["alpha", "beta"], "n": "1..5"},
}


def made(**fields: Any) -> DraftedTasks:
    draft, problems = read_draft({**BASE, **fields})
    assert not problems, problems
    return draft_tasks(draft, analysis=ANALYSIS)


def errors(**fields: Any) -> list[tuple[str | None, str]]:
    draft, problems = read_draft({**BASE, **fields})
    found = problems or draft_tasks(draft, analysis=ANALYSIS).problems
    return [(one.field, one.message) for one in found if one.severity == "error"]


def test_every_combination_is_a_task_with_its_values() -> None:
    tasks = made()
    assert not tasks.problems and len(tasks.train) == 10 and not tasks.held_out
    first = tasks.train[0]
    assert first["id"] == "word-1" and first["prompt"] == "Write alpha into out.txt, 1 times."
    assert first["setup_tool"]["arguments"]["content"] == "1"  # text, as the schema wants it
    assert first["evaluate"][1]["reply"]["number"] == 1
    assert first["metadata"] == {"variables": {"word": "alpha", "n": 1}}
    assert first["mcp_config"] == BASE["mcp_config"]  # the variables of an episode stay
    assert len({json.dumps(task["metadata"]) for task in tasks.train}) == 10


def test_the_same_draft_gives_the_same_tasks_and_another_seed_others() -> None:
    wanted = {"count": 4, "held_out": 0.5, "variables": {**BASE["variables"], "s": "seed"}}  # type: ignore[dict-item]
    wanted["prompt"] = "${word} ${n} ${s}"
    assert made(**wanted) == made(**wanted)
    assert made(**wanted, seed=1) != made(**wanted)


def test_a_seed_gives_any_number_of_different_tasks() -> None:
    tasks = made(
        prompt="${word} ${n} ${s}", variables={"word": ["a"], "n": [1], "s": "seed"}, count=50
    )
    seeds = {task["metadata"]["variables"]["s"] for task in tasks.train}
    assert len(seeds) == 50 and all(0 <= seed < 1 << 31 for seed in seeds)


def test_a_key_is_trained_on_or_held_out_as_a_whole() -> None:
    words = [f"w{number}" for number in range(20)]
    tasks = made(variables={"word": words, "n": "1..3"}, held_out=0.2, split_by="word")
    apart = {task["metadata"]["variables"]["word"] for task in tasks.held_out}
    rest = {task["metadata"]["variables"]["word"] for task in tasks.train}
    assert len(apart) == 4 and not apart & rest and len(apart | rest) == 20
    assert {task["metadata"]["split"] for task in tasks.held_out} == {"held_out"}
    more = made(variables={"word": [*words, "new"], "n": "1..3"}, held_out=0.2, split_by="word")
    kept = {task["metadata"]["variables"]["word"] for task in more.held_out}
    assert len(kept & apart) >= 3  # a value that is added moves few others


def test_values_are_read_as_they_are_written() -> None:
    variables = {"a": "1..2 by 0.5", "b": "x, 2, 2.0, 02", "c": '["p, q", true]', "d": [{"k": "v"}]}
    draft, problems = read_draft({"variables": variables})
    assert not problems
    assert [list(one.values) for one in draft.variables] == [
        [1.0, 1.5, 2.0], ["x", 2, 2.0, "02"], ["p, q", True], [{"k": "v"}],
    ]  # fmt: skip
    tasks = made(prompt="${p.of} $${n}", variables={"p": [{"of": "x"}], "word": ["y"], "n": [1]})
    assert tasks.train[0]["prompt"] == "x ${n}"


def test_other_fields_are_kept_and_filled() -> None:
    tasks = made(
        solution=[{"name": "write_file", "arguments": {"path": "out.txt", "content": "${word}"}}],
        metadata={"kind": "easy"},
    )
    assert tasks.train[0]["solution"][0]["arguments"]["content"] == "alpha"
    assert tasks.train[0]["metadata"]["kind"] == "easy"


def reply(**expected: Any) -> dict[str, Any]:
    return {"evaluate": [{"reply": expected}]}


def setup(name: str, **arguments: Any) -> dict[str, Any]:
    return {"setup_tool": {"name": name, "arguments": arguments}}


ONE_WORD = {"variables": {"word": "a", "n": "1..3"}, "held_out": 0.5, "split_by": "word"}


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"variables": {"word": [], "n": "1..2"}}, "variables.word", "no values"),
        ({"variables": {"word": "a", "n": "5..1"}}, "variables.n", "no values"),
        ({"variables": {"word": "a", "n": ""}}, "variables.n", "no values"),
        ({"variables": {"word": "a", "n": "1..9 by 0"}}, "variables.n", "no values"),
        ({"variables": {"word": "a", "n": "[1,"}}, "variables.n", "JSON"),
        ({"variables": {"word": "a", "2n": "1"}}, "variables.2n", "letters"),
        ({"variables": ["a"]}, "variables", "a list"),
        ({"prompt": "${wrod}"}, "prompt", "did you mean 'word'"),
        (reply(contains="${x}"), "evaluate[0].reply.contains", "no variable 'x'"),
        ({"variables": {"word": ["a"], "n": [1]}, "count": 2}, "count", "one task"),
        ({"count": 11}, "count", "10 different tasks"),
        ({"count": 0}, "count", "from 1"),
        ({"count": True}, "count", "from 1"),
        ({"held_out": 1}, "held_out", "less than 1"),
        ({"held_out": 0.1, "split_by": "wird"}, "split_by", "did you mean 'word'"),
        ({"split_by": "word"}, "split_by", "held_out"),
        (ONE_WORD, "held_out", "one value"),
        (setup("wirte_file"), "setup_tool.name", "did you mean 'write_file'"),
        (setup("write_file", path="x"), "setup_tool.arguments", "content"),
        (setup("scale", by="${word}"), "setup_tool.arguments.by", "integer"),
        (reply(matches="(${n}"), "evaluate[0].reply.matches", "compile"),
        (reply(number="${word}"), "evaluate[0].reply.number", "number"),
        ({"prompt": ""}, "prompt", "empty"),
        ({"id": "t-${word}"}, "id", "two tasks have the id t-alpha"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_field(fields: Any, field: str, words: str) -> None:
    found = errors(**fields)
    assert [one for one, _ in found] == [field] and words in found[0][1], found


def test_a_variable_that_nothing_uses_is_warned_of() -> None:
    tasks = made(variables={**BASE["variables"], "spare": "1..2"})  # type: ignore[dict-item]
    assert [(one.field, one.severity) for one in tasks.problems] == [("variables.spare", "warning")]


def test_a_draft_file_is_yaml_or_json(tmp_path: Path) -> None:
    for name in ("draft.yaml", "draft.json"):
        (tmp_path / name).write_text(json.dumps(BASE))
        draft, problems = load_draft(tmp_path / name, name)
        assert not problems and draft == read_draft(BASE)[0]
    (tmp_path / "draft.yaml").write_text("- a\n")
    assert "a list" in load_draft(tmp_path / "draft.yaml", "d")[1][0].message


# -- the file
# --------------------------------------------------------------------------------------------------

FILES = {
    "array": '\ufeff[\r\n  {"id": "a",  "prompt": "x", "v": 1.50},\r\n {"id": "b", "v": 2} ]\n',
    "lines": '{"id": "a", "prompt": "x"}\n\n{"id": "b", "prompt": "y"}',
    "one": '{\n  "id": "b",\n  "prompt": "y"\n}\n',
    "empty array": "[ ]\n",
    "nothing": "",
}


@pytest.mark.parametrize("kind", FILES)
def test_what_is_in_a_file_stays_when_tasks_are_added(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("t.jsonl" if kind == "lines" else "t.json")
    path.write_bytes(FILES[kind].encode())
    before = [task.id for task in read_tasks(path).tasks] if FILES[kind].strip("\n[ ]") else []
    record = {"id": "new", "prompt": "ü", "mcp_config": {"a": {"command": "x"}}}
    own = [line for line in FILES[kind].strip("[]\n ").split("\r\n") if line.strip("[]")]
    add_tasks(path, [record, {**record, "id": "newer"}], path.name)
    text = path.read_bytes().decode()
    assert all(line.rstrip(" ]") in text for line in own)
    ids = [one["id"] for one in _records(path)]
    assert ids[-2:] == ["new", "newer"] and len(ids) >= len(before) + 2
    with pytest.raises(InputError, match="already"):
        add_tasks(path, [record], path.name)
    assert path.read_bytes().decode() == text


def _records(path: Path) -> list[Any]:
    text = path.read_bytes().decode("utf-8-sig")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    read = json.loads(text)
    return read if isinstance(read, list) else [read]


@pytest.mark.parametrize("kind", ["array", "lines", "one"])
def test_one_task_is_replaced_and_the_others_stay(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("t.jsonl" if kind == "lines" else "t.json")
    path.write_bytes(FILES[kind].encode())
    at = 0 if kind == "one" else 1
    replace_task(path, at, {"id": "c", "prompt": "z\n"}, path.name, before="b")
    records = _records(path)
    assert records[at] == {"id": "c", "prompt": "z\n"}
    if at:
        first = FILES[kind].lstrip("\ufeff[\r\n ").splitlines()[0]
        assert first in path.read_bytes().decode() and len(records) == 2
    with pytest.raises(InputError, match="changed"):
        replace_task(path, at, {"id": "d"}, path.name, before="b")
    if at:
        with pytest.raises(InputError, match="already"):
            replace_task(path, at, {"id": "a"}, path.name, before="c")


def test_tables_are_not_written_into(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="json"):
        add_tasks(tmp_path / "tasks.parquet", [{"id": "a"}], "tasks.parquet")
