"""Tool calls as tokens: what is trained is what the template renders."""

from __future__ import annotations

from typing import Any

import pytest
from support.letters import Letters, ToolLetters

from hudtui.core.errors import InputError
from hudtui.core.training.tool_tokens import ToolTokens

TOOLS = [{"type": "function", "function": {"name": "left", "parameters": {}}}]


def test_replies_and_answers_are_what_the_template_renders() -> None:
    letters = ToolLetters()
    scribe = ToolTokens(letters)
    assert scribe.keeps_prefixes() and scribe.keeps_prefixes(thinking=True)
    asked = [{"role": "user", "content": "Go."}]
    transcript = scribe.open(asked, TOOLS)
    assert '"left"' in letters.decode(transcript.prompt)
    said = '<tool_call>{"name": "left", "arguments": {}}</tool_call>'
    transcript.say([*letters(said, add_special_tokens=False)["input_ids"], 1])
    heard = {"role": "tool", "tool_call_id": "call00000", "content": "2 4"}
    transcript.hear(scribe.answers([heard], ended=True))
    shown = letters.decode(transcript.completion)
    assert shown == f"{said}<|end|>\n<|start|>tool\n2 4<|end|>\n<|start|>assistant\n"
    trained = [
        one for one, kept in zip(transcript.completion, transcript.mask, strict=True) if kept
    ]
    assert letters.decode(trained) == f"{said}<|end|>"


def test_a_refusal_in_words_is_answered_as_a_message() -> None:
    letters = ToolLetters()
    told = ToolTokens(letters).answers([{"role": "user", "content": "error: no"}], ended=False)
    assert letters.decode(told) == "<|end|>\n<|start|>user\nerror: no<|end|>\n<|start|>assistant\n"


def test_a_reply_keeps_the_marks_of_its_call() -> None:
    letters = ToolLetters()
    ids = letters("<tool_call>{}</tool_call>", add_special_tokens=False)["input_ids"]
    assert ToolTokens(letters).text([*ids, 1, 2, 2]) == "<tool_call>{}</tool_call>"


def test_a_template_that_changes_earlier_turns_is_found() -> None:
    assert not ToolTokens(ToolLetters(forgets=True)).keeps_prefixes()


class Deaf(ToolLetters):
    def apply_chat_template(self, messages: Any, **more: Any) -> str:
        return super().apply_chat_template(messages, **{**more, "tools": ()})


@pytest.mark.parametrize(
    ("letters", "why"),
    [
        (Deaf(), "takes no tools"),
        (ToolLetters("<call>%s</call>"), "in a form that hudtui does not read"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(letters: Letters, why: str) -> None:
    with pytest.raises(InputError, match=why) as refused:
        ToolTokens(letters)
    assert "parser.dialect" in str(refused.value.fix)
