"""Metrics of a run's model server.

VLLM's `/metrics` (Prometheus text), read over the connection to the run's machine. Only six metrics
are needed, possibly from a server that is crashing. This module therefore reads only the lines of
those metrics and skips all other lines, even invalid ones. A full Prometheus parser rejects a text
with one invalid line, and would be one more package to install on every machine.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from hudtui.core.errors import MachineError
from hudtui.core.http import HttpClient, HttpError
from hudtui.core.plain import to_plain
from hudtui.core.remote.host import Host
from hudtui.core.text import clean_line
from hudtui.core.training.metrics import is_number

ASK_EVERY = 2.0
"""Seconds between two requests to a model server."""
_PATIENCE = 5.0
"""Timeout of one request, in seconds."""
_MAX_BYTES = 4 << 20
"""Largest number of bytes that are read of an answer."""
_LINE = re.compile(r"vllm:(\w+)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*")
_MODEL = re.compile(r'\bmodel_name="((?:[^"\\]|\\.)*)"')
_HERE = "127.0.0.1"


@dataclass(frozen=True)
class VllmSample:
    """The metrics of one answer, summed over all engines of the server.

    None for a metric that is missing.
    """

    model: str | None = None
    running: float | None = None
    """Number of running requests."""
    waiting: float | None = None
    kv_cache: float | None = None
    """KV cache usage of the fullest engine, from 0 to 1."""
    prompt_tokens: float | None = None
    """Prompt tokens processed since the server's start; the fields below count from the start,
    too."""
    generated: float | None = None


@dataclass(frozen=True)
class ModelServer:
    """The state of a model server at one moment."""

    stage: str
    at: float
    """Time of the request, in seconds since the epoch."""
    answers: bool
    unanswered: float = 0.0
    """Seconds since the server's last answer; 0 while it answers."""
    stuck: float = 0.0
    """Seconds in which requests were running but no token was generated."""
    sample: VllmSample = VllmSample()
    """The newest answer."""
    tokens_per_s: float | None = None
    """Generated tokens per second since the previous answer."""
    prompt_tokens_per_s: float | None = None
    problem: str | None = None
    """Reason why there is no answer, as text; None if there is one."""

    def to_json(self) -> dict[str, Any]:
        return to_plain(self, without=("sample", "at")) | to_plain(self.sample)


def parse_vllm_metrics(text: str) -> VllmSample | None:
    """Parse vLLM's `/metrics`. Return None if the text has no vLLM metric."""
    found: dict[str, list[float]] = {}
    model = None
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        name, labels, value = match.groups()
        number = _number(value)
        if number is not None:
            found.setdefault(name.removesuffix("_total"), []).append(number)
        if model is None and labels and (named := _MODEL.search(labels)):
            model = clean_line(named[1], 80)
    if not found:
        return None

    def total(name: str) -> float | None:
        return sum(found[name]) if name in found else None

    return VllmSample(
        model=model,
        running=total("num_requests_running"),
        waiting=total("num_requests_waiting"),
        kv_cache=max(found.get("kv_cache_usage_perc", ()), default=None),
        prompt_tokens=total("prompt_tokens"),
        generated=total("generation_tokens"),
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if is_number(value) else None


class ServerMonitor:
    """Polls one model server."""

    def __init__(self, stage: str, port: int) -> None:
        self.stage, self.port = stage, port
        self.newest: ModelServer | None = None
        """The result of the last request; None before the first, and until the server is recognised
        as vLLM."""
        self._answered = 0.0
        self._moved: float | None = None

    async def ask(self, host: Host, now: float) -> ModelServer | None:
        """Request the server's metrics and return its state.

        None until the server is recognised as vLLM.
        """
        before = self.newest
        try:
            sample = parse_vllm_metrics(await fetch(host, self.port))
        except MachineError as error:
            if before is not None:
                why = error.why or error.what
                silent = max(now - self._answered, 0.0)
                self.newest = ModelServer(
                    self.stage, now, False, silent, sample=before.sample, problem=why
                )
            return self.newest
        if sample is not None:
            self._answered = now
            self.newest = self._judge(sample, now, before)
        return self.newest

    def _judge(self, sample: VllmSample, now: float, before: ModelServer | None) -> ModelServer:
        old, seconds = (
            (before.sample, now - before.at) if before and before.answers else (VllmSample(), 0.0)
        )
        made = _grown(old.generated, sample.generated)
        if self._moved is None or made is None or made > 0 or not sample.running:
            self._moved = now
        return ModelServer(
            self.stage,
            now,
            True,
            stuck=max(now - self._moved, 0.0),
            sample=sample,
            tokens_per_s=_rate(made, seconds),
            prompt_tokens_per_s=_rate(_grown(old.prompt_tokens, sample.prompt_tokens), seconds),
        )


async def follow_server(host: Host, port: int) -> AsyncGenerator[ModelServer]:
    """Yield the state of the vLLM server on a port of a machine every two seconds, without an end.

    Raises:
        MachineError: The first request has no answer, or the server is not vLLM.
    """
    if parse_vllm_metrics(await fetch(host, port)) is None:
        raise MachineError(
            f"port {port} of {host.name} is not a vLLM server",
            fix="Its page /metrics has no vLLM metric.",
        )
    monitor = ServerMonitor(f"port {port}", port)
    while True:
        if (server := await monitor.ask(host, time.time())) is not None:
            yield server
        await asyncio.sleep(ASK_EVERY)


def _grown(before: float | None, now: float | None) -> float | None:
    """Return the increase of a counter; it counts from 0 if the server was restarted."""
    if before is None or now is None:
        return None
    return now - before if now >= before else now


def _rate(grown: float | None, seconds: float) -> float | None:
    return grown / seconds if grown is not None and seconds > 0 else None


async def fetch(host: Host, port: int) -> str:
    """Return the text of `/metrics` from a server on the machine's loopback address.

    Empty if the server has no such page.

    Raises:
        MachineError: The server does not answer, or answers with an error.
    """
    client = HttpClient(timeout=_PATIENCE, max_bytes=_MAX_BYTES)
    try:
        async with (
            asyncio.timeout(_PATIENCE),
            host.forward(0, _HERE, port) as here,
            aclosing(client),
        ):
            answer = await client.send("GET", f"http://{_HERE}:{here}/metrics")
    except (HttpError, TimeoutError) as error:
        why = error.why if isinstance(error, HttpError) else f"no answer within {_PATIENCE:g} s"
        raise MachineError(f"port {port} of {host.name} does not answer", why=why) from None
    if answer.status not in (200, 404):
        raise MachineError(f"port {port} of {host.name} answers {answer.status} to /metrics")
    return answer.text if answer.ok else ""
