"""Starting a run.

The question before it, the launch on a machine that the user has, and the plan of a rehearsal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace

from hudtui.core.compute.lifecycle import offer_title
from hudtui.core.compute.provider import Provider
from hudtui.core.errors import HudtuiError, MachineError
from hudtui.core.flows.baseline import measurer
from hudtui.core.flows.person import Person
from hudtui.core.flows.rent import wallet_line
from hudtui.core.flows.stop import rental
from hudtui.core.flows.trust import require_run
from hudtui.core.project import Project
from hudtui.core.remote.host import LOCAL
from hudtui.core.remote.hosts import find_host
from hudtui.core.runs.launch import error_sentence, launch
from hudtui.core.runs.plan_text import limits_text
from hudtui.core.runs.prepare import Preparation, prepare_run
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.store import RunRecord
from hudtui.core.runs.values import RunEvent
from hudtui.core.text import clean_line, money
from hudtui.core.training.engines import features_of, rehearsing_engine, trainer_environment


async def agree_to_start(
    prepared: Preparation,
    project: Project,
    person: Person,
    *,
    providers: Mapping[str, Provider] | None = None,
) -> bool:
    """Ask whether a run is to be started.

    The question shows what its machine costs, what the wallet has and what ends the machine.

    Args:
        prepared: A preparation with a run.
        project: The project.
        person: The user.
        providers: Providers by name; None opens the provider by the settings.

    Raises:
        HudtuiError: The provider cannot be opened; see `stop.rental`.
    """
    record = prepared.record
    assert record is not None
    rent, name = record.spec.rent, clean_line(record.name, 60)
    if record.spec.rehearse and record.host == LOCAL:
        return await _agree_to_environment(record, person)
    if rent is None:
        names = dict.fromkeys((record.host, *record.spec.peers))
        where = " and ".join(
            "this machine" if name == LOCAL else clean_line(name, 60) for name in names
        )
        return await person.confirm(
            f"Start {name}?",
            (f"It runs on {where}; no machine is rented.",),
            yes="Start",
            no="Not now",
        )
    price = f"{money(rent.hourly, rent.currency)}/h" + (" (simulated)" if rent.simulated else "")
    async with rental(record, project, providers=providers) as context:
        seller, wallet = (
            context.provider.title,
            await wallet_line(rent.offer, context.provider, context.ledger, person),
        )
    lines = [f"{seller}: {rent.machine}, {offer_title(rent.offer)}: {price}"]
    if prepared.forecast is not None:
        lines.append(prepared.forecast.text)
    if prepared.estimate is not None:
        lines.append(
            prepared.estimate.text
            if prepared.forecast is None
            else f"Until its limits: {prepared.estimate.text}."
        )
    lines.append(f"Limits: {limits_text(record.spec.limits, rent.currency)}.")
    if wallet is not None:
        lines.append(wallet)
    lines.append("It is ended after the run, and that is verified.")
    if rent.keep_on_failure:
        lines.append(
            "After a failed run it is KEPT, and you pay for it until you end it or its limits do."
        )
    if rent.simulated and not record.spec.rehearse and features_of(record.engine).trains:
        lines.append(
            "A simulated machine has no GPU: this training will end with an error. A rehearsal "
            "works there."
        )
    return await person.confirm(
        f"Rent a machine for {name}?",
        tuple(lines),
        yes="Rent and start",
        no="Not now",
        danger=not rent.simulated,
    )


async def agree_to_request(
    request: RunRequest,
    project: Project,
    person: Person,
    *,
    providers: Mapping[str, Provider] | None = None,
) -> RunRecord | None:
    """Check and plan a request, and ask whether the run is to be started.

    Args:
        request: What to run, and where.
        project: The project.
        person: The user.
        providers: Providers by name; None opens them by the settings.

    Returns:
        The run to start; None if the user declines.

    Raises:
        InputError: Something is missing; the error names all of it.
        Untrusted: The run needs something that the user has not agreed to.
        HudtuiError: See `agree_to_start`.
    """
    settings = await asyncio.to_thread(project.settings)
    settings.require_trust()  # a key that is not agreed to would count as missing
    store = project.runs
    prepared = await prepare_run(
        request,
        project.workspace(),
        settings,
        store,
        providers=providers,
        measure=measurer(project.folder, store),
    )
    record = prepared.require()
    await asyncio.to_thread(require_run, record.spec, settings)
    return record if await agree_to_start(prepared, project, person, providers=providers) else None


async def plan_rehearsal(request: RunRequest, project: Project, person: Person) -> RunRecord | None:
    """Check and plan the rehearsal of a training on this machine.

    It asks before an environment for training is made for it.

    See `agree_to_request`.
    """
    request = replace(request, engine=rehearsing_engine(request.engine), rehearse=True, host=LOCAL)
    return await agree_to_request(request, project, person)


async def _agree_to_environment(record: RunRecord, person: Person) -> bool:
    """Ask before an environment for training is made on this machine.

    A rehearsal there costs nothing else.
    """
    trainer = trainer_environment(record.plan)
    features = features_of(record.engine)
    lines = (f"{features.installed_size}, once; into {trainer.python.parent.parent}.",)
    question = f"Install {features.installs} for rehearsals?"
    return trainer.ready or await person.confirm(question, lines, yes="Install", no="Not now")


async def start(
    record: RunRecord, project: Project, *, tmux: bool = True
) -> AsyncGenerator[RunEvent, None]:
    """Start a run on its machine, which the user has: this one, or one behind SSH.

    The run continues without hudtui.
    Leaving the iterator early interrupts the launch; see `runs.launch.launch`.

    Args:
        record: The planned run.
        project: The project that keeps it.
        tmux: False for detached processes even if the machine has tmux.

    Yields:
        Each step as an event of the run.

    Raises:
        Untrusted: The run needs something that the user has not agreed to.
        RunError: A secret is missing, or the store cannot be written.
        MachineError: A step failed; the run is kept as failed, with the reason.
    """
    settings = await asyncio.to_thread(project.settings)
    await asyncio.to_thread(require_run, record.spec, settings)
    async with aclosing(
        launch(record, find_host(record.host), project.runs, lookup=settings.lookup, tmux=tmux)
    ) as events:
        async for event in events:
            yield event


@asynccontextmanager
async def open_tunnels(record: RunRecord, project: Project) -> AsyncIterator[None]:
    """Let a machine of the user's reach the environments on this computer that a run needs.

    They are within reach for as long as this is open.

    Raises:
        Untrusted: The run needs something that the user has not agreed to.
        MachineError: A port cannot be reached from there.
    """
    ports = record.spec.tunnels if record.host != LOCAL else ()
    if ports:
        await asyncio.to_thread(lambda: require_run(record.spec, project.settings()))
    async with AsyncExitStack() as stack:
        names = (record.host, *record.spec.peers)
        for name, port in ((name, port) for name in names for port in ports):
            try:
                await stack.enter_async_context(find_host(name).reverse(port, "127.0.0.1", port))
            except HudtuiError as error:
                text = f"port {port} of this computer cannot be reached from its machine"
                raise MachineError(text, why=error_sentence(error)) from error
        yield
