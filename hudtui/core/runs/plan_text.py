"""The plan of a run as text, for the user to confirm.

Machine and price, files, every command, ports, results.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hudtui.core.compute.choose import price_text
from hudtui.core.compute.limits import Limits
from hudtui.core.plain import to_plain
from hudtui.core.remote.host import LOCAL
from hudtui.core.runs.prepare import Preparation
from hudtui.core.runs.results import results_folder
from hudtui.core.runs.run_settings import shown_address, shown_variable
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.text import clean_line, money, plural
from hudtui.core.training.engines import features_of, recipe_for
from hudtui.core.training.plan import Plan, Stage
from hudtui.core.training.recipe import recipe_text


@dataclass(frozen=True)
class PlanLine:
    """One line of a plan."""

    label: str
    """The subject: `machine`, `cost`, `file`, the name of a stage, ..."""
    text: str


def plan_lines(
    record: RunRecord, store: RunStore, prepared: Preparation | None = None
) -> tuple[PlanLine, ...]:
    """Return the lines of the whole plan.

    In them, `RUN` stands for the run's folder on its machine.
    """
    plan, spec = record.plan, record.spec
    lines = [
        PlanLine("run", f"{record.id}  (engine {record.engine})"),
        *_machine_lines(record, prepared),
    ]
    selected = None if prepared is None else prepared.inputs.selected
    if selected is not None:
        lines.append(PlanLine("tasks", clean_line(selected.text, 300)))
    if features_of(record.engine).trains:
        recipe = recipe_for(spec)
        lines.append(
            PlanLine("training", f"{clean_line(recipe.model, 100)}: {recipe_text(recipe)}")
        )
    for file in plan.files:
        source = f"  from {_short(file.source.path)}" if file.source else ""
        lines.append(PlanLine("file", f"RUN/{file.path}  {file.size:,} bytes{source}"))
    if plan.wheel:
        lines.append(PlanLine("file", "RUN/files/wheel/  this hudtui as a wheel"))
    for stage in plan.stages:
        words = shlex.join(_shown_words(stage, spec)).replace(record.folder, "RUN")
        lines.append(PlanLine(stage.name, clean_line(_short(words))))
        shown = _shown_variables(stage, spec)
        variables = [
            f"{name}={value}".replace(record.folder, "RUN") for name, value in shown.items()
        ]
        if variables:
            lines.append(PlanLine("", clean_line("with " + " ".join(variables))))
        if stage.secrets:
            lines.append(PlanLine("", f"with the secrets {', '.join(stage.secrets)}"))
    lines += [PlanLine("port", f"{port.number}  {port.what}") for port in plan.ports]
    lines += [
        PlanLine("tunnel", f"port {port} of this computer is reachable there while hudtui is open")
        for port in spec.tunnels
    ]
    lines += [PlanLine("result", f"RUN/{output.path}  {output.what}") for output in plan.outputs]
    lines.append(
        PlanLine("RUN", _short(record.folder) + ("" if record.host == LOCAL else " on the machine"))
    )
    home = results_folder(record, store)
    if record.host != LOCAL or spec.output_dir is not None:
        when = (
            "when it has ended"
            if spec.rent or spec.output_dir
            else f"by: hudtui runs pull {record.id}"
        )
        lines.append(PlanLine("home", f"results come to {_short(str(home))} {when}"))
    lines += [PlanLine("note", clean_line(note, 600)) for note in plan.notes]
    return tuple(lines)


def _machine_lines(record: RunRecord, prepared: Preparation | None) -> list[PlanLine]:
    rent = record.spec.rent
    if rent is None:
        name = "this machine" if record.host == LOCAL else record.host
        lines = [PlanLine("machine", f"{clean_line(name)}, free")]
        for node, peer in enumerate(record.spec.peers, 1):
            name = "this machine, too" if peer == LOCAL else f"{clean_line(peer)}, free"
            lines.append(PlanLine(f"node {node}", name))
        if prepared is not None and prepared.forecast is not None:
            lines.append(PlanLine("time", prepared.forecast.text))
        if record.plan.max_seconds is not None:
            lines.append(PlanLine("limit", f"stopped after {record.plan.max_seconds / 3600:g} h"))
        return lines
    from hudtui.core.runs.site import offer_text

    paid = " (simulated: no money is spent)" if rent.simulated else ""
    lines = [PlanLine("machine", f"{rent.machine}, rented from {rent.provider}{paid}")]
    if record.spec.peers:
        text = f"its {record.plan.nodes} machines train together, and are rented and ended as one"
        lines.append(PlanLine("nodes", text))
        if rent.offer.nodes_guessed:
            text = (
                "the offer does not say how many machines it has: so many follow from its GPUs. A "
                "cluster with more or fewer is ended, and costs money for the minutes until then"
            )
            lines.append(PlanLine("", text))
    if prepared is not None and prepared.choice is not None:
        lines.append(PlanLine("", offer_text(prepared.choice.offer)))
        lines += [PlanLine("", clean_line(reason, 300)) for reason in prepared.choice.reasons]
    if prepared is not None and prepared.forecast is not None:
        lines.append(PlanLine("cost", prepared.forecast.text))
    if prepared is not None and prepared.estimate is not None:
        text = prepared.estimate.text
        lines.append(
            PlanLine("cost", text)
            if prepared.forecast is None
            else PlanLine("", f"until its limits: {text}")
        )
    lines.append(PlanLine("limits", limits_text(record.spec.limits, rent.currency)))
    kept = (
        "is KEPT, and you pay for it until you end it or its limits do"
        if rent.keep_on_failure
        else "is ended, after its results were fetched"
    )
    lines.append(
        PlanLine(
            "",
            "after the run the machine is ended, and that is verified; after a failed one it "
            f"{kept}",
        )
    )
    return lines


def readiness_text(prepared: Preparation) -> str:
    """Return a sentence that says whether a run can be started.

    It names the expected and the highest cost.
    """
    if prepared.record is None:
        first, *others = prepared.missing
        more = f" (and {plural(len(others), 'more problem')})" if others else ""
        return f"Not ready: {clean_line(first.text, 160).removesuffix('.')}{more}."
    spec, forecast = prepared.record.spec, prepared.forecast
    rent = spec.rent
    if rent is None:
        return "Ready: no machine is rented." + ("" if forecast is None else f" {forecast.text}")
    simulated = " (simulated)" if rent.simulated else ""
    if forecast is not None:
        return f"Ready{simulated}. {forecast.text}"
    return (
        f"Ready{simulated}: {price_text(rent.offer.price)}/h; limits: "
        f"{limits_text(spec.limits, rent.currency)}."
    )


def plan_summary(record: RunRecord, store: RunStore) -> str:
    """Return a plan in one line: files, stages, and where the results go."""
    plan, names = record.plan, ", ".join(stage.name for stage in record.plan.stages)
    results = _short(str(results_folder(record, store)))
    return (
        f"{plural(len(plan.files), 'file')} · {plural(len(plan.stages), 'stage')}: {names} · "
        f"results in {results}"
    )


def limits_text(limits: Limits, currency: str = "USD") -> str:
    """Return limits as one line of text."""
    parts = [
        f"{money(limits.run_budget, currency)} for this run"
        if limits.run_budget is not None
        else "no budget",
        f"{money(limits.day_budget)} a day for all" if limits.day_budget is not None else "",
        f"{limits.max_hours:g} h" if limits.max_hours is not None else "no time limit",
        f"{limits.idle_minutes:g} idle minutes" if limits.idle_minutes is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def plan_json(record: RunRecord) -> dict[str, Any]:
    """Return the plan of a run as JSON values.

    The variables and the endpoint are as the settings of the run show them.
    """
    found = to_plain(record.plan)
    for told, stage in zip(found["stages"], record.plan.stages, strict=True):
        if record.plan.nodes == 1:
            del told["node"]
        told["argv"] = list(_shown_words(stage, record.spec))
        told["env"] = dict(_shown_variables(stage, record.spec))
    return found


def without_hidden_variables(plan: Plan, spec: RunSpec) -> Plan:
    """Return a plan to print that can still be carried out.

    Variables that are not shown are to be set in the environment.
    """

    def without(stage: Stage) -> Stage:
        shown = _shown_variables(stage, spec)
        hidden = tuple(name for name, value in stage.env.items() if shown[name] != value)
        env = {name: value for name, value in stage.env.items() if name not in hidden}
        return replace(stage, env=env, secrets=(*stage.secrets, *hidden))

    return replace(plan, stages=tuple(map(without, plan.stages)))


def _shown_words(stage: Stage, spec: RunSpec) -> tuple[str, ...]:
    """The command of a stage, with the login in the run's endpoint masked."""
    if not spec.base_url:
        return stage.argv
    return tuple(word.replace(spec.base_url, shown_address(spec.base_url)) for word in stage.argv)


def _shown_variables(stage: Stage, spec: RunSpec) -> Mapping[str, str]:
    """The variables of a stage.

    Those of the user's settings, which may hold secrets, are masked as `run_settings` masks them.
    """
    return {
        name: shown_variable(name, value) if name in spec.variables else value
        for name, value in stage.env.items()
    }


def preparation_json(prepared: Preparation, store: RunStore) -> dict[str, Any]:
    """Return the JSON output of `hudtui rl --dry-run --json`."""
    record = prepared.record
    found: dict[str, Any] = {
        "ready": record is not None,
        "checks": [check.to_json() for check in prepared.checks],
    }
    if prepared.inputs.selected is not None:
        found["selected"] = prepared.inputs.selected.to_json()
    if record is None:
        return found
    rent = record.spec.rent
    machine: dict[str, Any] = {"host": record.host, "rented": rent is not None}
    if rent is not None:
        machine |= {
            "provider": rent.provider,
            "name": rent.machine,
            "hourly": rent.hourly,
            "currency": rent.currency,
        }
        machine |= {
            "simulated": rent.simulated,
            "keep_on_failure": rent.keep_on_failure,
            "limits": record.spec.limits.to_json(),
        }
    if prepared.choice is not None:
        machine["choice"] = prepared.choice.to_json()
    if prepared.estimate is not None:
        machine["estimate"] = vars(prepared.estimate)
    if prepared.forecast is not None:
        found["forecast"] = to_plain(prepared.forecast)
    return {
        **found,
        "id": record.id,
        "name": record.name,
        "engine": record.engine,
        "machine": machine,
        "folder": record.folder,
        "results": str(results_folder(record, store)),
        "secrets": list(record.plan.secrets),
        "plan": plan_json(record),
    }


def _short(text: str) -> str:
    return text.replace(f"{Path.home()}/", "~/")
