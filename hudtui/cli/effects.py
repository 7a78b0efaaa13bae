"""What each command changes: the one declaration behind the reference and the page for agents.

Whether a command asks, and what it prints as JSON, its own options say; this table says what they
cannot: what is changed, whether money may be spent, and why a command has no `--dry-run`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_SMALL = "one named value; setting it again undoes it"
_NEW_FILE = "it writes one file, and no existing one without --force"
_COPY = "it copies to a place that you name"
JUDGES = "models that judge, where tasks name some"
"""What may cost money wherever tasks are evaluated."""
_MACHINE = f"the machine; {JUDGES}"
_MODEL = f"a model behind a paid endpoint; {JUDGES}"


@dataclass(frozen=True)
class Effect:
    """What a command changes."""

    changes: str
    costs: str = ""
    """What may cost money; empty where nothing does."""
    no_dry_run: str = ""
    """Why the command has no `--dry-run`; empty where it has."""


EFFECTS: Mapping[str, Effect] = {
    "demo": Effect("makes a workspace", no_dry_run="it changes no file that exists"),
    "env call": Effect(
        "calls a tool of the environment",
        no_dry_run="only the server knows what a tool does; env show prints its schema",
    ),
    "env serve": Effect(
        "listens on a port until Ctrl-C", JUDGES, no_dry_run="it changes nothing that stays"
    ),
    "env login": Effect(
        "keeps a login of an environment", no_dry_run="a person agrees in the browser"
    ),
    "env logout": Effect("forgets a login", no_dry_run="env logins lists what would be forgotten"),
    "env audit": Effect(
        "plays tasks of the environment",
        JUDGES,
        no_dry_run="it attacks a grader with throw-away episodes, and keeps a report alone",
    ),
    "config init": Effect("writes a configuration", no_dry_run=_NEW_FILE),
    "rl init": Effect("writes a configuration", no_dry_run=_NEW_FILE),
    "tasks new": Effect("writes a task file; with --test evaluates one", JUDGES),
    "tasks test": Effect(
        "sets a task up and evaluates it",
        JUDGES,
        no_dry_run="tasks check tests it without the environment",
    ),
    "tasks convert": Effect(
        "writes the file of --output", no_dry_run="tasks check reads the tasks alone"
    ),
    "tasks push": Effect("writes a dataset, and pushes it to the Hub without --no-push"),
    "hf": Effect("writes a dataset, and pushes it to the Hub without --no-push"),
    "rl": Effect("starts a run; rents a machine for it unless --host names one", _MACHINE),
    "art train": Effect("starts a run; rents a machine for it unless --host names one", _MACHINE),
    "eval": Effect(
        "plays tasks, and writes their episodes",
        _MODEL,
        no_dry_run="config check and tasks check say what would go wrong; --limit 1 plays one task",
    ),
    "rollouts play": Effect(
        "plays a task, and writes its episode",
        _MODEL,
        no_dry_run="it is one episode",
    ),
    "rollouts export": Effect("writes a file", no_dry_run=_NEW_FILE),
    "runs start": Effect("starts a run on this computer"),
    "runs stop": Effect("ends a run, and the machine that was rented for it"),
    "runs resume": Effect(
        "continues the management of a run: fetches results, ends its machine",
        no_dry_run="it does what was agreed to at the start; runs show says what is open",
    ),
    "runs rerun": Effect("starts a run again, on the same kind of machine", _MACHINE),
    "runs continue": Effect("starts a run from a checkpoint", _MACHINE),
    "runs pull": Effect("copies results to this computer", no_dry_run=_COPY),
    "runs limits": Effect("changes limits", no_dry_run="without options it shows the limits"),
    "runs rename": Effect("names a run", no_dry_run=_SMALL),
    "runs comment": Effect("comments on a run", no_dry_run=_SMALL),
    "runs tag": Effect("tags a run", no_dry_run=_SMALL),
    "runs archive": Effect("hides runs in the list", no_dry_run="--undo shows them again"),
    "runs acknowledge": Effect("silences alarms", no_dry_run="runs show lists the alarms"),
    "runs rm": Effect("removes runs, here and on their machines"),
    "runs export": Effect(
        "copies a model to a new folder; with --push to the Hub",
        no_dry_run="without --push nothing leaves the machines",
    ),
    "pods create": Effect("rents a machine", "the machine, until it is ended"),
    "pods ssh": Effect(
        "runs a command on a machine", no_dry_run="the command is yours; hudtui does not read it"
    ),
    "pods limits": Effect("changes limits", no_dry_run="without options it shows the limits"),
    "pods terminate": Effect("ends machines, with all that is on them"),
    "pods reconcile": Effect("with --end: ends machines without a run"),
    "pods keys create": Effect(
        "makes an SSH key", no_dry_run="it changes no key that exists; pods keys list shows them"
    ),
    "pods keys register": Effect("makes a public key known to the provider"),
    "pods keys set-path": Effect("names the SSH key", no_dry_run=_SMALL),
    "settings set": Effect("stores a setting", no_dry_run=_SMALL),
    "settings unset": Effect(
        "removes a setting", no_dry_run="settings list shows what is set, secrets masked"
    ),
    "trust": Effect(
        "agrees to what the files of a folder make hudtui do", no_dry_run="--show shows it alone"
    ),
}
"""The commands that change something, by their words."""

READ_ONLY: Mapping[str, str] = {
    "doctor": "",
    "env list": "",
    "env logins": "",
    "env show": "",
    "config check": "",
    "config try": "--jsonl reads and writes lines of JSON",
    "config transform": "its lines are JSON",
    "machine": "",
    "tasks check": "",
    "tasks list": "",
    "tasks stats": "",
    "rollouts list": "",
    "rollouts show": "",
    "rollouts open": "it opens the app; rollouts show prints",
    "rollouts stats": "",
    "rollouts map": "",
    "rollouts compare": "",
    "rollouts diff": "",
    "rollouts search": "",
    "runs list": "",
    "runs show": "",
    "runs logs": "",
    "runs attach": "it hands the terminal to tmux; runs logs prints",
    "runs settings": "",
    "runs diff": "",
    "runs diagnose": "",
    "runs metrics": "",
    "runs records": "",
    "watch": "",
    "pods list": "",
    "pods offers": "",
    "pods history": "",
    "pods wallet": "",
    "pods show": "",
    "pods keys list": "",
    "settings list": "",
    "settings test": "",
}
"""The commands that change nothing of the user's, each with the reason why it has no `--json`."""


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the commands that a user types, by their words, without other spellings."""
    for name, inner in command.commands.items():
        words = f"{path} {name}".strip()
        if inner.hidden:
            continue
        if not hasattr(inner, "commands"):
            yield words, inner
            continue
        own = inner.commands.get("run")
        if own is not None and own.hidden:
            yield words, own
        yield from leaves(inner, words)


def takes(command: Any, option: str) -> bool:
    """Return whether a command has an option."""
    return any(option in parameter.opts for parameter in command.params)
