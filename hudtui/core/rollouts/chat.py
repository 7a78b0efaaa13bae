"""Models behind an OpenAI-compatible endpoint.

One chat completion a turn, with retries, time limits and clear words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias
from urllib.parse import urlsplit

from hudtui.core.errors import HudtuiError
from hudtui.core.gym.dialects.native import message_text
from hudtui.core.gym.reply import as_thought
from hudtui.core.http import (
    HttpAnswer,
    HttpClient,
    HttpError,
    Retry,
    keeps_secrets,
    parse_address,
    require_key,
)
from hudtui.core.rollouts.values import ContextFull, Message
from hudtui.core.settings import DEFAULT_BASE_URL
from hudtui.core.text import clean_line, estimated_tokens

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_NO_QUOTA = "insufficient_quota"
_WORDED = {
    "quota": 429,
    "rate": 429,
    "authentication": 401,
    "api_key": 401,
    "permission": 403,
    "not_found": 404,
    "invalid": 400,
}
"""Words in the code of an error -> the status that it means."""
REPLY_LIMIT = 1_000_000
"""Characters of a reply beyond which it is no reply but a runaway."""
_MOST_BYTES = 16 << 20
_THINKING = frozenset({"thinking", "reasoning"})
"""Types of parts of a message that hold what the model thinks."""
_FULL = re.compile(
    r"context[ _](?:length|window|size)|(?:prompt|input) is too long|too many (?:input )?tokens"
    r"|max_model_len",
    re.I,
)
"""Errors of servers about a conversation that has no room left."""
_NO_TOOLS = re.compile(r"\btools?\b|tool[ _-](?:choice|use|call)|function[ _]call", re.I)
"""Errors of servers about tools in a request."""
_IMAGE_TOKENS = 1_000


Tools: TypeAlias = Sequence[Mapping[str, Any]]
"""Tools in the form of a request: `{"type": "function", "function": {...}}` each."""


class PolicyError(HudtuiError):
    """A policy cannot say what to do next.

    Args:
        fatal: No other episode can succeed either (a wrong key, an unknown model).
        down: The endpoint gave no answer, or failed by itself, at all attempts.
    """

    def __init__(
        self,
        what: str,
        *,
        why: str | None = None,
        fix: str | None = None,
        fatal: bool = False,
        down: bool = False,
    ) -> None:
        super().__init__(what, why=why, fix=fix)
        self.fatal = fatal
        self.down = down


@dataclass(frozen=True)
class ChatOptions:
    """Address and key of a model, and the settings of its answers."""

    base_url: str = DEFAULT_BASE_URL
    """Up to and without `/chat/completions`."""
    key: str | None = field(default=None, repr=False)
    key_name: str = "OPENAI_API_KEY"
    """Source of the key, for messages to the user."""
    temperature: float | None = None
    """None leaves the choice to the endpoint, as with all settings below."""
    max_tokens: int | None = None
    """Tokens a reply may have."""
    max_context: int | None = None
    """Tokens that a conversation may have, the next reply included; an episode that has no room for
    one ends."""
    timeout: float = 120.0
    """Seconds for one reply."""
    retries: int = 4
    """Further attempts after a failure that may pass: no connection, time-out, 429, 5xx."""
    pause: float = 1.0
    """Seconds before the first further attempt; each following pause is twice as long, unless the
    endpoint names one."""


@dataclass
class TokenUsage:
    """Tokens and requests of one episode."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    requests: int = 0

    def add(self, report: Any) -> None:
        """Count one answer, with the figures that the endpoint reports for it."""
        self.requests += 1
        if isinstance(report, Mapping):
            self.prompt_tokens += _count(report.get("prompt_tokens"))
            self.completion_tokens += _count(report.get("completion_tokens"))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


class Completion(NamedTuple):
    """A model's reply."""

    text: str
    cut: bool
    """True if the endpoint's limit of tokens ended it."""


class ChatEndpoint:
    """A model at an endpoint; shared by all episodes of an evaluation.

    Raises:
        InputError: The base URL is not one of http or https or holds a password, or the key cannot
            be one.
    """

    def __init__(
        self,
        model: str,
        options: ChatOptions,
        *,
        sleep: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        self.model = model
        self.options = options
        self.url = _completions_url(options.base_url)
        if options.key is not None:
            require_key(options.key, options.key_name)
        self.sends_key = options.key is not None and keeps_secrets(self.url)
        """True if the key is sent: over https, or to this machine."""
        self.reached = False
        """True after the first answer of the endpoint, be it a refusal."""
        retry = Retry(options.retries + 1, options.pause, jitter=0.25)
        key = options.key if self.sends_key else None
        self._http = HttpClient(
            key,
            timeout=options.timeout,
            retry=retry,
            max_bytes=_MOST_BYTES,
            connections=None,
            sleep=sleep,
        )
        self._limit_key = "max_tokens"

    async def aclose(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        seed: int | None = None,
        usage: TokenUsage | None = None,
        tools: Tools = (),
    ) -> Completion:
        """The model's next reply; see `reply_text` and `choice`.

        With `tools`, which the model may call by itself, it is in the dialect `native`.
        """
        choice = await self.choice(messages, seed=seed, usage=usage, tools=tools)
        return Completion(reply_text(choice["message"], native=bool(tools)), is_cut_off(choice))

    async def choice(
        self,
        messages: Sequence[Message],
        *,
        seed: int | None = None,
        usage: TokenUsage | None = None,
        tools: Tools = (),
    ) -> Mapping[str, Any]:
        """The endpoint's first choice: a `message`, and why it ends there.

        Raises:
            ContextFull: The conversation has no room for another reply, by the endpoint's own
                limit.
            PolicyError: The endpoint refused, or did not answer after all attempts.
        """
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
        }
        if tools:
            body["tools"] = list(tools)
        if self.options.temperature is not None:
            body["temperature"] = self.options.temperature
        if self.options.max_tokens is not None:
            body[self._limit_key] = self.options.max_tokens
        if seed is not None:
            body["seed"] = seed
        answer = await self._post(body)
        if usage is not None:
            usage.add(answer.get("usage"))
        choice = answer["choices"][0]
        if not isinstance(choice, Mapping) or not isinstance(choice.get("message"), Mapping):
            raise PolicyError("the endpoint's completion holds no message", fatal=True)
        return choice

    async def _post(self, body: dict[str, Any]) -> Mapping[str, Any]:
        answer = await self._send(body)
        if answer.status == 400 and "max_tokens" in body and "max_completion_tokens" in answer.text:
            # OpenAI's reasoning models know the limit by this name alone
            self._limit_key = "max_completion_tokens"
            body[self._limit_key] = body.pop("max_tokens")
            answer = await self._send(body)
        if not answer.ok:
            if "tools" in body and _NO_TOOLS.search(answer.message()):
                raise self._without_tools(answer)
            raise self._refused(answer)
        return self._parsed(answer)

    def _without_tools(self, answer: HttpAnswer) -> PolicyError:
        return PolicyError(
            f"the endpoint takes no tools for {self.model}",
            why=f"{answer.status}: {self._http.redact(answer.message())}",
            fix=(
                "Set parser.dialect to text or hermes (--dialect), or let the server read tool "
                "calls (vLLM: --enable-auto-tool-choice --tool-call-parser)."
            ),
            fatal=True,
        )

    async def _send(self, body: Mapping[str, Any]) -> HttpAnswer:
        def again(result: HttpAnswer | HttpError) -> bool:
            if isinstance(result, HttpError):
                return True
            self.reached = True
            result = _as_meant(result)
            return (result.status in _AGAIN and _code(result) != _NO_QUOTA) or (
                result.ok and _broke_off(result)
            )

        try:
            answer = await self._http.send("POST", self.url, body=body, again=again)
        except HttpError as error:
            if error.kind == "timeout":
                raise PolicyError(
                    f"the model did not answer within {self.options.timeout:g} s", down=True
                ) from None
            raise PolicyError(
                f"no answer from {self.options.base_url}",
                why=error.why,
                fix=None if self.reached else "Is the server running, and is the base URL right?",
                down=True,
            ) from None
        self.reached = True
        return _as_meant(answer)

    def _parsed(self, found: HttpAnswer) -> Mapping[str, Any]:
        if _broke_off(found):
            raise PolicyError(
                f"{self.url} broke off in the middle of its answer",
                why=self._http.redact(clean_line(found.text[:1000], 200)) or "It sent nothing.",
            )
        answer = found.data
        if (
            not isinstance(answer, Mapping)
            or not isinstance(answer.get("choices"), list)
            or not answer["choices"]
        ):
            raise PolicyError(
                f"{self.url} did not answer with a chat completion",
                why=self._http.redact(clean_line(found.text[:1000], 200)) or None,
                fix="The base URL usually ends with /v1.",
                fatal=True,
            )
        return answer

    def _refused(self, answer: HttpAnswer) -> HudtuiError:
        status = answer.status
        message = self._http.redact(answer.message())
        why = f"{status}: {message}" if message else f"status {status}"
        if status in (400, 413, 422) and (_FULL.search(_code(answer)) or _FULL.search(message)):
            return ContextFull("the conversation is longer than the model's context", why=why)
        name = self.options.key_name
        if status in (401, 403):
            if self.options.key is None:
                fix = f"No key was sent. Set {name} in the environment or in .env."
            elif not self.sends_key:
                fix = f"{name} was not sent, because {self.options.base_url} is not https."
            else:
                fix = f"Check {name}."
            what = (
                "the endpoint wants a valid key"
                if status == 401
                else f"the endpoint does not allow this key to use {self.model}"
            )
            return PolicyError(what, why=why, fix=fix, fatal=True)
        if status == 404:
            return PolicyError(
                f"the endpoint knows no model {self.model}, or no path {urlsplit(self.url).path}",
                why=why,
                fix=(
                    "Check the name of the model, and that the base URL ends with /v1 where the "
                    "server wants that."
                ),
                fatal=True,
            )
        if status == 429 and _code(answer) == _NO_QUOTA:
            return PolicyError(
                "the account behind the key has no quota left",
                why=why,
                fix="Check its plan and billing.",
                fatal=True,
            )
        if status == 429:
            return PolicyError(
                "the endpoint limits the rate of requests",
                why=why,
                fix="Play fewer episodes at a time.",
            )
        if 300 <= status < 400:
            where = self._http.redact(clean_line(answer.headers.get("location", ""), 200))
            return PolicyError(
                f"{self.url} redirects to {where or 'nowhere'}",
                fix="Use the final address as base URL.",
                fatal=True,
            )
        if status >= 500:
            return PolicyError("the endpoint failed", why=why, down=True)
        return PolicyError("the endpoint refused the request", why=why)


class ChatPolicy:
    """The model as a policy: one `Complete`, for one episode.

    The endpoint is shared with other episodes.
    """

    wants_images = True

    def __init__(self, endpoint: ChatEndpoint, *, seed: int | None = None) -> None:
        self._endpoint = endpoint
        self._seed = seed
        self.usage = TokenUsage()
        self._counted = (0, 0)
        """Messages that the endpoint counted last, and their tokens."""
        self._tools: Tools = ()
        self.cut = False
        """True if the last reply was cut off at its limit of tokens."""

    def take_tools(self, tools: Tools) -> None:
        """Let the model call these tools by itself: its replies are in the dialect `native`."""
        self._tools = tools

    async def __call__(self, messages: Sequence[Message]) -> str:
        """The model's next reply, by `ChatEndpoint.complete`.

        Raises:
            ContextFull: The reply could exceed `ChatOptions.max_context`, or the endpoint's own
                limit.
            PolicyError: See `ChatEndpoint.complete`.
        """
        options = self._endpoint.options
        known, tokens = self._counted
        wanted = tokens + _estimated(messages[known:]) + (options.max_tokens or 0)
        if options.max_context is not None and wanted > options.max_context:
            raise ContextFull(
                f"about {wanted} tokens with the next reply, and the limit is "
                f"{options.max_context}",
                fix="Raise --max-context, or shorten the system prompt, the examples or the task.",
            )
        before = self.usage.prompt_tokens + self.usage.completion_tokens
        sent = [_without_thought(message) for message in messages] if self._tools else messages
        reply, self.cut = await self._endpoint.complete(
            sent, seed=self._seed, usage=self.usage, tools=self._tools
        )
        if counted := self.usage.prompt_tokens + self.usage.completion_tokens - before:
            self._counted = (len(messages) + 1, counted)
        return reply


def _estimated(messages: Sequence[Message]) -> int:
    """About how many tokens messages have that no endpoint has counted yet."""
    tokens = 0
    for message in messages:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        for part in parts:
            tokens += (
                _IMAGE_TOKENS
                if part.get("type") == "image_url"
                else estimated_tokens(part.get("text", ""))
            )
    return tokens


def _completions_url(base: str) -> str:
    parts = parse_address(base, "an endpoint", "https://host/v1 or http://host:8000/v1")
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return parts._replace(path=f"{path}/chat/completions", fragment="").geturl()


def reply_text(message: Mapping[str, Any], *, native: bool = False) -> str:
    """The text of a model's message.

    Reasoning that the endpoint keeps apart is put back in front, as the reply's thought. In the
    dialect `native` the message's tool calls follow the text.

    Raises:
        PolicyError: The message is too long, or has tool calls alone and is not `native`.
    """
    text, calls = _text(message.get("content"), thought=False), message.get("tool_calls")
    if not text and calls and not native:
        raise PolicyError(
            "the endpoint answered with tool calls instead of text",
            why="This configuration reads calls in the text, and hudtui sends no tools.",
            fix=(
                "Set parser.dialect to native (--dialect), or switch the server's tool parser off "
                "(vLLM: without --enable-auto-tool-choice)."
            ),
        )
    apart = message.get("reasoning_content") or message.get("reasoning")
    reasoning = (
        apart if isinstance(apart, str) else _text(message.get("content"), thought=True)
    ).strip()
    # An endpoint may give the thought twice.
    thought = as_thought(reasoning) if reasoning and not text.lstrip().startswith("<think>") else ""
    if native:
        text = message_text(text, calls, thought=thought)
    elif thought:
        text = f"{thought}\n{text}"
    if len(text) > REPLY_LIMIT:
        raise PolicyError(
            f"the endpoint's reply has {len(text)} characters", fix="Set --max-tokens."
        )
    return text


def is_cut_off(choice: Mapping[str, Any]) -> bool:
    """Return whether an endpoint's choice ends at its limit of tokens."""
    return choice.get("finish_reason") == "length"


def _without_thought(message: Message) -> dict[str, Any]:
    """A message as it is sent to a model that calls tools: its thoughts are its own affair."""
    return {key: value for key, value in message.items() if key != "reasoning_content"}


def _text(content: Any, *, thought: bool) -> str:
    """The text in the content of a message.

    What it says, or what it thinks in parts of their own.
    """
    if isinstance(content, str):
        return "" if thought else content
    if not isinstance(content, list):
        return ""
    parts = [
        part
        for part in content
        if isinstance(part, Mapping) and (part.get("type") in _THINKING) is thought
    ]
    texts = (
        part.get("thinking", part.get("text")) if thought else part.get("text") for part in parts
    )
    return "".join(_text(one, thought=False) for one in texts)


def _as_meant(answer: HttpAnswer) -> HttpAnswer:
    """The answer with the status that it means.

    Routers tell the error of the provider behind them with status 200.
    """
    if not answer.ok or not isinstance(answer.data, Mapping):
        return answer
    choices = answer.data.get("choices")
    choice = (
        choices[0]
        if isinstance(choices, list) and choices and isinstance(choices[0], Mapping)
        else {}
    )
    error = answer.data.get("error") or choice.get("error")
    if not error and choice.get("finish_reason") == "error":
        error = {"message": "the provider broke its reply off with an error"}
    if not error:
        return answer
    detail = error if isinstance(error, Mapping) else {"message": str(error)}
    code = str(detail.get("code") or detail.get("status") or detail.get("type") or "")
    if code.isdigit() and 400 <= int(code) < 600:
        status = int(code)
    elif _FULL.search(f"{code} {detail.get('message')}"):
        status = 400
    else:
        status = next((known for word, known in _WORDED.items() if word in code.lower()), 500)
    return HttpAnswer(status, answer.headers, json.dumps({"error": detail}).encode())


def _broke_off(answer: HttpAnswer) -> bool:
    """Return True for a good answer without a body, or with only the beginning of a JSON object."""
    return answer.data is None and answer.body[:100].lstrip()[:1] in (b"", b"{")


def _code(answer: HttpAnswer) -> str:
    """The code of a refusal, such as `insufficient_quota`; empty without one."""
    error = answer.data.get("error", answer.data) if isinstance(answer.data, Mapping) else None
    return str(error.get("code") or error.get("type") or "") if isinstance(error, Mapping) else ""
