"""Conversations as tokens: what the model said and what it was told, joined without rendering the conversation again.

Rendering a conversation again for each reply changes tokens of the past: templates drop earlier thoughts, and text that is
decoded and encoded need not give the same tokens. Here the tokens that were sampled stay as they were.
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
    """The tokens of one conversation: `prompt`, then `completion`, whose `mask` is 1 for tokens of the model and 0 for others."""

    prompt: list[int]
    completion: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float | None] | None = None
    """One a token of the completion, 0 for those that are not the model's; None where the backend gives none."""

    @property
    def ids(self) -> list[int]:
        """Return all tokens, the prompt of the next reply."""
        return self.prompt + self.completion

    def say(self, ids: Sequence[int], logprobs: Sequence[float | None] | None = None) -> None:
        """Add what the model said."""
        if logprobs is not None:
            self.logprobs = self.logprobs if self.logprobs is not None else [0.0] * len(self.completion)
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

    Args:
        tokenizer: Of `transformers`, with a chat template.

    Raises:
        InputError: There is no chat template, or it cannot be used for several turns.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        if not getattr(tokenizer, "chat_template", None):
            raise InputError(
                "the model's tokenizer has no chat template: it does not know what a conversation looks like",
                fix="Choose a model that was trained for conversations (often called Instruct).",
            )
        if _MARK not in self._render([{"role": "user", "content": "x"}, {"role": "assistant", "content": _MARK}]):
            raise InputError("the chat template of this model does not show replies as they are", fix="Choose another model.")
        self.end = tokenizer.eos_token_id
        asked = [{"role": "user", "content": "x"}]
        opening = self._render(asked, reply_next=True)[len(self._render(asked)) :]
        _, mark, rest = opening.partition("<think>")
        self._lead = mark + rest

    def open(self, messages: Sequence[Mapping[str, Any]]) -> TokenTranscript:
        """A conversation that waits for its first reply."""
        return TokenTranscript(self._encode(self._render(messages, reply_next=True)))

    def answer(self, text: str, *, ended: bool) -> list[int]:
        """Tokens that stand between a reply and the next one.

        Args:
            text: What the model is told.
            ended: The reply has its own end; otherwise it was cut off, and its end is among these tokens.
        """
        rest = self._render(
            [{"role": "user", "content": "x"}, {"role": "assistant", "content": _MARK}, {"role": "user", "content": text}],
            reply_next=True,
        ).partition(_MARK)[2]
        eos = self.tokenizer.eos_token
        if ended and eos and rest.startswith(eos):
            rest = rest[len(eos) :]
        return self._encode(rest)

    def text(self, ids: Sequence[int]) -> str:
        """A reply as text, without the marks of its end.

        Where the template itself opens the thought of each reply, what it says is part of the text: the reply would be misread.
        """
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return self._lead + text

    def keeps_thoughts(self) -> bool:
        """Whether a thought in an earlier reply is still there when the conversation goes on."""
        reply = f"<think>{_THOUGHT}</think>\n{_MARK}"
        messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": reply}, {"role": "user", "content": "y"}]
        return _THOUGHT in self._render(messages, reply_next=True)

    def _render(self, messages: Sequence[Mapping[str, Any]], *, reply_next: bool = False) -> str:
        try:
            text: str = self.tokenizer.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=reply_next
            )
        except Exception as error:  # templates are programs and fail as they like
            raise InputError("the chat template of this model cannot show a conversation", why=str(error)) from None
        return text

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


def chat_tokens_for(tokenizer: Any, *, thinking: bool) -> tuple[ChatTokens, str | None]:
    """A scribe whose template agrees with itself over turns, and a warning when the template had to be replaced.

    Args:
        tokenizer: Its template is replaced by TRL's training template where it drops earlier thoughts.
        thinking: The configuration asks for thoughts; otherwise there is nothing to drop.

    Raises:
        InputError: The template cannot be used, and there is no other for this model.
    """
    scribe = ChatTokens(tokenizer)
    if not thinking or scribe.keeps_thoughts():
        return scribe, None
    from trl.chat_template_utils import get_training_chat_template

    try:
        template = get_training_chat_template(tokenizer)
    except ValueError:
        template = None
    if template is not None:
        tokenizer.chat_template = template
        scribe = ChatTokens(tokenizer)
        if scribe.keeps_thoughts():
            return (
                scribe,
                "the model's chat template drops earlier thoughts; a training template replaces it, here and beside the adapter",
            )
    raise InputError(
        "the model's chat template drops earlier thoughts: what is trained is not what would be asked later",
        fix="Set parser.use_thinking to false in the configuration, or choose another model, such as one of Qwen2.5-Instruct.",
    )
