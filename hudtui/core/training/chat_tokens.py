"""Conversations as tokens, extended without rendering earlier messages again.

Rendering a conversation again for each reply changes earlier tokens: templates drop earlier
thoughts, and decoding and encoding a text may give other tokens. These transcripts keep the sampled
tokens unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hudtui.core.errors import InputError

_MARK = "\u2042reply\u2042"
_THOUGHT = "hudtui looks whether this thought is kept"


@dataclass
class TokenTranscript:
    """The tokens of one conversation.

    `prompt`, then `completion`, whose `mask` is 1 for tokens of the model and 0 for others.
    """

    prompt: list[int]
    completion: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float | None] | None = None
    """One log probability per token of the completion, 0 for tokens that were not sampled; None if
    the backend gives none."""

    @property
    def ids(self) -> list[int]:
        """Return all tokens: the prompt of the next reply."""
        return self.prompt + self.completion

    def say(self, ids: Sequence[int], logprobs: Sequence[float | None] | None = None) -> None:
        """Add a reply of the model."""
        if logprobs is not None:
            self.logprobs = (
                self.logprobs if self.logprobs is not None else [0.0] * len(self.completion)
            )
            self.logprobs += logprobs
        self.completion += ids
        self.mask += [1] * len(ids)

    def hear(self, ids: Sequence[int]) -> None:
        """Add the tokens of the environment's answer."""
        self.completion += ids
        self.mask += [0] * len(ids)
        if self.logprobs is not None:
            self.logprobs += [0.0] * len(ids)


class ChatTokens:
    """Turns messages into tokens and replies into text, for one tokenizer.

    Raises:
        InputError: The tokenizer has no chat template, or its template does not work for several
            turns.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        if not getattr(tokenizer, "chat_template", None):
            raise InputError(
                "the model's tokenizer has no chat template: it does not know what a conversation "
                "looks like",
                fix="Choose a model that was trained for conversations (often called Instruct).",
            )
        if _MARK not in self._render(
            [{"role": "user", "content": "x"}, {"role": "assistant", "content": _MARK}]
        ):
            raise InputError(
                "the chat template of this model does not show replies as they are",
                fix="Choose another model.",
            )
        self.end = tokenizer.eos_token_id
        asked = [{"role": "user", "content": "x"}]
        opening = self._render(asked, reply_next=True)[len(self._render(asked)) :]
        _, mark, rest = opening.partition("<think>")
        self._lead = (
            "" if "</think>" in rest else mark + rest
        )  # a thought that the template closes is not the reply's

    def check_opening(self, opening: Sequence[Mapping[str, Any]]) -> None:
        """Check that the template shows what stands before each task, such as a system prompt.

        Raises:
            InputError: It does not.
        """
        self._render([*opening, {"role": "user", "content": "x"}], reply_next=True)

    def open(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> TokenTranscript:
        """Return the transcript of a conversation before its first reply.

        `tools` are for models that call them by themselves (`ToolTokens`).
        """
        return TokenTranscript(self._encode(self._render(messages, reply_next=True)))

    def answer(self, text: str, *, ended: bool) -> list[int]:
        """Return the tokens between a reply and the next reply.

        `ended`: the reply has an end token. The returned tokens start with the end of a reply that
        was cut off.
        """
        rest = self._render(
            [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": _MARK},
                {"role": "user", "content": text},
            ],
            reply_next=True,
        ).partition(_MARK)[2]
        eos = self.tokenizer.eos_token
        if ended and eos and rest.startswith(eos):
            rest = rest[len(eos) :]
        return self._encode(rest)

    def answers(self, messages: Sequence[Mapping[str, Any]], *, ended: bool) -> list[int]:
        """Return the tokens of the messages between a reply and the next one; see `answer`."""
        return self.answer(str(messages[-1]["content"]), ended=ended)

    def text(self, ids: Sequence[int]) -> str:
        """Return a reply as text, without its end tokens.

        If the template opens the thought of each reply, the text begins with that opening: else a
        reply that does not close the thought would be misread.
        """
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return self._lead + text

    def keeps_thoughts(self) -> bool:
        """Return whether the template keeps the thoughts of earlier replies."""
        reply = f"<think>{_THOUGHT}</think>\n{_MARK}"
        messages = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": reply},
            {"role": "user", "content": "y"},
        ]
        return _THOUGHT in self._render(messages, reply_next=True)

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        reply_next: bool = False,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        more = {"tools": [dict(tool) for tool in tools]} if tools else {}
        try:
            text: str = self.tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=reply_next,
                **more,
            )
        except Exception as error:  # templates are programs and fail as they like
            system = any(message["role"] == "system" for message in messages)
            fix = "Choose another model." + (
                " Or do without system_prompt in the configuration." if system else ""
            )
            raise InputError(
                "the chat template of this model cannot show a conversation",
                why=str(error),
                fix=fix,
            ) from None
        return text

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids
