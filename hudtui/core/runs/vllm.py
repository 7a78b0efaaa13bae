"""What a run's model server says of itself: vLLM's `/metrics`, read through the connection with the run's machine.

Only six of its numbers are wanted, and from a server that may be dying: so the few lines that hold them are picked out here, and
whatever else is in the text, broken lines included, is passed over. A parser of the whole format refuses a text with one bad line
in it, and would be one more thing to install on every machine.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from hudtui.core.errors import MachineError
from hudtui.core.http import HttpClient, HttpError
from hudtui.core.remote.host import Host
from hudtui.core.text import clean_line
from hudtui.core.training.metrics import is_number

_PATIENCE = 5.0
"""Seconds for one answer."""
_MAX_BYTES = 4 << 20
"""Bytes of an answer that are read."""
_LINE = re.compile(r"vllm:(\w+)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*")
_MODEL = re.compile(r'\bmodel_name="((?:[^"\\]|\\.)*)"')
_HERE = "127.0.0.1"


@dataclass(frozen=True)
class VllmSample:
    """The numbers of one answer, summed over all engines of the server; None for a number that the answer lacks."""

    model: str | None = None
    running: float | None = None
    """Requests that it works on."""
    waiting: float | None = None
    kv_cache: float | None = None
    """How full the cache of the fullest engine is, from 0 to 1."""
    prompt_tokens: float | None = None
    """Read since its start, as are those that follow."""
    generated: float | None = None
    preemptions: float | None = None
    """Requests that had to make room for others."""


@dataclass(frozen=True)
class ModelServer:
    """A model server at one moment."""

    stage: str
    at: float
    """When it was asked, in seconds since the epoch."""
    answers: bool
    unanswered: float = 0.0
    """Seconds since its last answer; 0 while it answers."""
    stuck: float = 0.0
    """Seconds in which requests were running and no token was made."""
    sample: VllmSample = VllmSample()
    """Its newest answer."""
    tokens_per_s: float | None = None
    """Generated since the answer before."""
    prompt_tokens_per_s: float | None = None
    problem: str | None = None
    """Why there is no answer, in words."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        told = {name: value for name, value in vars(self).items() if name not in ("sample", "at")}
        return {**told, **vars(self.sample)}


def parse_vllm_metrics(text: str) -> VllmSample | None:
    """The numbers in vLLM's `/metrics`; None where no line is vLLM's."""
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
        preemptions=total("num_preemptions"),
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if is_number(value) else None


class ServerMonitor:
    """Asks one server again and again.

    Args:
        stage: Name of the stage that it is.
        port: Its port, on the machine's loopback address.
    """

    def __init__(self, stage: str, port: int) -> None:
        self.stage, self.port = stage, port
        self.newest: ModelServer | None = None
        """What the last question brought; None before the first, and while it has not shown that it is vLLM."""
        self._answered = 0.0
        self._moved: float | None = None

    async def ask(self, host: Host, now: float) -> ModelServer | None:
        """Ask it how it is.

        Args:
            host: Its machine.
            now: The time, in seconds since the epoch.
        """
        before = self.newest
        try:
            sample = parse_vllm_metrics(await fetch(host, self.port))
        except MachineError as error:
            if before is not None:
                why = error.why or error.what
                silent = max(now - self._answered, 0.0)
                self.newest = ModelServer(self.stage, now, False, silent, sample=before.sample, problem=why)
            return self.newest
        if sample is not None:
            self._answered = now
            self.newest = self._judge(sample, now, before)
        return self.newest

    def _judge(self, sample: VllmSample, now: float, before: ModelServer | None) -> ModelServer:
        old, seconds = (before.sample, now - before.at) if before and before.answers else (VllmSample(), 0.0)
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


def _grown(before: float | None, now: float | None) -> float | None:
    """How far a counter has come; from 0 where the server was started again."""
    if before is None or now is None:
        return None
    return now - before if now >= before else now


def _rate(grown: float | None, seconds: float) -> float | None:
    return grown / seconds if grown is not None and seconds > 0 else None


async def fetch(host: Host, port: int) -> str:
    """`/metrics` of a server on the machine's loopback address; empty for a server that has no such page.

    Raises:
        MachineError: Nothing answers there, or with an error.
    """
    client = HttpClient(timeout=_PATIENCE, max_bytes=_MAX_BYTES)
    try:
        async with asyncio.timeout(_PATIENCE), host.forward(0, _HERE, port) as here, aclosing(client):
            answer = await client.send("GET", f"http://{_HERE}:{here}/metrics")
    except (HttpError, TimeoutError) as error:
        why = error.why if isinstance(error, HttpError) else f"no answer within {_PATIENCE:g} s"
        raise MachineError(f"port {port} of {host.name} does not answer", why=why) from None
    if answer.status not in (200, 404):
        raise MachineError(f"port {port} of {host.name} answers {answer.status} to /metrics")
    return answer.text if answer.ok else ""
