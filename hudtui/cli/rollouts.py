"""`hudtui rollouts play`: one task, turn by turn."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudtui.cli import console
from hudtui.cli.options import takes_request
from hudtui.cli.results import app
from hudtui.core.knobs import knobs_of
from hudtui.core.rollouts.options import EpisodeOptions, PlayTaskOptions
from hudtui.core.text import plural

if TYPE_CHECKING:
    from hudtui.core.events import Progress
    from hudtui.core.flows.playing import PlayEnded, PlayEvent, Playing, ReplyWanted
    from hudtui.core.project import Project

_WORDS = """A reply is a call alone, such as left(), which is put in the tags that the \
configuration asks for; or any text,
up to the line with </tool> or to an empty line; or {"text": "..."} on one line.
/go       give the episode to the policy
/step     let the policy play one turn
/evaluate call the task's evaluate tools now
/end      end the episode and evaluate it, as the end of the input does"""


_COMMANDS = {"/go": "resume", "/step": "step", "/evaluate": "evaluate", "/end": "end"}
_LONGEST = 1_000_000
"""Bytes of a line of standard input."""


@app.command("play")
@takes_request(
    "task", "policy", "by_hand", "take_over", *knobs_of(EpisodeOptions), kind=PlayTaskOptions
)
@console.run_async(compact=True, when_ended="the environment has ended")
async def play(
    tasks: Annotated[
        str, typer.Argument(help="A file or folder of tasks, or a dataset on the Hub (org/name).")
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="Gym configuration (YAML); by default the only one of the project.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The same as --policy openai:MODEL.")
    ] = None,
    *,
    request: PlayTaskOptions,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Trace that gets the episode; outputs/played/traces.jsonl by default.",
        ),
    ] = None,
    no_trace: Annotated[bool, typer.Option("--no-trace", help="Keep no trace.")] = False,
    examples: Annotated[
        bool,
        typer.Option(
            "--examples",
            help="Add the turns without an error to the examples: of the configuration.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print events as lines of JSON.")] = False,
) -> None:
    """Play one task turn by turn: a policy, you, or both in turns.

    The transcript goes to standard output as it grows, everything else to standard error. Replies
    by hand come from standard input, from a pipe or at a prompt; /help lists what else can be typed
    there. If the episode breaks off, the exit code is that of the failure.
    """
    if model is not None:
        if request.policy is not None:
            raise typer.BadParameter(
                "these options exclude each other", param_hint="--model, --policy"
            )
        request = replace(request, policy=f"openai:{model}")
    if request.policy is None and request.take_over is not None:
        raise typer.BadParameter(
            "name the policy that plays before that: --policy", param_hint="--take-over"
        )
    from hudtui.core.flows import playing as flow
    from hudtui.core.project import open_project

    project = open_project()
    asked = flow.PlayRequest(
        tasks,
        config or _only_config(project),
        **vars(request),
        keep=None if no_trace else output or flow.PLAYED,
    )
    for notice in project.settings().notices:
        console.say(f"warning: {notice}")
    playing = await flow.prepare_playing(project, asked)
    person = _Person(playing, as_json=as_json)
    ended: PlayEnded | None = None
    async with contextlib.aclosing(playing.play()) as events:
        async for event in events:
            (_print_json if as_json else _print)(event, playing)
            if isinstance(event, flow.ReplyWanted):
                await person.reply(event)
            elif isinstance(event, flow.PlayEnded):
                ended = event
    assert ended is not None
    if ended.file is not None:
        console.say(f"kept in {asked.keep}, episode {playing.number}")
    if examples:
        count = await asyncio.to_thread(
            flow.keep_examples, project, asked.config, playing.redacted()
        )
        console.say(f"{plural(count, 'example')} added to {asked.config}")
    if ended.episode.stop == "error":
        from hudtui.core.errors import HudtuiError, ToolError

        assert playing.player is not None
        failure = playing.player.failure
        raise failure if isinstance(failure, HudtuiError) else ToolError(str(ended.episode.error))


def _only_config(project: Project) -> Path:
    from hudtui.core.errors import InputError

    workspace = project.workspace()
    if len(workspace.configs) == 1:
        return Path(workspace.relative(workspace.configs[0]))
    raise InputError(
        "there are several configurations here"
        if workspace.configs
        else "there is no configuration here",
        fix="Name the gym configuration: --config FILE.",
    )


def _print(event: PlayEvent, playing: Playing) -> None:
    """The transcript on standard output.

    Who played, and what a person should know, on standard error.
    """
    from hudtui.core.events import Notice, Progress
    from hudtui.core.flows import playing as flow
    from hudtui.core.rollouts.trace import end_text, opening_text, turn_text
    from hudtui.core.text import clean_line

    if isinstance(event, Progress):
        _tell(event, playing)
    elif isinstance(event, Notice):
        console.tell(event)
    elif isinstance(event, flow.PlayStarted):
        console.out(opening_text(event.task.id, event.opening))
    elif isinstance(event, flow.PlayedTurn):
        console.out("\n" + turn_text(event.number, event.turn))
        error = event.turn.interpretation.get("error") or {}
        place = (
            f" ({error.get('stage')}, column {error['column']} of the tool text)"
            if error.get("column") is not None
            else ""
        )
        console.say(
            f"turn {event.number} {clean_line(event.by, 80)} "
            f"reward={event.scores.reward:.3f}{place}"
        )
    elif isinstance(event, flow.PlayScored):
        found = (
            f"{event.scores.task_completion:.3f}"
            if event.scores.reward_found
            else "no reward found"
        )
        why = f" ({clean_line(event.error, 300)})" if event.error else ""
        console.say(f"task_completion={found} reward={event.scores.reward:.3f}{why}")
    elif isinstance(event, flow.PlayEnded):
        console.out("\n" + end_text(event.episode))


def _tell(event: Progress, playing: Playing) -> None:
    if event.stage != "reply" or (playing.policy or "").startswith(
        "openai:"
    ):  # scripted policies need no time
        console.tell(event)


def _print_json(event: PlayEvent, playing: Playing) -> None:
    from hudtui.core.events import Notice, Progress
    from hudtui.core.flows import playing as flow
    from hudtui.core.rollouts.trace import scores_to_json

    if isinstance(event, Progress):
        _tell(event, playing)
        return
    if isinstance(event, Notice):
        line: dict[str, Any] = {
            "event": "notice",
            "severity": event.severity,
            "message": event.message,
        }
    elif isinstance(event, flow.PlayStarted):
        line = {
            "event": "start",
            "task": event.task.id,
            "policy": playing.policy,
            "opening": event.opening,
            "actions": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.input_schema,
                }
                for tool in event.actions
            ],
            "max_turns": event.max_turns,
        }
    elif isinstance(event, flow.PlayedTurn):
        line = event.to_json()
    elif isinstance(event, flow.ReplyWanted):
        line = {
            "event": "reply-wanted",
            "turn": event.number,
            **(event.error.to_json() if event.error is not None else {}),
        }
    elif isinstance(event, flow.PlayScored):
        line = {
            "event": "evaluation",
            "scores": scores_to_json(event.scores),
            "evaluation": event.evaluation,
            "error": event.error,
        }
    else:
        episode = event.episode
        line = {
            "event": "end",
            "task": episode.task_id,
            "stop": episode.stop,
            "error": episode.error,
            "scores": scores_to_json(episode.scores),
            "evaluation": episode.evaluation,
            "turns": len(episode.turns),
            "played_by": list(playing.by),
            "seconds": dict(episode.seconds),
            "trace": None if event.file is None else str(event.file),
            "episode": None if event.file is None else playing.number,
        }
    console.out_json(line, compact=True)
    sys.stdout.flush()


class _Person:
    """Who types replies and commands on standard input."""

    def __init__(self, playing: Playing, *, as_json: bool) -> None:
        self._playing = playing
        self._prompts = console.interactive() and not as_json
        self._expected = (
            playing.request.by_hand
            or playing.policy is None
            or playing.request.take_over is not None
        )

    async def reply(self, wanted: ReplyWanted) -> None:
        """Read until there is a reply or a command for the episode."""
        playing = self._playing
        if wanted.error is not None:
            if not self._expected:
                playing.end(wanted.error)
                return
            console.say(f"error: {'; '.join(wanted.error.lines())}")
        while (line := await self._line(wanted.number)) is not None:
            word = line.strip()
            if word in ("/go", "/step") and playing.policy is None:
                console.say("there is no policy: name one with --policy")
            elif word in _COMMANDS:
                getattr(playing, _COMMANDS[word])()
                return
            elif word == "/help":
                console.say(_WORDS)
            elif word.startswith("/"):
                console.say(f"{word} is not known; /help lists what is")
            elif word and (text := await self._text(line)) is not None:
                playing.reply(text)
                return
        playing.end()

    async def _text(self, first: str) -> str | None:
        """A reply that begins with this line; None where the line is no reply."""
        from hudtui.core.flows.playing import in_tags

        word = first.strip()
        if word.startswith("{"):
            with contextlib.suppress(ValueError):
                value = json.loads(word)
                if isinstance(value, dict) and isinstance(value.get("text"), str):
                    return str(value["text"])
                console.say('a line of JSON is an object with a text: {"text": "..."}')
                return None
        if (reply := in_tags(first, self._playing.config)) != first:
            return reply
        lines = [first]
        while (
            "</tool>" not in lines[-1]
            and (line := await self._line(None)) is not None
            and line.strip()
        ):
            lines.append(line)
        return "".join(lines).rstrip("\n")

    async def _line(self, turn: int | None) -> str | None:
        """The next line of standard input; None at its end. The event loop keeps running."""
        if self._prompts:
            typer.echo("... " if turn is None else f"turn {turn} (/help) > ", nl=False, err=True)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        # Without a buffer: a thread that still waits for a line when the command ends must hold no
        # lock that Python needs then.
        stream = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)

        def give(line: bytes) -> None:
            if not answer.done():
                answer.set_result(line)

        def read() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the command has ended
                loop.call_soon_threadsafe(give, stream.readline(_LONGEST))

        threading.Thread(target=read, daemon=True).start()
        line = await answer
        return line.decode(errors="replace") if line else None
