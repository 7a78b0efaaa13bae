"""Conversations with tool calls as tokens, in the form of a model's own chat template."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.gym.dialects.native import read_native
from hudtui.core.gym.reply import Call
from hudtui.core.training.chat_tokens import ChatTokens, TokenTranscript

_MARK = "hudtui-marks-this-argument"  # all ASCII: templates escape what is not
_ASKED = {"role": "user", "content": "x"}
_TOOL = {
    "type": "function",
    "function": {
        "name": "hudtui_probe",
        "description": "A probe.",
        "parameters": {"type": "object", "properties": {"value": {"type": "string"}}},
    },
}
_EPISODES = 50
_OTHERWISE = "Set parser.dialect to text or hermes in the configuration (--dialect), or choose "
_FIX = _OTHERWISE + "another model, such as one of Qwen2.5-Instruct."
_VALUES: tuple[Any, ...] = (
    "left",
    7,
    -1.5,
    True,
    None,
    [1, "x"],
    {"a": {"b": []}},
    "it's \u65e5\u672c",
    "two\nlines",
    "",
)


class ToolTokens(ChatTokens):
    """`ChatTokens` of a model that is given tools.

    Raises:
        InputError: The template takes no tools, or writes calls in a form that is not read here.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        if "hudtui_probe" not in self._render([_ASKED], tools=[_TOOL]):
            raise InputError("the chat template of this model takes no tools", fix=_FIX)
        arguments = {"value": "a", "n": [1, {"b": None}]}
        reply = self.reply([_ASKED], _calling([("hudtui_probe", arguments)]), [_TOOL])
        read = read_native(self._spoken(reply), False).calls
        wanted = ("hudtui_probe", arguments)
        if [(one.name, one.kwargs) for one in read if isinstance(one, Call)] != [wanted]:
            raise InputError(
                "the chat template of this model writes tool calls in a form that hudtui does not "
                "read",
                fix=_FIX,
            )

    def open(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> TokenTranscript:
        """Return the transcript of a conversation before its first reply."""
        return TokenTranscript(self._encode(self._render(messages, reply_next=True, tools=tools)))

    def answers(self, messages: Sequence[Mapping[str, Any]], *, ended: bool) -> list[int]:
        """Return the tokens between a reply and the next one; see `ChatTokens.answers`."""
        if messages[0]["role"] != "tool":
            return super().answers(messages, ended=ended)
        calls = [("hudtui_probe", {"value": _MARK}) for _ in messages]
        names = [str(message["tool_call_id"]) for message in messages]
        said = _calling(calls, names)
        text = self._render([_ASKED, said, *messages], reply_next=True).rpartition(_MARK)[2]
        eos = str(self.tokenizer.eos_token)
        _, mark, rest = text.partition(eos)
        if not mark:
            raise InputError(
                "the chat template of this model does not end a tool call with its end token",
                fix=_FIX,
            )
        return self._encode(rest if ended else eos + rest)

    def text(self, ids: Sequence[int]) -> str:
        """Return a reply as text, with the marks of its calls."""
        return self._lead + self._spoken(self.tokenizer.decode(list(ids)))

    def _spoken(self, text: str) -> str:
        """A reply without its end tokens."""
        return text.partition(str(self.tokenizer.eos_token))[0]

    def reply(
        self,
        before: Sequence[Mapping[str, Any]],
        message: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]],
    ) -> str:
        """Return a message as the template has the model write it, with its end token.

        Raises:
            InputError: The template writes what stands before it otherwise where it follows.
        """
        opening = self._render(before, reply_next=True, tools=tools)
        whole = self._render([*before, message], tools=tools)
        if not whole.startswith(opening):
            raise InputError("the chat template of this model changes earlier turns", fix=_FIX)
        eos = str(self.tokenizer.eos_token)
        text, mark, _ = whole[len(opening) :].partition(eos)
        return text + mark

    def keeps_prefixes(self, *, thinking: bool = False, seed: int = 0) -> bool:
        """Return whether replies and answers, token by token, are what the template renders.

        Tool episodes are generated, and at each turn the tokens of the transcript are compared with
        those of the conversation rendered anew.
        """
        choice = random.Random(seed)
        try:
            return all(self._keeps(choice, thinking) for _ in range(_EPISODES))
        except InputError:
            return False

    def _keeps(self, choice: random.Random, thinking: bool) -> bool:
        system = [{"role": "system", "content": "Act."}] if choice.random() < 0.5 else []
        messages: list[Mapping[str, Any]] = [*system, {"role": "user", "content": "Begin."}]
        transcript = self.open(messages, [_TOOL])
        for turn in range(choice.randint(1, 4)):
            arguments = {"value": choice.choice(_VALUES), "n": choice.choice(_VALUES)}
            name = f"call{turn:05}"
            said = _calling([("hudtui_probe", arguments)], [name])
            if thinking:
                said["reasoning_content"] = f"Thought {turn}."
            reply = self.reply(messages, said, [_TOOL])
            heard = {"role": "tool", "tool_call_id": name, "content": f"Answer {turn}."}
            transcript.say(self._encode(reply))
            transcript.hear(self.answers([heard], ended=reply.endswith(self.tokenizer.eos_token)))
            messages += [said, heard]
            again = self._encode(self._render(messages, reply_next=True, tools=[_TOOL]))
            if transcript.ids != again:
                return False
        return True

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        reply_next: bool = False,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        rendered = [_with_objects(message) for message in messages]
        return super()._render(rendered, reply_next=reply_next, tools=tools)


def _calling(
    calls: Sequence[tuple[str, Mapping[str, Any]]], names: Sequence[str] = ("call00000",)
) -> dict[str, Any]:
    """A message that makes calls."""
    entries = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": dict(arguments)}}
        for key, (name, arguments) in zip(names, calls, strict=True)
    ]
    return {"role": "assistant", "content": "", "tool_calls": entries}


def _with_objects(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message for a template: with arguments as objects, where an endpoint wants their text."""
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    entries = []
    for call in calls:
        function, arguments = call["function"], call["function"]["arguments"]
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
        entries.append({**call, "function": {**function, "arguments": value}})
    return {**message, "tool_calls": entries}
