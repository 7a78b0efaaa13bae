"""A tokenizer that needs no library: enough of transformers' for `ChatTokens`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


class Letters:
    """A tokenizer with one token a character; the three marks of a conversation are tokens of their
    own."""

    MARKS = ("<|start|>", "<|end|>", "<|pad|>")
    eos_token, eos_token_id, pad_token_id = "<|end|>", 1, 2
    chat_template: str | None = "as in apply_chat_template"

    def __init__(self, *, drops_thoughts: bool = False, opens: str = "") -> None:
        self.drops_thoughts = drops_thoughts
        self.opens = opens

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        assert tokenize is False
        text = ""
        for number, message in enumerate(messages):
            content = message["content"]
            if (
                self.drops_thoughts
                and message["role"] == "assistant"
                and number < len(messages) - 1
            ):
                content = content.partition("</think>")[2] or content
            text += f"<|start|>{message['role']}\n{content}<|end|>\n"
        return text + ("<|start|>assistant\n" + self.opens if add_generation_prompt else "")

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        assert add_special_tokens is False
        ids: list[int] = []
        while text:
            mark = next((mark for mark in self.MARKS if text.startswith(mark)), None)
            ids.append(self.MARKS.index(mark) if mark else ord(text[0]) + 10)
            text = text[len(mark) if mark else 1 :]
        return {"input_ids": ids}

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return "".join(
            "" if skip_special_tokens and i < 3 else self.MARKS[i] if i < 3 else chr(i - 10)
            for i in ids
        )


class ToolLetters(Letters):
    """A template that is given tools, and writes calls in tags."""

    def __init__(self, form: str = "<tool_call>%s</tool_call>", *, forgets: bool = False) -> None:
        super().__init__()
        self.form, self.forgets = form, forgets

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tokenize: bool,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        shown = []
        for number, message in enumerate(messages):
            content = str(message["content"])
            for call in message.get("tool_calls") or ():
                function = {key: call["function"][key] for key in ("name", "arguments")}
                assert isinstance(function["arguments"], dict)
                content += self.form % json.dumps(function)
            if self.forgets and message["role"] == "assistant" and number < len(messages) - 2:
                content = "(forgotten)"
            shown.append({"role": message["role"], "content": content})
        named = f"<|start|>tools\n{json.dumps(list(tools))}<|end|>\n" if tools else ""
        return named + super().apply_chat_template(
            shown, tokenize=tokenize, add_generation_prompt=add_generation_prompt
        )
