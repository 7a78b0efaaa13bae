"""The spec of a run: what its request, its machine and its checks come to."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from hudtui.core.paths import typed_path
from hudtui.core.runs.inputs import Inputs
from hudtui.core.runs.preflight import Checks
from hudtui.core.runs.request_texts import chosen_texts
from hudtui.core.runs.site import RunSite
from hudtui.core.runs.spec import Rental, RunSpec
from hudtui.core.runs.work import Work
from hudtui.core.training.engines import as_rehearsal
from hudtui.core.training.options import JobOptions
from hudtui.core.training.plan import file_ref
from hudtui.core.workspace import Workspace

REHEARSAL_STEPS = 3
"""Default number of steps of a rehearsal."""


def resolve(work: Work, site: RunSite, checks: Checks, workspace: Workspace) -> RunSpec:
    """Return the spec of a run whose checks are complete. Reads the run's files for their digests.

    Raises:
        InputError: A file cannot be read.
    """
    request = work.request
    inputs = checks.inputs
    assert inputs.task_file is not None and inputs.config_file is not None
    player = _player(work, inputs)
    name = request.name or _usual_name(work, inputs.config_file, player)
    rent = _rental(work, site, name)
    policy, _, trace = (player or "").partition(":")
    code = tuple(file_ref(file) for file in inputs.reward_files)
    spec = RunSpec(
        **{option.name: getattr(request, option.name) for option in fields(JobOptions)}
        | {"policy": player},
        engine=request.engine,
        name=name,
        workspace=str(workspace.folder),
        tasks=file_ref(inputs.task_file),
        config=file_ref(inputs.config_file),
        reward_file=code[0] if code else None,
        reward_modules=code[1:],
        templates=checks.templates,
        model_files=tuple(file_ref(file) for file in checks.model_files),
        policy_file=file_ref(trace) if policy == "replay" and trace else None,
        max_seconds=_max_seconds(work, site),
        platform=workspace.platform.name,
        gpus=site.gpus,
        gpu_memory=site.gpu_memory,
        nodes=request.node_count,
        peers=site.peers if rent is None else rent.hosts[1:],
        shape=None if work.demand is None else work.demand.shape,
        training=work.training,
        trainer_python=request.python,
        continues=request.continues,
        secrets=checks.sent.secrets,
        variables=checks.sent.variables,
        stop_on=request.stop_on if request.features.trains else (),
        tunnels=checks.tunnels,
        remarks=(*checks.remarks, *_end_of(site)),
        output_dir=None
        if request.output_dir is None
        else str(typed_path(request.output_dir).absolute()),
        rent=rent,
        limits=work.limits,
        asked=chosen_texts(request),
    )
    return _rehearsal(spec, work, site) if request.rehearse else spec


def _player(work: Work, inputs: Inputs) -> str | None:
    """Return the policy that plays the tasks; None in a training without a named one."""
    from hudtui.core.rollouts.policy import default_policy

    request, config = work.request, inputs.config
    if request.policy or request.features.trains or config is None:
        return request.policy
    return default_policy(config)


def _usual_name(work: Work, config: Path, player: str | None) -> str:
    """Return the name of a run that the user has not named."""
    request = work.request
    if request.rehearse:
        return "rehearsal"
    if not request.features.trains:
        return f"{config.stem} {(player or '').partition(':')[0]}"
    return f"{config.stem} {request.model.rpartition('/')[2]}" if request.model else config.stem


def _max_seconds(work: Work, site: RunSite) -> float | None:
    """Return the time limit of the run.

    The hours that the user has typed, on a machine of the user's.
    The watchdog enforces the time of a rented machine, and accepts changed limits.
    """
    hours = work.limits.max_hours
    return hours * 3600 if hours is not None and work.request.limits and not site.rented else None


def _rental(work: Work, site: RunSite, name: str) -> Rental | None:
    """Return the rental of the chosen offer; None for a machine of the user's."""
    from hudtui.core.compute.lifecycle import unique_name

    if not site.rented:
        return None
    assert site.choice is not None and site.seller is not None
    offer, seller = site.choice.offer, site.seller
    return Rental(
        provider=seller.name,
        machine=unique_name(name),
        offer=offer,
        hourly=offer.price.hourly,
        currency=offer.price.currency,
        ssh_key=seller.ssh_key,
        keep_on_failure=work.request.keep_on_failure,
        simulated=seller.simulated,
    )


def _end_of(site: RunSite) -> tuple[str, ...]:
    """Return a remark on what ends a rented machine if hudtui is closed."""
    from hudtui.core.runs.remote_run import WATCHDOG_ENDS, WATCHDOG_POWERS_OFF

    if site.seller is None:
        return ()
    return (WATCHDOG_ENDS if site.seller.ends else WATCHDOG_POWERS_OFF,)


def _rehearsal(spec: RunSpec, work: Work, site: RunSite) -> RunSpec:
    """Return the spec of a rehearsal of the same run."""
    gpus = 0 if work.gpus is None else work.gpus.count
    spec = as_rehearsal(spec, steps=work.request.steps or REHEARSAL_STEPS, gpus=gpus)
    if not site.remote:
        return spec
    return replace(
        spec, trainer_python=work.request.python
    )  # the Python in this computer's variable does not exist
