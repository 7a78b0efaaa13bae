"""`hudtui rl`.

Everything checked, the plan shown, then one key to a run, its results and the end of its machine.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from hudtui.cli import console, runlog
from hudtui.cli.command import top
from hudtui.cli.options import Json, TrainerSettings, takes_request
from hudtui.cli.person import Terminal
from hudtui.core.errors import InputError
from hudtui.core.knobs import knob
from hudtui.core.runs.request import RunRequest

if TYPE_CHECKING:
    from hudtui.core.events import Progress
    from hudtui.core.flows.baseline import Known
    from hudtui.core.project import Project
    from hudtui.core.runs.prepare import Preparation
    from hudtui.core.runs.store import RunRecord, RunStore
    from hudtui.core.settings import Settings

R = TypeVar("R", bound=RunRequest)

_GLYPHS = {"fine": "✓", "warning": "!", "missing": "✗"}
_MOST_STEPS = 1000
"""Steps of a rehearsal."""


@dataclass(frozen=True)
class How:
    """The ways in which a command that starts a run may be carried out."""

    push_image: str | None = knob(
        None,
        "Push the local image there first; with a / at its end its name stays.",
        "--push-image",
        metavar="NAME",
    )
    yes: bool = knob(False, "Start without asking, also where it costs money.", "--yes", "-y")
    detach: bool = knob(
        False, "Do not wait for the end of a run on a machine of your own.", "--detach"
    )
    dry_run: bool = knob(
        False,
        "Print the checks and the whole plan, and start nothing; --json prints them as JSON.",
        "--dry-run",
    )
    emit_script: bool = knob(
        False, "Print the plan as a shell script, and start nothing.", "--emit-script"
    )
    no_tmux: bool = knob(False, "Run as detached processes, even if there is tmux.", "--no-tmux")
    brief: bool = False
    """Show warnings alone before the start."""

    @property
    def only_looks(self) -> bool:
        """Nothing is to be started."""
        return self.dry_run or self.emit_script


@takes_request()
@takes_request(kind=How, to="how")
@console.run_async(when_ended=runlog.GOES_ON)
async def run(
    request: RunRequest, settings: TrainerSettings = None, *, how: How, as_json: Json = False
) -> None:
    """Train a model, from the checks to the end of the machine.

    It checks everything, shows the plan, rents a machine, runs, fetches the results, and ends the
    machine.

    Lists everything that the run lacks, and offers to fix it in a terminal. Nothing is rented
    before you agree to the plan. A started run continues without this command; `hudtui runs resume`
    manages it again. --dry-run only prints the plan. Exit code 1 if the run did not finish. Exit
    code 2 if --dry-run finds something missing.
    """
    if how.push_image is not None and how.only_looks:
        raise typer.BadParameter(
            "an image is pushed for a run that is started", param_hint="--push-image"
        )
    await carry_out(checked(request, settings), how, as_json=as_json)


def checked(request: R, settings: list[str] | None) -> R:
    """Return a request with its single settings and its machine.

    Raises:
        BadParameter: Options exclude each other, or a setting cannot be used.
    """
    if request.host is not None and request.provider is not None:
        raise typer.BadParameter(
            "these options exclude each other", param_hint="--host, --provider"
        )
    spot = None if request.spot is None else "--spot" if request.spot else "--no-spot"
    market = (
        ("--offer", request.offer_name),
        ("--cloud", request.clouds),
        ("--region", request.regions),
        (spot, spot),
    )
    chosen = [name for name, value in market if value]
    if chosen and (request.host is not None or request.provider == "local"):
        raise typer.BadParameter("this is only for machines to rent", param_hint=chosen[0])
    if request.offer_name is not None and (
        request.clouds or request.regions or request.gpus or request.spot is not None
    ):
        raise typer.BadParameter(
            "an offer already has GPUs, cloud, region and kind", param_hint="--offer"
        )
    if request.rehearse and request.features.rehearsal is None:
        from hudtui.core.training.engines import engine_names, features_of

        others = [name for name in engine_names() if features_of(name).rehearsal is not None]
        text = f"only a training can be rehearsed (--engine {', '.join(others)})"
        raise typer.BadParameter(text, param_hint="--rehearse")
    if request.rehearse and request.steps is not None and request.steps > _MOST_STEPS:
        raise typer.BadParameter(f"a rehearsal has at most {_MOST_STEPS}", param_hint="--steps")
    from hudtui.core.training.recipe import parse_settings

    try:
        overrides = parse_settings(settings or ())
    except InputError as error:
        raise typer.BadParameter("; ".join(error.lines()), param_hint="--set") from None
    request = replace(request, settings=overrides)
    may_be_named = request.names_machine and chosen == [spot]
    if chosen and request.provider is None and not may_be_named:
        from pathlib import Path

        from hudtui.core.compute.registry import usual_rental
        from hudtui.core.settings import load_settings

        request = replace(request, provider=usual_rental(load_settings(Path.cwd()).get).name)
    elif request.rehearse and request.host is None and request.provider is None:
        request = replace(request, host="local")
    return request


@top.command("rehearse")
@takes_request("tasks", "config", "model", "training", "steps", steps=3)
@takes_request("yes", "dry_run", "no_tmux", kind=How, to="how")
@console.run_async(when_ended=runlog.GOES_ON)
async def rehearse(
    request: RunRequest, settings: TrainerSettings = None, *, how: How, as_json: Json = False
) -> None:
    """Rehearse a training: the same plan with a tiny model, a few steps, on this machine's CPU.

    As `hudtui rl --rehearse`. Errors in tasks, configuration, environment or rewards show here,
    before a GPU is paid for. The model knows nothing and is not worth keeping; --model takes a
    small real one instead. Exit code 1 if the run did not finish.
    """
    request = replace(request, rehearse=True, rehearse_model=request.model, model=None)
    await carry_out(checked(request, settings), replace(how, brief=True), as_json=as_json)


@runlog.machines()
async def carry_out(request: RunRequest, how: How, *, as_json: bool) -> None:
    """Check and plan a request, start the run if the user agrees, and follow it to its end.

    See `run`.
    """
    from hudtui.core.flows.baseline import with_baseline
    from hudtui.core.flows.start import agree_to_start
    from hudtui.core.flows.trust import require_run
    from hudtui.core.project import open_project
    from hudtui.core.training.engines import find_engine

    find_engine(request.engine)  # an engine that does not exist is the first thing to say
    project = open_project()
    _ask_about_env(project.settings(), how)
    store = project.runs
    if not how.only_looks:
        await runlog.reconcile_runs(store)
        if how.push_image is not None:
            await _push(how.push_image, project)
    prepared = await _prepare(request, store, project, how)
    if how.emit_script:
        runlog.print_script(prepared.require())
        return
    prepared, known = await with_baseline(prepared, project)
    if how.dry_run:
        _print_dry_run(prepared, store, known, as_json=as_json)
        if prepared.record is None:
            raise typer.Exit(InputError.exit_code)
        return
    record = prepared.require()
    await asyncio.to_thread(require_run, record.spec, project.settings())
    if how.detach:
        _may_detach(record)
    _show(prepared, store, brief=how.brief)
    if not await agree_to_start(prepared, project, Terminal(yes=how.yes)):
        raise typer.Abort
    if record.spec.rent is not None:
        runlog.say_event(await store.run(store.add, record))
        await manage(project, record.id, tmux=not how.no_tmux)
    else:
        await _run_here(record, project, how, as_json)
    if not how.detach:
        await _result(record, as_json)


# --- what is missing ------------------------------------------------------------------------------


def _ask_about_env(settings: Settings, how: How) -> None:
    """Ask about values of the project's `.env` that are not agreed to.

    It asks before a key counts as missing.

    A plan that is only shown is shown whatever the answer; its checks say what does not count.

    Raises:
        Untrusted: Something is to be started; whoever shows the error asks.
    """
    from hudtui.core.trust import Untrusted

    if settings.withheld and how.only_looks:
        console.agrees(Untrusted(settings.folder, settings.withheld))
    else:
        settings.require_trust()


async def _prepare(request: RunRequest, store: RunStore, project: Project, how: How) -> Preparation:
    """Check the request.

    Where a person can be asked, offer to fix what the run lacks until the person declines.
    """
    from hudtui.core.flows.baseline import measurer
    from hudtui.core.flows.prepare import fix
    from hudtui.core.runs.prepare import prepare_run

    while True:
        prepared = await prepare_run(
            request,
            project.workspace(),
            project.settings(),
            store,
            starts=not how.emit_script,
            measure=measurer(project.folder, store),
        )
        if not console.interactive() or how.only_looks or how.yes:
            return prepared
        for check in prepared.missing:
            console.say(f"✗ {check.name}: {check.text}")
            fixed = await fix(check, request, project, Terminal(), on_event=_say_progress)
            if fixed is not None:
                request = fixed
                break
        else:
            return prepared


def _say_progress(event: Progress) -> None:
    console.say(f"  {event.message or event.stage}")


async def _push(name: str, project: Project) -> None:
    """Push the environment's local image, and write its digest into the lock file."""
    from hudtui.core.runs.inputs import push_lock_image

    async with aclosing(push_lock_image(project.workspace(), name)) as steps:
        async for step in steps:
            console.say(f"  {step.text}")


# --- the plan -------------------------------------------------------------------------------------


def _print_dry_run(
    prepared: Preparation, store: RunStore, known: Known | None, *, as_json: bool
) -> None:
    """Print what would be done: in words, or for a program."""
    from hudtui.core.runs.plan_text import preparation_json, readiness_text

    if as_json:
        baseline = {} if known is None else {"baseline": known.to_json()}
        console.out_json({**preparation_json(prepared, store), **baseline})
        return
    for line in (*_check_lines(prepared, fixes=True), *_plan_lines(prepared, store)):
        console.out(line)
    console.out(readiness_text(prepared))


def _show(prepared: Preparation, store: RunStore, *, brief: bool) -> None:
    for line in _check_lines(prepared, brief=brief):
        console.say(line)
    for line in () if brief else _plan_lines(prepared, store):
        console.say(line)


def _check_lines(prepared: Preparation, *, brief: bool = False, fixes: bool = False) -> list[str]:
    lines = []
    for check in prepared.checks:
        if not brief or check.state != "fine":
            lines.append(f"{_GLYPHS[check.state]} {check.name}: {check.text}")
            if fixes and check.fix and check.state != "fine":
                lines.append(f"    {check.fix}")
    return lines


def _plan_lines(prepared: Preparation, store: RunStore) -> list[str]:
    """Return the whole plan between empty lines; without one, an empty line."""
    from hudtui.core.runs.plan_text import plan_lines

    if prepared.record is None:
        return [""]
    return [
        "",
        *(
            f"{line.label:<10} {line.text}".rstrip()
            for line in plan_lines(prepared.record, store, prepared)
        ),
        "",
    ]


# --- the run --------------------------------------------------------------------------------------


async def manage(project: Project, run: str, *, tmux: bool) -> None:
    """Carry out the remaining steps of a run on a rented machine, and print each step."""
    from hudtui.core.flows.manage import manage_run
    from hudtui.core.flows.notify import notifying

    following: asyncio.Task[None] | None = None
    events = manage_run(run, project, tmux=tmux, progress=runlog.progress(), say=console.say)
    try:
        async with notifying(run, project, console.say), aclosing(events) as steps:
            async for event in steps:
                runlog.say_event(event)
                if event.type == "stage_started" and following is None:
                    following = asyncio.create_task(_follow_quietly(project.runs, run))
                elif event.data.get("name") == "collect" and following is not None:
                    await asyncio.wait((following,), timeout=5.0)  # its last lines
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def _follow_quietly(store: RunStore, run: str) -> None:
    """Print the logs of a run while it is managed; the manager reports failures."""
    from hudtui.core.errors import HudtuiError
    from hudtui.core.runs.watch import Monitor

    with contextlib.suppress(HudtuiError):
        await runlog.follow_run(Monitor(store), await store.run(store.record, run))


def _may_detach(record: RunRecord) -> None:
    """Raises an error where this computer has to stay connected while the run continues."""
    if record.spec.rent is not None:
        raise InputError(
            "a rented machine is managed from this computer until it is ended",
            fix=(
                "Leave --detach out. Ctrl-C leaves the run running; `hudtui runs resume` manages "
                "it again."
            ),
        )
    if record.spec.tunnels:
        raise InputError(
            "this run needs a tunnel from this computer until it ends", fix="Leave --detach out."
        )


def _away(record: RunRecord) -> bool:
    """Return True if its results are to be somewhere else than where it writes them."""
    return record.host != "local" or record.spec.output_dir is not None


async def _run_here(record: RunRecord, project: Project, how: How, as_json: bool) -> None:
    """On this machine, or one of the user's own."""
    from hudtui.core.flows.notify import notifying
    from hudtui.core.flows.start import open_tunnels

    async with open_tunnels(record, project):
        for port in record.spec.tunnels if record.host != "local" else ():
            console.say(f"port {port} of this computer is port {port} there")
        await runlog.launch(record, project, tmux=not how.no_tmux)
        if how.detach:
            await _begun(record, as_json)
            console.say(f"hudtui runs logs -f {record.id}   or   hudtui runs attach {record.id}")
            if _away(record):
                console.say(f"hudtui runs pull {record.id}   brings its results here")
            return
        _, monitor = runlog.open_store()
        async with notifying(record.id, project, console.say):
            await runlog.follow_run(monitor, record)
        if record.spec.peers:
            from hudtui.core.runs.launch import end_peers

            for sentence in await end_peers(record):
                console.say(f"warning: {sentence}: hudtui runs stop {record.id}")
        if _away(record):
            await _bring_home(record, project.runs)


async def _begun(record: RunRecord, as_json: bool) -> None:
    """Print the run that has started: its id, or all about it as JSON."""
    if as_json:
        _, monitor = runlog.open_store()
        console.out_json((await monitor.view(record.id)).to_json())
    else:
        console.out(record.id)


async def _bring_home(record: RunRecord, store: RunStore) -> None:
    from hudtui.core.runs.results import pull

    results = await pull(record.id, store)
    console.say(f"{results.files} files, {results.size:,} bytes in {results.folder}")


async def _result(record: RunRecord, as_json: bool) -> None:
    _, monitor = runlog.open_store()
    view: Any = await monitor.view(record.id)
    if as_json:
        console.out_json(view.to_json())
    else:
        runlog.print_view(view)
    if view.summary.state != "finished":
        raise typer.Exit(console.FOUND)
