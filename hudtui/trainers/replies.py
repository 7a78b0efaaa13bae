"""Sources of the replies of a training.

Batches of the trainer's own model, or a vLLM server that answers each by itself. A batch waits for
the slowest environment of its turn. A server does not: each conversation requests its next reply as
soon as its environment has answered.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from hudtui.core.errors import RunError
from hudtui.core.http import HttpAnswer, HttpClient, HttpError, Retry
from hudtui.core.text import clean_line

Reply = tuple[list[int], list[float | None] | None]
"""The tokens of a reply, and a log probability for each where the backend gives them (None: it is
not known)."""

Generated = tuple[Sequence[Sequence[int]], Sequence[Sequence[float | None]] | None]
"""Sampled tokens for each prompt, and their log probabilities where the backend gives them."""

Generate = Callable[[list[list[int]]], Generated]
"""Generates one reply for each prompt; prompts and replies are token ids, in the same order."""

_SECONDS = 3600.0
"""A reply may wait for many others on the server."""
_RETRY = Retry(6, 2.0, jitter=0.25)
_AGAIN = frozenset({429, 500, 502, 503, 504})


class ReplySource(Protocol):
    """A model that many conversations ask at the same time."""

    def serving(self, conversations: int) -> AbstractAsyncContextManager[None]:
        """Answer so many conversations within this context. Each of them takes a seat once."""
        ...

    def seat(self) -> AbstractAsyncContextManager[None]:
        """Take the place of a conversation, until it needs no more replies."""
        ...

    async def reply(self, prompt: list[int]) -> Reply:
        """Return the model's reply to a prompt; it has at least one token.

        Raises:
            RunError: The model cannot be asked.
        """
        ...


class RankSync(Protocol):
    """The other training processes. A generation is a collective call of all of them."""

    def any(self, waiting: bool) -> bool:
        """Return whether any process has unfinished conversations.

        A collective call: every process must make it.
        """
        ...


class SingleRank:
    """A training in a single process."""

    def any(self, waiting: bool) -> bool:
        return waiting


class BatchReplies:
    """Collects the requests of conversations, and generates their replies together.

    It does so once all unfinished conversations have a request.

    Args:
        generate: Generates a batch of replies.
        filler: A prompt that stands for conversations that have ended, where every generation needs
            one for each.
        peers: Processes that generate together with this one. With peers, every generation has a
            prompt for every conversation.
    """

    def __init__(
        self, generate: Generate, *, filler: Sequence[int] = (0,), peers: RankSync | None = None
    ) -> None:
        self._generate = generate
        self._filler = list(filler)
        self._peers = peers
        self._left = 0
        self._waiting: list[tuple[list[int], asyncio.Future[Reply]]] = []
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def serving(self, conversations: int) -> AsyncIterator[None]:
        self._left = conversations
        async with asyncio.TaskGroup() as group:
            group.create_task(self._serve(conversations))
            yield

    @asynccontextmanager
    async def seat(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self._left -= 1
            self._changed.set()

    async def reply(self, prompt: list[int]) -> Reply:
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((prompt, answer))
        self._changed.set()
        return await answer

    async def _serve(self, conversations: int) -> None:
        peers = self._peers or SingleRank()
        while True:
            while self._left and len(self._waiting) < self._left:
                self._changed.clear()
                await self._changed.wait()
            if not peers.any(bool(self._left)):
                return
            requests, self._waiting = self._waiting, []
            prompts = [prompt for prompt, _ in requests]
            if self._peers is not None:  # a collective call: the same number from each
                prompts += [self._filler] * (conversations - len(prompts))
            replies, logprobs = self._generate(prompts)
            for number, (_, answer) in enumerate(requests):
                if not answer.done():
                    answer.set_result(
                        (
                            list(replies[number]),
                            None if logprobs is None else list(logprobs[number]),
                        )
                    )


class ServerReplies:
    """Requests each reply by itself from a vLLM server, with the tokens of the prompt.

    The request is that of TRL's own `VLLMClient.generate` for one prompt. The log probabilities are
    those of the sampled tokens, as the server has them (`--logprobs-mode`).

    Args:
        url: The server's address, without `/v1`.
        sampling: How replies are sampled: fields of vLLM's completion request, such as `max_tokens`
            and `temperature`.
        end: The end token: it stands for a reply without tokens.
        model: The server's name of the model; by default the first that it names.
    """

    def __init__(
        self,
        url: str,
        sampling: Mapping[str, Any],
        *,
        end: int,
        model: str = "",
        retry: Retry = _RETRY,
    ) -> None:
        self._url = url.rstrip("/")
        self._sampling = dict(sampling)
        self._end = end
        self._retry = retry
        self._model = model

    @asynccontextmanager
    async def serving(self, conversations: int) -> AsyncIterator[None]:
        """See `ReplySource.serving`.

        Raises:
            RunError: The server does not name its model.
        """
        self._http = HttpClient(timeout=_SECONDS, retry=self._retry, connections=None)
        try:
            self._model = self._model or await self._first_model()
            yield
        finally:
            await self._http.aclose()

    async def _first_model(self) -> str:
        answer = await self._send("GET", "/v1/models")
        try:
            return str(answer["data"][0]["id"])
        except (KeyError, IndexError, TypeError):
            raise self._odd("names no model at /v1/models") from None

    @asynccontextmanager
    async def seat(self) -> AsyncIterator[None]:
        yield

    async def reply(self, prompt: list[int]) -> Reply:
        asked = {"model": self._model, "prompt": [prompt], "n": 1, "logprobs": 0}
        body = {
            **asked,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            **self._sampling,
        }
        answer = await self._send("POST", "/v1/completions", body)
        try:
            choice = answer["choices"][0]
            tokens = [_token(one) for one in choice["token_ids"]]
            logprobs = [_logprob(one) for one in choice["logprobs"]["token_logprobs"]]
        except (KeyError, IndexError, TypeError, ValueError):
            raise self._odd(
                "answered without the tokens of a reply and their log probabilities"
            ) from None
        if len(tokens) != len(logprobs):
            raise self._odd(
                f"answered with {len(tokens)} tokens and {len(logprobs)} log probabilities"
            )
        return (tokens, logprobs) if tokens else ([self._end], [None])

    async def _send(self, method: str, path: str, body: Any = None) -> Any:
        def again(result: HttpAnswer | HttpError) -> bool:
            return isinstance(result, HttpError) or result.status in _AGAIN

        try:
            answer = await self._http.send(method, self._url + path, body=body, again=again)
        except HttpError as error:
            raise RunError(
                f"the model's server {self._url} does not answer", why=error.why
            ) from None
        if not answer.ok:
            raise RunError(
                f"the model's server {self._url} answered {method} {path} with status "
                f"{answer.status}",
                why=clean_line(answer.message(), 500) or None,
            )
        return answer.data

    def _odd(self, what: str) -> RunError:
        return RunError(
            f"the model's server {self._url} {what}",
            fix="The server has to be vLLM, 0.22 or later.",
        )


def _token(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _logprob(value: Any) -> float | None:
    """The log probability as TRL's client reads it: what is no number is not known."""
    return None if value is None or math.isnan(value) else float(value)
