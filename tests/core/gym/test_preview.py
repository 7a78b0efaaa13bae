from __future__ import annotations

from pathlib import Path

import pytest

from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.errors import InputError
from hudtui.core.gym.config import parse_config
from hudtui.core.gym.editing.autosave import (
    FileStamp,
    delete_copy,
    file_stamp,
    find_copy,
    save_copy,
    unified_diff,
)
from hudtui.core.gym.editing.preview import (
    action_rows,
    agent_tools,
    describe_call,
    describe_check,
    example_call,
    prompt_examples,
)
from hudtui.core.gym.editing.samples import Samples, samples_from_replies
from hudtui.core.gym.interpreter import Interpreter, reply_in
from hudtui.core.gym.values import GymConfig
from hudtui.core.paths import app_paths

TEXT = """\
job: {name: t}
system_prompt: |
  - go(where): Go
    Usage: <tool>go("left")</tool>
  - done(): End
action_mappings:
  go:
    _tool: move
    _parser: {positional: [where]}
    direction: {from_arg: where, transform: "lambda w: w.lower()"}
    times: {static: 1}
  jump:
    _tool: leap
    _parser: {positional: [height, at]}
    height: {from_arg: height, transform: "lambda h: int(h) * 2"}
    at: {from_arg: at}
  bad:
    _tool: move
    x: {from_arg: [nothing]}
"""
TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "move",
            "",
            {
                "type": "object",
                "properties": {
                    "direction": {"enum": ["left", "right"]},
                    "times": {"type": "integer"},
                },
                "required": ["direction"],
            },
        ),
        Tool(
            "leap",
            "",
            {
                "type": "object",
                "properties": {
                    "height": {"type": "integer", "minimum": 4},
                    "at": {"type": "array", "items": {"type": "integer"}},
                },
                "required": ["height", "at"],
            },
        ),
        Tool("setup", "", None, "setup"),
    )
}


def config(text: str = TEXT) -> GymConfig:
    found, _ = parse_config(text, name="c.yaml")
    assert found is not None
    return found


def test_every_action_has_a_row() -> None:
    rows = action_rows(config(), TOOLS)
    assert [(row.action, row.origin, row.verdict) for row in rows] == [
        ("go", "prompt", "ok"),
        ("jump", "made up", "ok"),
        ("bad", "made up", "broken"),
    ]
    assert rows[0].words == 'move(direction="left", times=1)'
    changed = config(TEXT.replace("w.lower()", "w.upper()"))
    after = action_rows(changed, TOOLS)
    assert (
        after[0].verdict == "error"
        and after[0].words.startswith("schema: ")
        and after[1] == rows[1]
    )
    assert action_rows(changed, None)[0].verdict == "ok"
    fewer = config(TEXT + "actions: [go]\n")
    assert fewer.left_out == ("jump", "bad")
    assert [(row.action, row.verdict) for row in action_rows(fewer, TOOLS)] == [
        ("go", "ok"),
        ("jump", "left out"),
        ("bad", "left out"),
    ]


def test_a_made_up_example_passes_transforms_and_schema() -> None:
    text = example_call(config().mappings["jump"], TOOLS)
    meaning = Interpreter(config(), TOOLS).interpret(reply_in(config(), text))
    assert meaning.error is None and describe_call(meaning).startswith("leap(height=")


def test_the_tools_of_a_task_are_not_the_agents() -> None:
    assert list(agent_tools(Analysis("x", tools=tuple(TOOLS.values())))) == ["move", "leap"]


def test_examples_of_the_prompt() -> None:
    assert prompt_examples(config()) == {"go": ('go("left")',)}


def test_samples_are_offered_once() -> None:
    replies = [("r", "mine"), ("r", "<tool>go(1)</tool>"), ("r", "<tool>go(2)</tool>")]
    samples = Samples("mine", samples_from_replies(replies))
    offered = samples.all(config(), TOOLS)
    texts = [sample.text for sample in offered]
    assert len(texts) == len(set(texts)) and texts[:2] == ["mine", "<tool>go(1)</tool>"]
    labels = [sample.label for sample in offered]
    assert {"r", "usage in the prompt", "made up for jump", "no tags at all"} <= set(labels)


def test_different_replies_of_rollouts_come_first() -> None:
    replies = [("a", f"<tool>go({n})</tool>") for n in range(5)] + [("b", "<tool>jump(1)</tool>")]
    assert [sample.text for sample in samples_from_replies(replies, 3)] == [
        "<tool>go(0)</tool>",
        "<tool>jump(1)</tool>",
        "<tool>go(1)</tool>",
    ]


def test_unsaved_work_is_found_again_until_it_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    save_copy(tmp_path, file, "new\n", "2026-11-20T12:00:00+00:00")
    found = find_copy(tmp_path, file, "old\n")
    assert found is not None and (found.text, found.saved_at) == (
        "new\n",
        "2026-11-20T12:00:00+00:00",
    )
    assert find_copy(tmp_path, file, "new\n") is None
    (copy,) = (tmp_path / ".hudtui" / "recovery").iterdir()
    assert copy.stat().st_mode & 0o777 == 0o600
    delete_copy(tmp_path, file)
    delete_copy(tmp_path, file)
    assert find_copy(tmp_path, file, "old\n") is None


def test_where_the_project_cannot_be_written_to_the_copy_goes_to_the_users_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / ".hudtui").write_text("in the way")
    file = tmp_path / "c.yaml"
    kept = save_copy(tmp_path, file, "new\n", "2026-11-20T12:00:00+00:00")
    assert kept.is_relative_to(app_paths().state) and kept.stat().st_mode & 0o777 == 0o600
    found = find_copy(tmp_path, file, "old\n")
    assert found is not None and found.text == "new\n"
    (tmp_path / ".hudtui").unlink()
    assert save_copy(tmp_path, file, "newer\n", "2026-11-20T12:00:05+00:00").is_relative_to(
        tmp_path
    )
    assert not kept.exists()  # one copy is enough
    delete_copy(tmp_path, file)
    assert find_copy(tmp_path, file, "old\n") is None


def test_the_newer_of_two_copies_counts(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    save_copy(tmp_path, file, "first\n", "2026-11-20T12:00:00+00:00")
    (tmp_path / ".hudtui").rename(tmp_path / "away")
    (tmp_path / ".hudtui").write_text("the disk is full for a while")
    save_copy(tmp_path, file, "second\n", "2026-11-20T12:00:05+00:00")
    (tmp_path / ".hudtui").unlink()
    (tmp_path / "away").rename(tmp_path / ".hudtui")
    found = find_copy(tmp_path, file, "old\n")
    assert found is not None and found.text == "second\n"
    delete_copy(tmp_path, file)
    assert find_copy(tmp_path, file, "old\n") is None


def test_no_place_for_a_copy_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".hudtui").write_text("in the way")
    app_paths().state.parent.mkdir(parents=True, exist_ok=True)
    app_paths().state.write_text("in the way, too")
    with pytest.raises(InputError, match="cannot be written"):
        save_copy(tmp_path, tmp_path / "c.yaml", "new\n", "2026-11-20T12:00:00+00:00")


def test_a_changed_file_has_another_stamp(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    assert file_stamp(file) == FileStamp()
    file.write_text("a")
    first = file_stamp(file)
    assert file_stamp(file) == first != FileStamp()
    file.write_text("ab")
    assert file_stamp(file) != first
    assert (
        "+b" in unified_diff("a\n", "a\nb\n", "one", "two")
        and unified_diff("a", "a", "one", "two") == ""
    )


def test_a_check_that_was_given_up_says_so():
    schema = {"properties": {"text": {"pattern": r"^(.)\1$"}}}
    text = (
        "action_mappings:\n  type:\n    _parser: {positional: [text]}\n    _tool: t\n    text: "
        "{from_arg: text}\n"
    )
    config, _ = parse_config(text, name="c.yaml")
    assert config is not None
    meaning = Interpreter(config, {"t": Tool("t", "", schema)}).interpret("<tool>type('ab')</tool>")
    assert meaning.call is not None
    assert not meaning.checked
    assert (
        describe_check(meaning)
        == r"not checked: the pattern ^(.)\1$ cannot be looked for in a bounded time"
    )
