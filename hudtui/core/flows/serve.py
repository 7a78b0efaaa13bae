"""Serve an environment to trainers over the OpenEnv protocol.

Its tasks, its configuration and its rubric, to many at once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.environment.bundled import with_python_variable
from hudtui.core.environment.values import Tool
from hudtui.core.errors import InputError
from hudtui.core.events import Notice, Progress
from hudtui.core.gym.values import GymConfig
from hudtui.core.openenv.options import ServeRequest
from hudtui.core.plain import to_plain
from hudtui.core.rollouts.evaluate import (
    Connect,
    EpisodeDone,
    connector,
    playable_tasks,
    secrets_of,
)
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.outcome import TRACES, EpisodeRemarks
from hudtui.core.rollouts.reward import load_playable_config
from hudtui.core.rollouts.telemetry import Telemetry, TelemetryJob, open_telemetry
from hudtui.core.rollouts.trace import write_episode
from hudtui.core.rollouts.values import Episode
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line, plural

if TYPE_CHECKING:
    from hudtui.core.settings import Settings

SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Serving:
    """The server listens."""

    url: str
    token: str | None
    name: str
    tasks: int
    actions: tuple[str, ...]
    sessions: int
    job: TelemetryJob | None = None
    """The job on the platform; None without telemetry."""

    @property
    def socket(self) -> str:
        """The address of the socket."""
        return f"ws{self.url.removeprefix('http')}/ws"

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui env serve --json`."""
        return {
            "url": self.url,
            "socket": self.socket,
            "token": self.token,
            "name": self.name,
            "tasks": self.tasks,
            "actions": list(self.actions),
            "sessions": self.sessions,
            "job": None if self.job is None else to_plain(self.job),
        }


async def serve_environment(
    request: ServeRequest, settings: Settings
) -> AsyncGenerator[Serving | EpisodeDone | Notice | Progress, None]:
    """Serve until the iterator is closed or its consumer is cancelled.

    Then every session is closed. The environment of the first task is started once before, so that
    a broken one is known before a trainer waits for it.

    Args:
        request: What is served. Relative paths start in the settings' folder.
        settings: Of the project folder.

    Yields:
        A `Serving` when the server listens, then an event for each episode that is over.

    Raises:
        InputError: A file or an option cannot be used, or the address cannot be listened at.
        Untrusted: The folder, or a server that the tasks name, is not trusted.
        ConnectError: The environment cannot be reached.
    """
    from hudtui.core.openenv.app import Access, OpenEnvApp
    from hudtui.core.openenv.listen import listening
    from hudtui.core.openenv.session import ServedTasks

    settings.require_trust()
    loopback = _is_loopback(request.host)
    token = _token(request, settings, loopback)
    folder = settings.folder
    lookup = with_python_variable(settings.lookup)
    config = GymConfig(allow_unmapped=True)
    if request.config is not None:
        config = await asyncio.to_thread(load_playable_config, folder / request.config, folder)
    tasks, notices = await served_tasks(request, config, settings)
    for notice in notices:
        yield notice
    timeout = settings.client_timeout if request.timeout is None else request.timeout
    connect = connector(request.source, folder, lookup, timeout=timeout)
    yield Progress("connect", "Starting the environment once to list its tools")
    actions = await list_actions(tasks[0], config, connect)
    out = folder / request.out_dir if request.out_dir is not None else None
    over: asyncio.Queue[EpisodeDone | Notice | BaseException] = asyncio.Queue()
    count = 0
    remarks = EpisodeRemarks(config)

    about = {"tasks": len(tasks), "tool": "hudtui env serve"}
    opened = await asyncio.to_thread(open_telemetry, config, settings, out, about=about)
    telemetry = opened if isinstance(opened, Telemetry) else None
    if isinstance(opened, str):
        yield Notice("warning", opened)

    def keep(task: Task, episode: Episode) -> None:
        nonlocal count
        count += 1
        hidden = (
            secrets_of(task.mcp_config, lookup) if out is not None or telemetry is not None else ()
        )
        if telemetry is not None:
            trace = telemetry.begin(task.id, "openenv")
            episode = replace(
                episode, info={**episode.info, "job": telemetry.job.id, "trace": trace}
            )
            telemetry.end(trace, episode, hidden)
        if out is not None:
            try:
                write_episode(out / TRACES, episode, secrets=hidden)
            except InputError as error:
                over.put_nowait(error)
        over.put_nowait(EpisodeDone(count, 0, replace(episode, messages=()), 0))
        for text in remarks.about(episode):
            over.put_nowait(Notice("warning", text))

    served = ServedTasks(
        tasks,
        config,
        connect,
        actions=actions,
        max_turns=request.max_turns,
        timeout=timeout,
        images=request.images,
        reuse=request.reuse,
        judges=Judges(settings.lookup),
        on_episode=keep,
        on_broken=lambda task, turns: over.put_nowait(
            Notice(
                "info",
                f"task {clean_line(task.id, 80)}: the client broke the episode off after "
                f"{plural(turns, 'turn')}",
            )
        ),
    )
    name = _name(request)
    app = OpenEnvApp(
        served,
        name=name,
        description=f"{len(tasks)} {'task' if len(tasks) == 1 else 'tasks'} served by hudtui",
        access=Access(token, loopback),
        most=request.sessions,
        on_refusal=lambda code, message: over.put_nowait(
            Notice("warning", f"a client was answered {code}: {clean_line(message, 300)}")
        ),
    )
    try:
        async with listening(app.asgi, request.host, request.port) as (address, port):
            host = f"[{address}]" if ":" in address else address
            names = tuple(tool.name for tool in actions)
            job = None if telemetry is None else telemetry.job
            yield Serving(
                f"http://{host}:{port}",
                token,
                name,
                len(tasks),
                names,
                request.sessions,
                job,
            )
            while True:
                event = await over.get()
                if isinstance(event, BaseException):
                    raise event
                yield event
                for text in telemetry.warnings() if telemetry is not None else ():
                    yield Notice("warning", text)
    finally:
        await app.aclose()
        if telemetry is not None:
            await asyncio.to_thread(telemetry.close, within=2.0)


async def served_tasks(
    request: ServeRequest, config: GymConfig, settings: Settings
) -> tuple[tuple[Task, ...], list[Notice]]:
    """The tasks of a request, and what the user should know about those that are left out.

    Raises:
        InputError: There are none.
        Untrusted: The tasks name a server that the user has not agreed to.
    """
    if request.tasks is None:
        if request.source is None:
            raise InputError(
                "there is nothing to serve",
                fix="Name a configuration and tasks: hudtui env serve CONFIG TASKS; or --source.",
            )
        return (Task("free", ""),), []
    read, warning = await playable_tasks(
        request.tasks,
        config,
        settings,
        split=request.split,
        limit=request.limit,
        source=request.source,
    )
    notices = [warning] if warning is not None else []
    errors = [problem for problem in read.problems if problem.severity == "error"]
    if errors:
        notices.append(
            Notice(
                "warning",
                f"{len({one.index for one in errors})} tasks are left out, the first: {errors[0]}",
            )
        )
    return read.tasks, notices


async def list_actions(task: Task, config: GymConfig, connect: Connect) -> tuple[Tool, ...]:
    """Start the environment of a task once, and return what an agent can call there.

    Raises:
        InputError: The configuration has no action for this environment.
        ConnectError: The environment cannot be reached.
    """
    from hudtui.core.rollouts.episode import EpisodePlayer

    async with connect(task.mcp_config) as session:
        actions = EpisodePlayer(session, config, task).actions
    if len(actions) <= 1:
        raise InputError(
            "the configuration has no action for this environment",
            why=f"The environment has the tools {', '.join(session.tools) or 'none'}.",
            fix=(
                "`hudtui config check` says what does not fit; without a configuration every tool "
                "is an action."
            ),
        )
    return actions


def _token(request: ServeRequest, settings: Settings, loopback: bool) -> str | None:
    if request.open:
        if not loopback:
            raise InputError(
                f"without a token, everybody who reaches {request.host} could start environments",
                fix="Leave out --no-token, or listen at 127.0.0.1 and use a tunnel.",
            )
        return None
    if request.token_variable is None:
        return secrets.token_urlsafe(24)
    token = settings.require(request.token_variable)
    if (
        len(token) < SHORTEST_TOKEN
        or not token.isascii()
        or any(letter.isspace() or letter == "/" for letter in token)
    ):
        raise InputError(
            f"the value of {request.token_variable} cannot be a token",
            fix=f"Take at least {SHORTEST_TOKEN} letters and digits without blanks and slashes.",
        )
    return token


def exposure(request: ServeRequest) -> str | None:
    """Return what it means to listen at the address of a request.

    None where this computer alone reaches it.
    """
    if _is_loopback(request.host):
        return None
    return (
        f"Every computer that reaches {clean_line(request.host, 80)} and knows the token can start "
        "environments here. The server speaks plain HTTP, so the token can be read on the way; a "
        "tunnel (ssh -L) to 127.0.0.1 hides it."
    )


def _is_loopback(host: str) -> bool:
    from hudtui.core.http import is_loopback

    return is_loopback(f"http://[{host}]" if ":" in host else f"http://{host}")


def _name(request: ServeRequest) -> str:
    text = (
        Path(request.tasks).stem if request.tasks is not None else request.source or "environment"
    )
    words = "".join(
        letter if letter.isalnum() or letter in "-_." else "-" for letter in clean_line(text, 60)
    )
    return words.strip("-.") or "environment"
