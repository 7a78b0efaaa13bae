"""Telemetry.

The job of an evaluation or training and the traces of its episodes, told to the platform. A
configuration with a `job:` section asks for it. The platform has no published contract, so
everything that is known about its addresses and fields stands in this module, in two spellings:

- `v6`, as HUD 0.6 speaks: jobs and traces at the API's address, spans at the telemetry address.
- `v4`, as HUD 0.4 speaks (and hud-vf-gym with it): everything at the telemetry address. Used where
  the platform has no address of an API, and where the user has set the telemetry address and not
  the API's: the key then goes to no other address.

An episode never waits: what is to be sent stands in a queue, and a thread sends it. A failure is
reported once; after three in a row nothing more is sent. What is sent and written is redacted like
a trace file (`trace.redact`), images left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import queue
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hudtui.core.errors import InputError
from hudtui.core.files import read_json, write_atomic
from hudtui.core.http import HttpAnswer, HttpClient, HttpError, Retry, keeps_secrets
from hudtui.core.paths import typed_path
from hudtui.core.plain import to_plain
from hudtui.core.rollouts.trace import append_line, episode_to_json, redact
from hudtui.core.rollouts.values import Episode
from hudtui.core.settings import check_settings
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from hudtui.core.gym.values import GymConfig
    from hudtui.core.settings import Settings

_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
JOB_FILE = "job.json"
"""Beside the traces: the job's id, name and address."""

_WAITING = 512
"""Messages that may wait; further ones are dropped."""
_FAILURES = 3
_BATCH_SPANS = 100
_BATCH_BYTES = 4 << 20
_AGAIN = frozenset({401, 408, 425, 429, 500, 502, 503, 504})
"""Statuses after which a report is sent a second time. HUD answers 401 at times for keys that are
right."""
_log = logging.getLogger(__name__)

Status = Literal["completed", "failed"]
_Post = tuple[str, dict[str, Any]]
"""An address and a body."""


@dataclass(frozen=True)
class TelemetryJob:
    """One evaluation or training, as the platform knows it."""

    id: str
    name: str
    url: str | None
    """Its web page; None where nothing is sent, or the platform has no pages."""


def open_telemetry(
    config: GymConfig,
    settings: Settings,
    out_dir: Path | None,
    *,
    about: Mapping[str, Any] | None = None,
    resume: bool = False,
) -> Telemetry | str | None:
    """Begin the job that a configuration asks for.

    Nothing is sent without the platform's key, with `<PLATFORM>_TELEMETRY_ENABLED=false`, or to an
    address that is neither https nor on this machine. `<PLATFORM>_TELEMETRY_LOCAL_DIR` gets the
    spans of each trace as `<trace id>.jsonl`, also without a key. The `job` section of `config`
    gives name and metadata, to which `about` is added. `out_dir` gets `job.json`; None: there is no
    folder of this job's own. With `resume` it continues the job in `out_dir`, if there is one.

    Returns:
        The telemetry, to be closed; None where it is off; a text that says why it is off though it
        is configured.
    """
    if not config.job:
        return None
    checked, platform = check_settings(settings), settings.platform
    enabled = platform.own_variable("TELEMETRY_ENABLED")
    if enabled in checked.problems:
        return f"telemetry is off: {enabled}: {checked.problems[enabled]}"
    if checked.values.get(enabled) is False:
        return None
    local = settings.own("TELEMETRY_LOCAL_DIR")
    key, base = settings.get(platform.key_variable), settings.url("telemetry")
    sends = bool(key and base)
    if sends and (problem := checked.problems.get(platform.key_variable)) is not None:
        return f"telemetry is off: {platform.key_variable}: {problem}"
    if base and sends and not keeps_secrets(base):
        return f"telemetry is off: {clean_line(base, 100)} is not https"
    if not sends and not local:
        return None
    job = _job(config, settings, out_dir, resume=resume, sends=sends)
    spelling = _spelling(settings, job, {**_metadata(config), **(about or {})}) if sends else None
    secrets = tuple(
        value for one in settings.keys.values() if one.secret and (value := settings.get(one.name))
    )
    return Telemetry(
        job, spelling, key if sends else None, None if local is None else typed_path(local), secrets
    )


def sends_telemetry(settings: Settings) -> bool:
    """Return True if jobs of configurations are sent to the platform.

    That takes a key and an address, and no setting against it.
    """
    checked, platform = check_settings(settings), settings.platform
    if (
        checked.values.get(platform.own_variable("TELEMETRY_ENABLED")) is False
        or platform.key_variable in checked.problems
    ):
        return False
    return settings.get(platform.key_variable) is not None and settings.url("telemetry") is not None


def _job(
    config: GymConfig, settings: Settings, out_dir: Path | None, *, resume: bool, sends: bool
) -> TelemetryJob:
    """The job of `out_dir`, where it is continued; else a new job, written there."""
    file = None if out_dir is None else out_dir / JOB_FILE
    if resume and file is not None and (known := read_job(file)) is not None:
        return known
    name = config.job.get("name")
    title = (
        clean_line(str(name), 200)
        if isinstance(name, str | int | float) and str(name).strip()
        else ""
    )
    number, web = str(uuid.uuid4()), settings.url("web")
    job = TelemetryJob(
        number,
        title or Path(config.path or "job").stem,
        f"{web}/jobs/{number}" if sends and web else None,
    )
    if file is not None:
        write_atomic(file, json.dumps(to_plain(job), indent=2) + "\n")
    return job


def read_job(file: Path) -> TelemetryJob | None:
    """The job in a `job.json`; None where there is none, or the file is damaged."""
    try:
        data = read_json(file)
    except InputError:
        return None
    values = [data.get(name) for name in ("id", "name", "url")] if isinstance(data, dict) else []
    number, name, url = values or (None, None, None)
    if not isinstance(number, str) or not isinstance(name, str) or not isinstance(url, str | None):
        return None
    if not _ID.fullmatch(number):  # it becomes part of addresses that get the platform's key
        return None
    return TelemetryJob(
        number, clean_line(name, 200), None if url is None else clean_line(url, 500)
    )


def _metadata(config: GymConfig) -> Mapping[str, Any]:
    metadata = config.job.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


# --- what is sent ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Spelling:
    """The addresses and bodies of one version of the API."""

    job: TelemetryJob
    telemetry: str
    metadata: Mapping[str, Any]

    def begin_job(self) -> Iterator[_Post]:
        yield self._status("running")

    def end_job(self, status: Status) -> Iterator[_Post]:
        yield self._status(status)

    def _status(self, status: str) -> _Post:
        body = {"name": self.job.name, "status": status, "metadata": dict(self.metadata)}
        return f"{self.telemetry}/jobs/{self.job.id}/status", body

    def begin_trace(self, trace: str, task: str, model: str) -> Iterator[_Post]:
        metadata = {"trace_name": task, "model": model}
        body = {"status": "running", "job_id": self.job.id, "task_id": task, "metadata": metadata}
        yield f"{self.telemetry}/trace/{trace}/status", body

    def end_trace(self, trace: str, record: Mapping[str, Any], *, failed: bool) -> Iterator[_Post]:
        calls = sum(turn["call"] is not None for turn in record["turns"])
        scores = dict(record["scores"])
        steps = {
            "base_mcp_steps": 2 + calls,
            "mcp_tool_steps": calls,
            "agent_steps": len(record["turns"]),
        }
        body = {
            "status": "error" if failed else "completed",
            "job_id": self.job.id,
            "task_id": record["task"],
            "metadata": {"trace_name": record["task"], "stop": record["stop"], **scores, **steps},
        }
        if record["error"]:
            body["error_message"] = record["error"]
        yield f"{self.telemetry}/trace/{trace}/status", body

    def upload(self, trace: str, spans: list[dict[str, Any]]) -> _Post:
        return f"{self.telemetry}/trace/{trace}/telemetry-upload", {
            "telemetry": spans,
            "metadata": {},
        }

    def span(
        self, trace: str, category: str, request: Any, result: Any, at: tuple[str, str]
    ) -> dict[str, Any]:
        """Return the content of a span without its envelope; `at` is its beginning and its end."""
        asked = {"request": request, "result": result}
        return {
            "attributes": {
                "task_run_id": trace,
                "job_id": self.job.id,
                "category": category,
                **asked,
            },
            "exceptions": [],
        }


@dataclass(frozen=True)
class _SpellingV6(_Spelling):
    api: str

    def begin_job(self) -> Iterator[_Post]:
        group = self.metadata.get("group")
        yield (
            f"{self.api}/v2/trace/job/{self.job.id}/enter",
            {"name": self.job.name, "group": group or 1},
        )

    def end_job(self, status: Status) -> Iterator[_Post]:
        return iter(())  # a job is over when its traces are

    def begin_trace(self, trace: str, task: str, model: str) -> Iterator[_Post]:
        group = (
            uuid.uuid5(uuid.UUID(self.job.id), task)
            if _is_uuid(self.job.id)
            else uuid.uuid5(uuid.NAMESPACE_URL, task)
        )
        body = {"job_id": self.job.id, "group_id": str(group), "task_slug": task, "model": model}
        yield f"{self.api}/v2/trace/{trace}/enter", body

    def end_trace(self, trace: str, record: Mapping[str, Any], *, failed: bool) -> Iterator[_Post]:
        body = {
            "status": "error" if failed else "completed",
            "reward": None if failed else record["scores"]["reward"],
            "error": record["error"],
            "evaluation_result": record["evaluation"],
            "stop_reason": record["stop"],
            "metadata": {"scores": record["scores"], "seconds": record["seconds"]},
        }
        yield (
            f"{self.api}/v2/trace/{trace}/exit",
            {name: value for name, value in body.items() if value is not None},
        )

    def upload(self, trace: str, spans: list[dict[str, Any]]) -> _Post:
        return f"{self.telemetry}/trace/{trace}/telemetry-upload", {"telemetry": spans}

    def span(
        self, trace: str, category: str, request: Any, result: Any, at: tuple[str, str]
    ) -> dict[str, Any]:
        pairs = (("request", request, at[0]), ("result", result, at[1]))
        events = [
            {"name": name, "timestamp": when, "attributes": {"hud.payload": value}}
            for name, value, when in pairs
        ]
        return {
            "kind": "INTERNAL",
            "attributes": {"hud.task_run_id": trace, "category": category},
            "events": events,
        }


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _spelling(settings: Settings, job: TelemetryJob, metadata: Mapping[str, Any]) -> _Spelling:
    telemetry, api = settings.url("telemetry") or "", settings.url("api")
    moved = settings.is_set(settings.platform.url_variable("telemetry"))
    known = api is not None and (
        not moved or settings.is_set(settings.platform.url_variable("api"))
    )
    if known and api is not None and keeps_secrets(api):
        return _SpellingV6(job, telemetry, metadata, api)
    return _Spelling(job, telemetry, metadata)


def _spans(trace: str, record: Mapping[str, Any], spelling: _Spelling) -> Iterator[dict[str, Any]]:
    """The spans of an episode.

    One for the whole, and below it one for each reply and one for each call.
    """
    root = uuid.uuid4().hex[:16]
    began = _time(record["started_at"])
    seconds = record["seconds"]

    def made(
        name: str,
        start: float,
        took: float,
        category: str,
        request: Any,
        result: Any,
        error: str | None,
    ) -> dict[str, Any]:
        at = (
            (began + timedelta(seconds=start)).isoformat(),
            (began + timedelta(seconds=start + took)).isoformat(),
        )
        return {
            "name": name,
            "trace_id": uuid.UUID(trace).hex,
            "span_id": uuid.uuid4().hex[:16],
            "parent_span_id": root,
            "start_time": at[0],
            "end_time": at[1],
            "status_code": "OK" if error is None else "ERROR",
            "status_message": error,
            **spelling.span(trace, category, request, result, at),
        }

    replies = [
        place
        for place, message in enumerate(record["messages"])
        if message.get("role") == "assistant"
    ]
    count = len(record["turns"])
    opening = record["messages"][: replies[-count] if 0 < count <= len(replies) else None]
    result = {
        "scores": record["scores"],
        "evaluation": record["evaluation"],
        "stop": record["stop"],
    }
    whole = made(
        record["task"],
        0.0,
        seconds.get("total", 0.0),
        "episode",
        {"messages": opening},
        result,
        record["error"],
    )
    yield {**whole, "span_id": root, "parent_span_id": None}
    at = seconds.get("setup", 0.0)
    for number, turn in enumerate(record["turns"], 1):
        spoke, called = (turn["seconds"].get(name, 0.0) for name in ("complete", "call"))
        yield made(
            f"reply {number}",
            at,
            spoke,
            "agent",
            {"turn": number},
            {"content": turn["reply"]},
            None,
        )
        at += spoke
        if turn["call"] is not None:
            answer = {"content": turn["observation"], "isError": turn["is_error"]}
            params = {"name": turn["call"]["tool"], "arguments": turn["call"]["arguments"]}
            error = clean_line(turn["observation"], 500) if turn["is_error"] else None
            request = {"method": "tools/call", "params": params}
            yield made(
                f"call {number}: {params['name']}", at, called, "mcp", request, answer, error
            )
        at += called


def _time(text: str | None) -> datetime:
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return datetime.now(UTC)


def _plain(body: Any) -> Any:
    """The body as plain JSON: a configuration's metadata may hold dates."""
    return json.loads(json.dumps(body, default=str))


# --- sending --------------------------------------------------------------------------------------


class Telemetry:
    """A job in progress.

    Its methods may be called from any thread, and none of them raises or waits, but `close`.
    """

    def __init__(
        self,
        job: TelemetryJob,
        spelling: _Spelling | None,
        key: str | None,
        local: Path | None,
        secrets: tuple[str, ...],
    ) -> None:
        self.job = job
        self._spelling = spelling
        self._key = key
        self._local = local
        self._secrets = secrets
        self._queue: queue.Queue[Callable[[], Iterator[_Post]] | None] = queue.Queue(_WAITING)
        self._warnings: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._dropped = False
        self._failures = 0
        self._told = False
        self._thread = threading.Thread(target=self._run, name="hudtui telemetry", daemon=True)
        self._thread.start()
        if spelling is not None:
            self._put(spelling.begin_job)

    def warnings(self) -> list[str]:
        """Return the problems since the last call, for the user."""
        problems = []
        while not self._warnings.empty():
            problems.append(self._warnings.get())
        return problems

    def begin(self, task: str, model: str) -> str:
        """Begin the trace of an episode, and return its id."""
        trace, spelling = str(uuid.uuid4()), self._spelling
        if spelling is not None:
            self._put(lambda: spelling.begin_trace(trace, task, model))
        return trace

    def end(self, trace: str, episode: Episode, secrets: tuple[str, ...] = ()) -> None:
        """End a trace with its episode.

        `trace` is what `begin` gave; `secrets` are masked beside those of the settings.
        """
        self._put(lambda: self._end(trace, episode, secrets))

    def close(self, status: Status = "completed", *, within: float = 5.0) -> None:
        """End the job. What has not been sent within so many seconds is not sent at all."""
        if self._spelling is not None:
            spelling = self._spelling
            self._put(lambda: spelling.end_job(status))
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=within)
        self._thread.join(within)
        if self._thread.is_alive():
            self._warn(f"telemetry: {self._address} is too slow; not everything was sent")
            self._leave_out()

    def _leave_out(self) -> None:
        """Take away what waits: the thread ends with the request that it has in hand."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait()
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)

    @property
    def _address(self) -> str:
        return clean_line(self._spelling.telemetry, 100) if self._spelling is not None else ""

    def _put(self, work: Callable[[], Iterator[_Post]]) -> None:
        try:
            self._queue.put_nowait(work)
        except queue.Full:
            if not self._dropped:
                self._dropped = True
                self._warn(f"telemetry: {self._address} is too slow; some episodes are not sent")

    def _warn(self, text: str) -> None:
        self._warnings.put(text)

    def _end(self, trace: str, episode: Episode, secrets: tuple[str, ...]) -> Iterator[_Post]:
        record = redact(episode_to_json(episode), (*self._secrets, *secrets))
        spelling = self._spelling or _Spelling(self.job, "", {})
        spans = list(_spans(trace, record, spelling))
        if self._local is not None:
            for span in spans:
                append_line(self._local / f"{uuid.UUID(trace).hex}.jsonl", span)
        if self._spelling is None:
            return
        batch: list[dict[str, Any]] = []
        size = 0
        for span in spans:
            length = len(json.dumps(span, default=str))
            if length > _BATCH_BYTES:
                continue
            if batch and (len(batch) == _BATCH_SPANS or size + length > _BATCH_BYTES):
                yield spelling.upload(trace, batch)
                batch, size = [], 0
            batch.append(span)
            size += length
        yield spelling.upload(trace, batch)
        yield from spelling.end_trace(trace, record, failed=not episode.ok)

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            client = HttpClient(self._key, timeout=10.0, retry=Retry(2, 0.5, jitter=0.25))
            while (work := self._queue.get()) is not None:
                try:
                    for url, body in work():
                        runner.run(self._post(client, url, body))
                except Exception as error:
                    _log.debug("telemetry", exc_info=True)
                    self._fail(
                        error.what if isinstance(error, InputError) else type(error).__name__
                    )
            runner.run(client.aclose())

    async def _post(self, client: HttpClient, url: str, body: dict[str, Any]) -> None:
        if self._failures >= _FAILURES:
            return

        def again(result: HttpAnswer | HttpError) -> bool:
            return isinstance(result, HttpError) or result.status in _AGAIN

        try:
            answer = await client.send(
                "POST", url, body=_plain(redact(body, self._secrets)), again=again
            )
        except HttpError as error:
            self._failures += 1
            self._fail(error.why)
            return
        if answer.ok:
            self._failures = 0
            return
        self._failures += 1
        self._fail(f"{answer.status} {client.redact(answer.message())}".strip())

    def _fail(self, why: str) -> None:
        if not self._told:
            self._told = True
            where = f" to {self._address}" if self._address else ""
            self._warn(
                f"telemetry: traces cannot be sent{where} ({clean_line(why, 200)}); the episodes "
                "continue without it"
            )
