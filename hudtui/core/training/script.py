"""A plan as one shell script.

What hudtui would do on the machine, to be read, kept, or run by hand.
"""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from hudtui.core.errors import InputError
from hudtui.core.training.plan import WHEELS, Plan, PlanFile, Stage

_END = "HUDTUI_END_OF_FILE"
_ANSWERS = (
    "# Whether a service on this machine says that it is well. Bash asks itself: not every machine "
    "has curl.",
    "answers() (",
    '    exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1',
    "    printf 'GET /health HTTP/1.0\\r\\nHost: 127.0.0.1:%s\\r\\n\\r\\n' \"$1\" >&3",
    "    read -r -t 10 _ status _ <&3 && [[ $status == 2* ]]",
    ") 2>/dev/null",
)


def plan_script(plan: Plan, *, name: str) -> str:
    """The script.

    It stands alone but for the user's own files, which it expects under `files/`, and the secrets.
    The paths of the plan's stages must be relative: a plan for another machine.

    Raises:
        InputError: It is a plan for several machines.
    """
    if plan.nodes > 1:
        raise InputError(
            f"a script runs on one machine, and this plan is for {plan.nodes}",
            fix="Leave out --emit-script, or name one machine.",
        )
    lines = [
        "#!/usr/bin/env bash",
        f"# {name}: engine {plan.engine}. Written by hudtui; does by hand what a run does on its "
        "machine.",
        "#",
        "# Put into this folder, under the names below, before it is started:",
        *(
            f"#   {file.path}   (yours: {PurePosixPath(file.source.path).name})"
            for file in plan.files
            if file.source
        ),
        *(["#   files/wheel/hudtui-*.whl   (the wheel of hudtui)"] if plan.wheel else []),
        *([f"# Set in the environment: {', '.join(plan.secrets)}"] if plan.secrets else []),
        *(f"# {note}" for note in plan.notes),
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        "mkdir -p files out logs",
    ]
    for file in plan.files:
        if file.source is not None:
            lines.append(
                f'[ -f {_q(file.path)} ] || {{ echo "put {file.path} here first"; exit 2; }}'
            )
    if resources := [file for file in plan.files if file.resource is not None]:
        lines += [
            f"python3 -m zipfile -e {WHEELS}/hudtui-*.whl .wheel  # what hudtui brings along is in "
            "its wheel"
        ]
        lines += [f"cp .wheel/hudtui/{file.resource} {_q(file.path)}" for file in resources]
    for file in plan.files:
        if file.content is not None:
            lines += _write(file)
    services = [stage for stage in plan.stages if stage.service]
    if any(stage.ready is not None and stage.ready.port is not None for stage in services):
        lines += ["", *_ANSWERS]
    if services:
        lines += [
            "",
            "services=",
            'trap \'[ -z "$services" ] || { kill $services; wait $services; } 2>/dev/null || '
            "true' EXIT",
        ]
    for stage in plan.stages:
        lines += ["", f"# --- {stage.name}", *_run(stage)]
    return "\n".join(lines) + "\n"


def _write(file: PlanFile) -> list[str]:
    text = file.text.decode()
    parent = str(PurePosixPath(file.path).parent)
    made = [f"mkdir -p {_q(parent)}"] if parent != "." else []
    return ["", *made, f"cat >{_q(file.path)} <<'{_END}'", text.rstrip("\n"), _END]


def _run(stage: Stage) -> list[str]:
    words = shlex.join(stage.argv)
    env = " ".join(f"{name}={_q(value)}" for name, value in stage.env.items())
    command = f"env {env} {words}" if env else words
    if stage.cwd:
        command = f"(cd {_q(stage.cwd)} && exec {command})"
    log = f"logs/{stage.name}.log"
    if not stage.service:
        return [f"{command} 2>&1 | tee {log}"]
    lines = [f"{command} >{log} 2>&1 &", 'services="$services $!"']
    if stage.ready is not None and stage.ready.port is not None:
        tries = int(stage.ready.timeout // 2)
        lines += [
            "tries=0",
            f"until answers {stage.ready.port}; do",
            f'    tries=$((tries + 1)); [ "$tries" -le {tries} ] || {{ echo "{stage.name} does not '
            f'answer: {log}"; exit 5; }}',
            f'    kill -0 "${{services##* }}" 2>/dev/null || {{ echo "{stage.name} has ended: '
            f'{log}"; exit 5; }}',
            "    sleep 2",
            "done",
        ]
    return lines


def _q(text: str) -> str:
    return shlex.quote(text)
