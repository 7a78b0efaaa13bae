"""Plans of runs on several machines: what all nodes do, and how the processes of a training meet.

Pure. Node 0 is the machine that hudtui follows; `pod/nodes.py` makes one run of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hudtui.core.training.plan import JobSpec, Plan, PlanFile, Readiness, Site, Stage

NODES = "nodes"
"""Name of the stage in which a node meets the others, and watches them."""
_PROGRAM = "nodes.py"
_MET = "nodes.met"
_MEETS_WITHIN = 600.0
"""Seconds; the program itself gives up before, and says why."""


def plan_nodes(spec: JobSpec, site: Site, plan_at: Callable[[Site, int], Plan]) -> Plan:
    """Return the plan of a run on `spec.nodes` machines.

    `plan_at` returns what a node does besides meeting the others, from its place and its number.
    """
    first, *others = [plan_at(site.at(node), node) for node in range(spec.nodes)]
    stages = [_meet(site), *first.stages]
    for node, other in enumerate(others, 1):
        own = (_meet(site.at(node)), *other.stages)
        stages += [replace(stage, name=f"{stage.name}-{node}", node=node) for stage in own]
    files = (PlanFile(_PROGRAM, resource=f"pod/{_PROGRAM}"), *first.files)
    return replace(first, stages=tuple(stages), files=files)


def _meet(site: Site) -> Stage:
    return Stage(
        NODES,
        (*site.python, site.path(_PROGRAM), "meet", site.path(".")),
        env={"PYTHONUNBUFFERED": "1"},
        service=True,
        ready=Readiness(path=_MET, timeout=_MEETS_WITHIN),
    )


def launch_words(
    spec: JobSpec, site: Site, node: int, python: str, *, processes: int
) -> tuple[str, ...]:
    """Return the words that start a node's processes of a training.

    The options of `accelerate launch`, and what it starts, follow. `processes` are those of each
    node. The address and the port are filled in on the machine, where all nodes have reached it.
    """
    return (
        *(python, site.path(_PROGRAM), "run", site.path(".")),
        *(beside(python, "accelerate"), "launch"),
        *("--num_machines", str(spec.nodes), "--machine_rank", str(node)),
        *("--main_process_ip", "{address}", "--main_process_port", "{port}"),
        *("--num_processes", str(spec.nodes * processes)),
    )


def beside(python: str, program: str) -> str:
    """Return a program of the environment of a Python."""
    return f"{python.rpartition('/')[0]}/{program}" if "/" in python else program
