"""`hudtui eval`: play tasks with a policy or a model, and see what it scores."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudtui.cli import console
from hudtui.cli.command import top
from hudtui.cli.options import takes_request
from hudtui.core.knobs import knobs_of
from hudtui.core.plain import to_plain
from hudtui.core.rollouts.options import EpisodeOptions, EvalOptions

if TYPE_CHECKING:
    from hudtui.core.flows.baseline import Known
    from hudtui.core.platform import Platform
    from hudtui.core.results.baseline import Baseline
    from hudtui.core.rollouts.evaluate import EvalPrepared, EvalRequest
    from hudtui.core.rollouts.outcome import EvalSummary
    from hudtui.core.settings import Settings

_SHOWN_PROBLEMS = 10
_SHOWN_CAUSES = 5
_COUNTS = ("verdicts", "cached", "requests", "prompt_tokens", "completion_tokens")


@top.command("eval")
@takes_request(
    *(
        "policy",
        "reward",
        "limit",
        "group",
        "concurrency",
        "out_dir",
        "resume",
        "reuse",
        "keep_folders",
        *knobs_of(EpisodeOptions),
    ),
    kind=EvalOptions,
    group=None,
)
@console.run_async(when_ended="to continue, run the same command with --resume")
async def evaluate(
    tasks: Annotated[
        str,
        typer.Argument(
            help=(
                "A file or folder of tasks, a dataset on the Hub (org/name), or hud-vf-gym with "
                "--env-args."
            )
        ),
    ],
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Gym configuration (YAML).")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The same as --policy openai:MODEL.")
    ] = None,
    env_args: Annotated[
        str | None,
        typer.Option(
            "--env-args",
            "-a",
            metavar="JSON",
            help="Arguments of hud-vf-gym: taskset and config_path, as for vf-eval.",
        ),
    ] = None,
    *,
    request: EvalOptions,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results as one JSON document.")
    ] = False,
) -> None:
    """Play every task with a policy or a model, score the episodes, and keep their traces.

    A line for each episode goes to standard error, the table of rewards (or JSON) to standard
    output. Episodes that broke off count in no mean. Exit code 1 if an episode broke off, or if the
    others were not played because the endpoint or the environment is gone.
    """
    if request.limit == 0:
        raise typer.BadParameter("must be at least 1; -1 plays all tasks", param_hint="--limit")
    if model is not None:
        if request.policy is not None:
            raise typer.BadParameter(
                "these options exclude each other", param_hint="--model, --policy"
            )
        request = replace(request, policy=f"openai:{model}")
    asked, platform = _of_gym(tasks, config, request, env_args)
    asked = replace(asked, limit=None if asked.limit == -1 else asked.limit, group=asked.group or 1)
    ended = await _play(asked, platform, as_json=as_json)
    if ended.failed:
        which = (
            "every episode"
            if ended.failed == ended.expected
            else f"{ended.failed} of {ended.expected} episodes"
        )
        counts = "counts" if ended.failed == 1 else "count"
        console.say(
            f"error: {which} broke off, and {counts} in no mean; --resume plays what is missing"
        )
        for cause, count in list(ended.causes.items())[:_SHOWN_CAUSES]:
            console.say(f"  {count} x {cause}")
        if len(ended.causes) > _SHOWN_CAUSES:
            console.say(f"  ... and {len(ended.causes) - _SHOWN_CAUSES} other causes")
        raise typer.Exit(console.FOUND)


def _of_gym(
    tasks: str, config: Path | None, typed: EvalOptions, env_args: str | None
) -> tuple[EvalRequest, Platform]:
    """What is played, and on which platform.

    As typed, or as the arguments of a gym say if `tasks` names one.
    """
    from hudtui.core.errors import InputError
    from hudtui.core.platform import choose_platform
    from hudtui.core.rollouts.evaluate import EvalRequest
    from hudtui.core.rollouts.gym_args import EXAMPLES, ROLLOUTS, platform_of_gym, read_gym_args

    chosen = choose_platform(Path.cwd())
    platform = platform_of_gym(tasks, chosen)
    if platform is None or Path(tasks).exists():
        if env_args is not None:
            raise InputError(
                "--env-args is for a gym",
                fix="Name it first: hudtui eval hud-vf-gym --env-args ...",
            )
        if config is None:
            if Path(tasks).suffix in (".yaml", ".yml"):
                raise InputError(
                    f"{tasks} is YAML, as a configuration is; tasks are JSON, JSONL or Parquet",
                    fix=f"Name a file of tasks first: hudtui eval TASKS --config {tasks}",
                )
            raise typer.BadParameter(
                "name the gym configuration: --config FILE", param_hint="--config"
            )
        return EvalRequest(tasks, console.config_file(config), **vars(typed)), chosen
    given = read_gym_args(env_args)
    if config is not None:
        raise InputError(
            "the configuration is named twice",
            fix="Leave --config out, or config_path in --env-args.",
        )
    if not (typed.limit or given.tasks) or not typed.group:
        console.say(
            f"note: hud-vf-gym plays {typed.limit or given.tasks or EXAMPLES} tasks with "
            f"{typed.group or ROLLOUTS} episodes each by default, as vf-eval does; -n and -r "
            "choose, and -n -1 plays all tasks"
        )
    typed = replace(
        typed,
        split=given.split or typed.split,
        limit=typed.limit or given.tasks or EXAMPLES,
        group=typed.group or ROLLOUTS,
        reward=given.reward or typed.reward,
    )
    return EvalRequest(given.taskset, console.config_file(given.config), **vars(typed)), platform


async def _play(request: EvalRequest, platform: Platform, *, as_json: bool) -> EvalSummary:
    """Carry the evaluation out, and print it."""
    from hudtui.core.events import Notice
    from hudtui.core.rollouts.evaluate import EpisodeDone, EvalFinished, EvalPrepared, run_eval
    from hudtui.core.settings import load_settings

    settings = load_settings(Path.cwd(), platform)
    settings.require_trust()
    for notice in settings.notices:
        console.say(f"warning: {notice}")
    prepared: EvalPrepared | None = None
    finished: EvalFinished | None = None
    async with contextlib.aclosing(run_eval(request, settings)) as events:
        async for event in events:
            if isinstance(event, EvalPrepared):
                prepared = event
                _announce(event)
                await _note(event.out_dir, settings)
            elif isinstance(event, EpisodeDone):
                if (
                    not gc.get_freeze_count()
                ):  # all is imported now: collections need not walk over modules any more
                    gc.freeze()
                _log(event.line())
            elif isinstance(event, Notice):
                console.tell(event)
            elif isinstance(event, EvalFinished):
                finished = event
    assert prepared is not None and finished is not None
    known = await _known(request, prepared, settings)
    _report(request, prepared, finished.summary, known, as_json=as_json)
    return finished.summary


async def _note(out_dir: Path, settings: Settings) -> None:
    """Remember where the evaluation is written, so that Results and baselines find it."""
    import asyncio

    from hudtui.core.errors import HudtuiError
    from hudtui.core.results.find import note_results

    try:
        await asyncio.to_thread(note_results, settings.folder, out_dir)
    except (HudtuiError, OSError) as error:
        console.say(f"warning: baselines will not find this evaluation: {error}")


def _log(line: str) -> None:
    console.say(f"{time.strftime('%H:%M:%S')} {line}")


def _announce(prepared: EvalPrepared) -> None:
    errors = [problem for problem in prepared.problems if problem.severity == "error"]
    for problem in prepared.problems[:_SHOWN_PROBLEMS]:
        console.say(f"{problem.severity}: {problem}")
    if len(prepared.problems) > _SHOWN_PROBLEMS:
        console.say(f"... and {len(prepared.problems) - _SHOWN_PROBLEMS} more problems")
    if errors:
        left_out = len({problem.index for problem in errors})
        console.say(f"{left_out} {'task is' if left_out == 1 else 'tasks are'} left out")
    out = console.shown(prepared.out_dir)
    _log(
        f"start episodes={prepared.episodes} tasks={len(prepared.tasks)} policy={prepared.policy} "
        f"out={out}"
    )
    if prepared.job is not None:
        _log(
            f"job {prepared.job.name} id={prepared.job.id}"
            + (f" {prepared.job.url}" if prepared.job.url else "")
        )


async def _known(request: EvalRequest, prepared: EvalPrepared, settings: Settings) -> Known:
    """What this evaluation and the earlier ones of the project say of the tasks."""
    from hudtui.core.flows.baseline import known_after
    from hudtui.core.project import Project

    project = Project(settings.folder, settings.platform)
    return await known_after(request, prepared, project)


def _report(
    request: EvalRequest,
    prepared: EvalPrepared,
    summary: EvalSummary,
    known: Known,
    *,
    as_json: bool,
) -> None:
    spread = "" if summary.reward_std is None else f" reward_std={summary.reward_std:.3f}"
    reward = "none" if summary.reward is None else f"{summary.reward:.3f}"
    _log(
        f"end episodes={len(summary.outcomes)}/{summary.expected} failed={summary.failed} "
        f"reward={reward}{spread}"
    )
    if judging := summary.judging:
        console.say(judging_line(judging))
    own = _baseline(summary, request.group)
    if known.players:
        console.say(f"baseline: {known.line()}")
    if as_json:
        console.out_json(
            {
                "config": str(request.config),
                "source": request.tasks,
                "policy": prepared.policy,
                "out": str(prepared.out_dir),
                "job": None if prepared.job is None else to_plain(prepared.job),
                "problems": [to_plain(problem) for problem in prepared.problems],
                **summary.to_json(),
                "baseline": own.to_json(),
                "known": known.to_json(),
            }
        )
        return
    for line in reward_table(summary):
        console.out(line)


def judging_line(judging: Mapping[str, float]) -> str:
    """Return what the models that judge took, as `EvalSummary.judging`, on one line."""
    from hudtui.core.text import plural

    wanted, cached, requests, read, written = (int(judging.get(name, 0)) for name in _COUNTS)
    asked = f"{plural(wanted, 'verdict')}, {cached:,} known, {plural(requests, 'request')}"
    tokens = f"{read:,} + {written:,} tokens"
    cost = f"${judging['cost']:,.4f}" if "cost" in judging else "cost not known"
    return f"judges: {asked}, {tokens}, {cost}"


def _baseline(summary: EvalSummary, group: int) -> Baseline:
    """What the evaluation says of a training in groups of as many episodes."""
    from hudtui.core.results.baseline import PlayedEpisode, baseline

    episodes = {
        task: [PlayedEpisode(one.reward, one.solved) for one in outcomes if not one.failed]
        for task, outcomes in summary.by_task().items()
    }
    return baseline(episodes, group=group)


def reward_table(summary: EvalSummary) -> list[str]:
    """Return the rewards of each task as lines of a table.

    A task that was played more than once shows means.
    """
    from statistics import fmean

    from hudtui.core.text import clean_line

    own = list(dict.fromkeys(name for outcome in summary.outcomes for name in outcome.own))
    titles = (
        "task",
        "episodes",
        "reward",
        "completion",
        "tools",
        "format",
        *(clean_line(name, 40) for name in own),
        "turns",
        "stop",
    )
    rows: list[Sequence[str]] = [titles]
    for task, outcomes in summary.by_task().items():
        stops = dict.fromkeys(outcome.stop for outcome in outcomes)
        whole = [outcome for outcome in outcomes if not outcome.failed]
        means = [
            f"{fmean(getattr(outcome, name) for outcome in whole):.3f}" if whole else "-"
            for name in ("reward", "task_completion", "tool_execution", "format_compliance")
        ]
        judged = {
            name: [outcome.own[name] for outcome in whole if name in outcome.own] for name in own
        }
        parts = (f"{fmean(values):.3f}" if values else "" for values in judged.values())
        turns = f"{fmean(outcome.turns for outcome in outcomes):.1f}".removesuffix(".0")
        rows.append((task, str(len(outcomes)), *means, *parts, turns, ", ".join(stops)))
    return console.columns(rows, right=range(1, len(rows[0]) - 1))
