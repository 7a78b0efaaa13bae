from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudtui.core.environment.values import Tool
from hudtui.core.errors import InputError
from hudtui.core.gym.lint.check import lint
from hudtui.core.gym.lint.findings import Finding, Fix, TextEdit
from hudtui.core.gym.lint.fixes import apply_fixes, fix_file, fix_text
from hudtui.core.yaml_doc import load_yaml

MOVE = Tool(
    "move",
    "",
    {
        "type": "object",
        "properties": {
            "direction": {"enum": ["left", "right"]},
            "steps": {"type": "integer"},
            "note": {"type": "string"},
        },
        "required": ["direction"],
        "additionalProperties": False,
    },
)
TOOLS = {"move": MOVE, "look": Tool("look", "", {"type": "object", "properties": {}})}

WRONG = """\
# kept: the first comment
job: {name: "Test"}   # kept, too

system_prompt: |
  Play.

  - left(): Go left
    Usage: <tool>lefft()</tool>

  - go(heading): Go somewhere
    Usage: <tool>go("left")</tool>

  That is all.

action_mappings:

    left:              # four blanks here
        _tool: mvoe    # a slip
        directoin:   Left
    go:
        "_tool": 'Move'
        _parser: {positional: [ heading ]}   # blanks inside
        direction: {from_arg: "headign"}
        steps: "3"
        note: 12

rubric:
  weights: {task_completion: 0.8, tool_execution: 0.1, format_compliance: 0.1}
parser:
   xml_weight: 0.5
# the end, without a line end"""

RIGHT = """\
# kept: the first comment
job: {name: "Test"}   # kept, too

system_prompt: |
  Play.

  - left(): Go left
    Usage: <tool>left()</tool>

  - go(heading): Go somewhere
    Usage: <tool>go("left")</tool>
  - done(): End the episode when the task is complete.
    Usage: <tool>done()</tool>

  That is all.

action_mappings:

    left:              # four blanks here
        _tool: move    # a slip
        direction:   left
    go:
        "_tool": 'move'
        _parser: {positional: [ heading ]}   # blanks inside
        direction: {from_arg: "heading"}
        steps: 3
        note: "12"

rubric:
  weights: {task_completion: 0.8, tool_execution: 0.1, format_compliance: 0.1}
parser:
   use_thinking: true
   xml_weight: 0.5
# the end, without a line end
defaults:
  max_turns: 30
"""


def test_everything_certain_is_repaired_and_nothing_else_touched() -> None:
    fixed = fix_text(WRONG, name="x", tools=TOOLS)
    assert fixed.text == RIGHT
    assert fixed.findings == lint(RIGHT, name="x", tools=TOOLS) == ()
    assert sorted(finding.code for finding in fixed.applied) == sorted(
        [
            "no-defaults",
            "no-thinking",
            "no-done",
            "described-not-mapped",
            "unknown-tool",
            "unknown-tool",
            "unknown-parameter",
            "enum-mismatch",
            "from-arg",
            "type-mismatch",
            "type-mismatch",
        ]
    )


def test_a_second_time_changes_nothing() -> None:
    again = fix_text(RIGHT, name="x", tools=TOOLS)
    assert (again.text, again.applied) == (RIGHT, ())


def test_what_is_not_certain_stays() -> None:
    text = RIGHT.replace("_tool: move ", "_tool: jump ").replace(
        "direction:   left", "direction:   up"
    )
    fixed = fix_text(text, name="x", tools=TOOLS)
    assert fixed.text == text and fixed.applied == ()
    assert [finding.code for finding in fixed.findings] == ["unknown-tool"]


def test_what_comes_to_light_behind_a_repair_is_no_reason_against_it() -> None:
    text = RIGHT.replace("_tool: move ", "_tool: mvoe ").replace(
        "direction:   left", "speed:   left"
    )
    fixed = fix_text(text, name="x", tools=TOOLS)
    assert [finding.code for finding in fixed.applied] == ["unknown-tool"]
    assert {finding.code for finding in fixed.findings} == {"unknown-parameter", "missing-required"}


class TestApply:
    def finding(self, *edits: tuple[int, int, int, int, str]) -> Finding:
        return Finding("x", "error", "x", fix=Fix("x", tuple(TextEdit(*edit) for edit in edits)))

    def test_several_edits(self) -> None:
        found = [
            self.finding((1, 1, 1, 2, "A"), (2, 2, 2, 2, "!")),
            self.finding((2, 1, 2, 2, "Z")),
        ]
        assert apply_fixes("abc\nxyz\n", found) == "Abc\nZ!yz\n"

    def test_of_two_that_overlap_the_first_counts(self) -> None:
        found = [
            self.finding((1, 1, 1, 3, "1")),
            self.finding((1, 2, 1, 4, "2")),
            self.finding((1, 4, 1, 5, "3")),
        ]
        assert apply_fixes("abcde", found) == "1c3e"

    def test_all_edits_of_a_fix_or_none(self) -> None:
        found = [
            self.finding((1, 1, 1, 2, "1")),
            self.finding((1, 1, 1, 2, "2"), (1, 3, 1, 4, "2")),
        ]
        assert apply_fixes("abc", found) == "1bc"

    @pytest.mark.parametrize(
        "edit", [(9, 1, 9, 2, "x"), (1, 9, 1, 10, "x"), (1, 3, 1, 1, "x"), (0, 1, 0, 1, "x")]
    )
    def test_a_place_that_is_not_there(self, edit: tuple[int, int, int, int, str]) -> None:
        assert apply_fixes("abc\n", [self.finding(edit)]) == "abc\n"

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_line_ends_stay(self, end: str) -> None:
        assert apply_fixes(f"a{end}b{end}c", [self.finding((2, 1, 2, 2, "B"))]) == f"a{end}B{end}c"

    def test_findings_without_a_fix(self) -> None:
        assert apply_fixes("abc", [Finding("x", "error", "x")]) == "abc"


class TestFiles:
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    @pytest.mark.parametrize(
        "encoding, mark", [("utf-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe")]
    )
    def test_encoding_and_line_ends_stay(
        self, tmp_path: Path, end: str, encoding: str, mark: bytes
    ) -> None:
        path = tmp_path / "config.yaml"
        path.write_bytes(mark + WRONG.replace("\n", end).encode(encoding))
        fixed = fix_file(path, tools=TOOLS)
        assert path.read_bytes() == mark + RIGHT.replace("\n", end).encode(encoding)
        assert len(fixed.applied) == 11 and fixed.findings == ()

    def test_a_clean_file_is_not_written(self, tmp_path: Path) -> None:
        path = tmp_path / "config.yaml"
        path.write_text(RIGHT)
        before = path.stat()
        fix_file(path, tools=TOOLS)
        after = path.stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_a_file_that_cannot_be_replaced_is_left_whole(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import errno
        import os

        path = tmp_path / "config.yaml"
        path.write_text(WRONG)

        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="cannot be written"):
            fix_file(path, tools=TOOLS)
        assert path.read_text() == WRONG and list(tmp_path.iterdir()) == [path]

    def test_no_text_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            fix_file(tmp_path / "missing.yaml")
        (tmp_path / "binary").write_bytes(b"\xff\x00\xff")
        with pytest.raises(InputError, match="not UTF-8"):
            fix_file(tmp_path / "binary")


class TestInsertions:
    @pytest.mark.parametrize(
        "text",
        [
            "job: 1",
            "job: 1\n",
            "job: 1\n\n\n",
            "job: |\n  text\n",
            "job: |+\n  text\n\n",
            "job:\n- 1\n",
            "---\njob: 1\n",
            "job: 1 # comment",
            "job: 1\n# comment",
            "  # odd\njob: 1\n",
            '"job": 1\n',
            "job: 1\nparser:\n  xml_weight: 1\n",
            "job: 1\nparser:\n        # deep\n        xml_weight: 1\n",
            "job: 1\ndefaults:\n  other: 1\n",
        ],
    )
    def test_settings_are_written_where_they_count(self, text: str) -> None:
        fixed = fix_text(text, name="x")
        before, after = load_yaml(text, name="x").data, load_yaml(fixed.text, name="x").data
        assert after["defaults"]["max_turns"] == 30 and after["parser"]["use_thinking"] is True
        after["defaults"].pop("max_turns")
        after["parser"].pop("use_thinking")
        assert {key: value for key, value in after.items() if value != {}} == before

    @pytest.mark.parametrize(
        "text",
        [
            '{"job": 1}',
            "{job: 1}\n",
            "job: 1\n...\n",
            "  job: 1\n",
            "parser: {}\ndefaults: {}\n",
            "parser:\ndefaults:\n",
            "job:\n- b: |\n    text",
        ],
    )
    def test_where_that_is_not_sure_nothing_is_written(self, text: str) -> None:
        assert fix_text(text, name="x").text == text

    @pytest.mark.parametrize(
        "prompt",
        [
            "system_prompt: >\n  - go(): x\n    Usage: <tool>go()</tool>\n",
            'system_prompt: "- go(): x\\n  Usage: <tool>go()</tool>"\n',
            "system_prompt: |\n  just words\n",
            "system_prompt: one line\n",
        ],
    )
    def test_done_is_described_only_in_prompts_of_the_usual_form(self, prompt: str) -> None:
        fixed = fix_text(prompt, name="x")
        assert prompt.rstrip("\n") in fixed.text
        assert "no-done" in {finding.code for finding in fixed.findings}

    def test_done_follows_the_indentation_of_its_neighbours(self) -> None:
        fixed = fix_text(
            "system_prompt: |2\n    * go(): x\n      Usage: <tool>go()</tool>\n    bye\n", name="x"
        )
        assert (
            "\n    - done(): End the episode when the task is complete.\n      Usage: "
            "<tool>done()</tool>\n    bye\n" in fixed.text
        )


SLIPS = st.lists(
    st.sampled_from(
        [
            ("_tool: move", "_tool: mvoe"),
            ("_tool: move", "_tool: jump"),
            ("direction:", "directoin:"),
            ("direction:", "speed:"),
            ("left\n", "Left\n"),
            ("left\n", "nowhere\n"),
            ("steps: 3", "steps: '3'"),
            ("<tool>left()", "<tool>left"),
            ("<tool>left()", "<tool>lefft()"),
            ("- left()", "- lefft()"),
            ("Usage: <tool>done()</tool>", ""),
            ("- done()", "- x"),
            ("   use_thinking: true\n", ""),
            ("\ndefaults:\n  max_turns: 30\n", ""),
            ('from_arg: "heading"', "from_arg: headign"),
            ("positional: [ heading ]", "positional: [ heading, other ]"),
            ("_parser:", "_parsr:"),
            ("job:", "jbo:"),
        ]
    ),
    max_size=8,
)


@given(SLIPS)
@settings(max_examples=80, deadline=None)
def test_repairs_end_remove_what_they_name_and_keep_all_comments(
    slips: list[tuple[str, str]],
) -> None:
    text = RIGHT
    for right, wrong in slips:
        text = text.replace(right, wrong)
    before = lint(text, name="x", tools=TOOLS)
    fixed = fix_text(text, name="x", tools=TOOLS)
    assert fixed.findings == lint(fixed.text, name="x", tools=TOOLS)
    assert [finding for finding in fixed.findings if finding.fix is not None] == []
    assert fix_text(fixed.text, name="x", tools=TOOLS).text == fixed.text
    for comment in (
        "# kept: the first comment",
        "# kept, too",
        "# four blanks here",
        "# a slip",
        "# blanks inside",
        "# the end",
    ):
        assert comment in fixed.text
    assert bool(fixed.applied) == any(finding.fix is not None for finding in before)


GUESSED = """\
job: {name: t}
system_prompt: |
  - go(where): Go
    Usage: <tool>go("left")</tool>
  - leepa(): A slip that may be several things
action_mappings:
  go:
    _tool: movers
    _parser: {positional: [where, whence]}
    direction: {from_arg: whee}
    steps: {from_ag: where}
  leaps:
    _tool: move
    direction: leftish
    steppe: 1
parser: {use_thinking: true}
defaults: {max_turns: 3}
"""


def test_what_did_you_mean_suggests_can_be_carried_out_one_by_one() -> None:
    text = GUESSED
    done = []
    for _ in range(20):
        found = next(
            (one for one in lint(text, name="c.yaml", tools=TOOLS) if one.guess is not None), None
        )
        if found is None:
            break
        assert found.fix is None and found.guess is not None and "did you mean" in found.message
        done.append(found.guess.title)
        changed = apply_fixes(text, (replace(found, fix=found.guess),))
        assert changed != text
        text = changed
    assert {
        "call `move`",
        "take it from `where`",
        "rename to `from_arg`",
        "rename to `steps`",
    } <= set(done), done
    config = load_yaml(text, name="c.yaml").data
    assert config["action_mappings"]["go"] == {
        "_tool": "move",
        "_parser": {"positional": ["where", "whence"]},
        "direction": {"from_arg": "where"},
        "steps": {"from_arg": "where"},
    }


def test_fixing_all_carries_out_no_guess() -> None:
    assert "movers" in fix_text(GUESSED, name="c.yaml", tools=TOOLS).text
