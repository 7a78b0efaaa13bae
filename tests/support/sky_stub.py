"""A `sky` that rents nothing: it takes hudtui's commands, checks the task file, and answers in the
forms of SkyPilot 0.14.1.

The forms of the answers, their exit statuses and their texts are those that the real program gave
where it had no network. What a task may say follows its documentation;
`tests/conformance/sky_task.py` asks the real package as well. The state is a JSON file, named by
STUB_SKY:

    began      when every cluster was launched, seconds since 1970; each lives for half an hour
    calls      argv of every call
    tasks      every task file that came
    clouds     what may be used
    offers     rows by cloud
    clusters   name -> {status, ...}; "after": status at the next look
    launches   name -> status of its request
    old_server it tells of all launches, whichever is asked for
    fail       command -> [what it says, exit status], once
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

NO = {"additionalProperties": False}
TASK: dict[str, Any] = {
    "type": "object",
    **NO,
    "required": ["name", "resources", "run"],
    "properties": {
        "name": {"type": "string"},
        "num_nodes": {"type": "integer", "minimum": 1},
        "run": {"type": "string"},
        "setup": {"type": "string"},
        "envs": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        "resources": {
            "type": "object",
            **NO,
            "required": ["infra", "accelerators", "autostop"],
            "properties": {
                "infra": {
                    "type": "string",
                    "pattern": (
                        r"^(aws|azure|gcp|lambda|runpod|nebius|ssh|slurm|kubernetes)"
                        r"(/[^/]+){0,2}$"
                    ),
                },
                "accelerators": {"type": "string", "pattern": r"^[\w.-]+(:\d+(\.\d+)?)?$"},
                "instance_type": {"type": "string"},
                "use_spot": {"type": "boolean"},
                "disk_size": {"type": "integer"},
                "image_id": {"type": "string"},
                "autostop": {
                    "type": "object",
                    **NO,
                    "required": ["idle_minutes", "down"],
                    "properties": {
                        "idle_minutes": {"type": "integer", "minimum": 0},
                        "down": {"const": True},
                        "wait_for": {"enum": ["jobs", "jobs_and_ssh", "none"]},
                    },
                },
            },
        },
    },
}


def main(words: list[str]) -> int:
    """One call."""
    path = Path(os.environ["STUB_SKY"])
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)  # until this process ends
    state = json.loads(path.read_text())
    state.setdefault("calls", []).append(words)
    json_wanted = words[-2:] == ["-o", "json"]
    words = words[:-2] if json_wanted else words
    name = (
        " ".join(word for word in words[:2] if not word.startswith("-"))
        if words[0] in ("api", "gpus")
        else words[0]
    )
    said, status = state.get("fail", {}).pop(name, ("", 0))
    out: Any = None
    if status:
        print(said, file=sys.stderr)
    else:
        out, status = COMMANDS[name](state, words)
    path.write_text(json.dumps(state))
    if out is not None:
        print(json.dumps(out, indent=2) if json_wanted else out)
    return int(status)


def check(state: Any, words: list[str]) -> Any:
    return {"default": {cloud: ["compute"] for cloud in state.get("clouds", [])}}, 0


def gpus(state: Any, words: list[str]) -> Any:
    cloud = words[words.index("--infra") + 1]
    found: dict[str, Any] = {}
    for row in state.get("offers", {}).get(cloud, []):
        found.setdefault(row["accelerator_name"], []).append(row)
    return found, 0


def launch(state: Any, words: list[str]) -> Any:
    import jsonschema
    import yaml

    name = words[words.index("--cluster") + 1]
    assert {"--yes", "--async", "--detach-run"} <= set(words), words
    task = yaml.safe_load(Path(words[-1]).read_text())
    state.setdefault("tasks", []).append(task)
    try:
        jsonschema.validate(task, TASK)
    except jsonschema.ValidationError as error:
        print(f"ValueError: Invalid task YAML: {error.message}", file=sys.stderr)
        return None, 1
    state.setdefault("launches", {})[name] = "RUNNING"
    state.setdefault("specs", {})[name] = task["resources"]
    print(
        f"YAML to run: {words[-1]}\nRunning on cluster: {name}\nSubmitted sky.launch request: "
        f"{request(name)}"
    )
    return None, 0


def request(name: str) -> str:
    return f"request-of-{name}"


def status(state: Any, words: list[str]) -> Any:
    rows = []
    for name, cluster in state.get("clusters", {}).items():
        rows.append(
            {
                "name": name,
                "launched_at": state["began"],
                "status": "UP",
                "autostop": 10,
                "to_down": True,
                "nodes": 1,
                "cloud": "Lambda",
                "region": "us-west-3",
                "accelerators": "{'H100': 1}",
                "init_kind": None,
                **{key: value for key, value in cluster.items() if key != "after"},
            }
        )
        if "after" in cluster:
            cluster["status"] = cluster.pop("after")
    return rows, 0


def costs(state: Any, words: list[str]) -> Any:
    rows = [
        {
            "name": name,
            "launched_at": state["began"],
            "duration": 1800,
            "total_cost": 1.245,
            "status": "UP" if name in state.get("clusters", {}) else "TERMINATED",
            "usage_intervals": [
                [
                    state["began"],
                    None if name in state.get("clusters", {}) else state["began"] + 1800,
                ]
            ],
            "cloud": "Lambda",
            "region": "us-west-3",
            "accelerators": "{'H100': 1}",
        }
        for name in [*state.get("clusters", {}), *state.get("ended", [])]
    ]
    return rows, 0


def api_status(state: Any, words: list[str]) -> Any:
    asked = words[words.index("--cluster") + 1]
    print("The flag is ignored because the server does not support it yet.")
    rows = [
        {
            "request_id": request(name),
            "name": "sky.launch",
            "status": status,
            "created_at": state["began"] + 0.5,
            "cluster_name": name if "--verbose" in words else None,
        }
        for name, status in state.get("launches", {}).items()
        if name == asked or state.get("old_server")
    ]
    return rows, 0


def api_logs(state: Any, words: list[str]) -> Any:
    print("Considered resources (1 node):")
    print("RuntimeError: \x1b[31mno capacity\x1b[0m in us-west-3", file=sys.stderr)
    return None, 1


def api_cancel(state: Any, words: list[str]) -> Any:
    name = words[-1].removeprefix("request-of-")
    state["launches"][name] = "CANCELLED"
    return "Cancelled 1 request", 0


def down(state: Any, words: list[str]) -> Any:
    name = words[-1]
    if state.get("clusters", {}).pop(name, None) is None:
        return f"Cluster(s) not found: \x1b[1m{name}\x1b[0m.", 0
    state.setdefault("ended", []).append(name)
    if state.get("launches", {}).get(name) != "CANCELLED":
        state.setdefault("launches", {})[name] = "SUCCEEDED"
    return f"Terminating cluster {name}...done", 0


def logs(state: Any, words: list[str]) -> Any:
    return "(hudtui, pid=1) hello \x1b[31mred\x1b[0m", 0


COMMANDS = {
    "check": check,
    "gpus list": gpus,
    "launch": launch,
    "status": status,
    "cost-report": costs,
    "api status": api_status,
    "api logs": api_logs,
    "api cancel": api_cancel,
    "down": down,
    "logs": logs,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
