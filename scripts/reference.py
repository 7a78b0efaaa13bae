"""Write the pages of docs/reference from the code: `python scripts/reference.py [--check]`.

The pages list every command with its options, every key, every setting, every exit code and every
signature of trouble.
`--check` writes nothing, and exits with 1 if a page differs from what the code says.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import typer

import hudtui.core
import hudtui.tui
from hudtui.cli.app import build
from hudtui.cli.effects import EFFECTS, READ_ONLY, leaves, takes
from hudtui.core.audit.checks import CHECKS
from hudtui.core.audit.players import PLAYERS
from hudtui.core.diagnosis.signatures import SIGNATURES
from hudtui.core.diagnosis.table import Signature
from hudtui.core.errors import HudtuiError
from hudtui.core.platform import HUD
from hudtui.core.settings import ALARM_SETTINGS, Setting, known_settings
from hudtui.tui.actions import REGISTRY, AppAction, shown

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
NEWLINE = "\n"
BAR = r"\\|"
BARE_BAR = re.compile(r"(?<!\\)\|")
NOTE = "This page is generated from the code by `scripts/reference.py`."


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join('---' for _ in heads)} |"
    for row in rows:
        yield f"| {' | '.join(BARE_BAR.sub(BAR, cell).replace(NEWLINE, ' ') for cell in row)} |"


def commands() -> Iterator[str]:
    """Yield the lines of the page of commands."""
    yield "# Commands"
    yield ""
    yield (
        f"{NOTE} The options of `hudtui` itself may stand before a command or after it (`hudtui -C "
        "folder runs`, `hudtui runs -C folder`); every command has `--help`."
    )
    root: Any = typer.main.get_command(build())
    yield ""
    yield "## hudtui"
    yield ""
    yield root.help
    yield ""
    yield from _parameters(root)
    for name, command in root.commands.items():
        yield from _one_command(f"hudtui {name}", command)


def _one_command(path: str, command: Any) -> Iterator[str]:
    if command.hidden:
        return
    subcommands = getattr(command, "commands", {})
    yield ""
    yield f"## {path}"
    yield ""
    words = [_usage(one) for one in command.params if _is_argument(one) and not one.hidden]
    yield f"`{' '.join([path, '[OPTIONS]', *words, *(['COMMAND'] if subcommands else [])])}`"
    yield ""
    yield "\n".join(
        line.strip() for line in (command.help or "").split("\f")[0].strip().splitlines()
    )
    yield ""
    yield from _parameters(command)
    if (
        "run" in subcommands and subcommands["run"].hidden
    ):  # the group's own call, as in `hudtui rl TASKS`
        yield from _parameters(subcommands["run"])
    for name, inner in subcommands.items():
        yield from _one_command(f"{path} {name}", inner)


def _is_argument(parameter: Any) -> bool:
    return not parameter.opts[0].startswith("-")


def _usage(argument: Any) -> str:
    name = _value_name(argument)
    return f"{name if argument.required else f'[{name}]'}{'...' if argument.nargs == -1 else ''}"


def _value_name(parameter: Any) -> str:
    """What stands for the value: the parameter's own word, its choices, or its kind."""
    if parameter.metavar:
        text = str(parameter.metavar).removesuffix("...")
        return text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if _is_argument(parameter):
        return str(parameter.name).upper()
    if choices := getattr(parameter.type, "choices", None):
        return "\\|".join(map(str, choices))
    kind = parameter.type.name.partition(" ")[0]  # of a number, ` range` follows
    return {"int": "NUMBER", "float": "NUMBER", "path": "PATH"}.get(kind, "TEXT")


def _parameters(command: Any) -> Iterator[str]:
    rows = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        if _is_argument(parameter):
            names = f"`{_value_name(parameter)}`"
        else:
            names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
            if not parameter.is_flag and not parameter.count:
                names += f" {_value_name(parameter)}"
        default = parameter.default
        plain = isinstance(default, str | int | float) and not isinstance(default, bool)
        rows.append(
            (
                names,
                (parameter.help or "").strip(),
                f"`{default}`" if plain and default != "" else "",
            )
        )
    if rows:
        yield from _table(("option", "meaning", "default"), rows)


def keys() -> Iterator[str]:
    """Yield the lines of the page of keys."""
    for module in pkgutil.walk_packages(hudtui.tui.__path__, "hudtui.tui."):
        importlib.import_module(module.name)
    yield "# Keys"
    yield ""
    yield (
        f"{NOTE} Each action has an id; `keymap.toml` in the configuration folder (`hudtui doctor` "
        "names it) gives an action "
        'other keys: `"dataset.convert" = "c,f6"`. Actions without a key are in the command '
        "palette, `Ctrl-P`."
    )
    for scope, actions in groupby(
        sorted(REGISTRY.values(), key=_order), key=lambda action: action.scope
    ):
        yield ""
        yield f"## {scope}"
        yield ""
        rows = [
            (
                ", ".join(f"`{shown(key)}`" for key in action.keys.split(",") if key),
                action.title,
                action.tooltip,
                f"`{action.id}`",
            )
            for action in actions
        ]
        yield from _table(("key", "action", "meaning", "id"), rows)


def _order(action: AppAction) -> tuple[bool, str, bool, str]:
    return action.scope != "app", action.scope, not action.keys, action.id


def settings() -> Iterator[str]:
    """Yield the lines of the page of settings."""
    yield "# Settings"
    yield ""
    yield (
        f"{NOTE} A setting is a variable of the environment, a line in the project's `.env` or a "
        "line in the user's file; see [settings and platforms](../settings.md) for their order."
    )
    yield ""
    yield from _table(
        ("setting", "meaning", "kind", "default"),
        [
            (f"`{one.name}`", one.about, _kind(one), f"`{one.default}`" if one.default else "")
            for one in known_settings(HUD)
        ],
    )


def _kind(setting: Setting) -> str:
    bounds = (
        ""
        if setting.minimum is None or setting.maximum is None
        else f", {setting.minimum:g} to {setting.maximum:g}"
    )
    return setting.kind + bounds


def exit_codes() -> Iterator[str]:
    """Yield the lines of the page of exit codes."""
    for module in pkgutil.walk_packages(hudtui.core.__path__, "hudtui.core."):
        importlib.import_module(module.name)
    yield "# Exit codes"
    yield ""
    yield (
        f"{NOTE} A command that fails prints what happened, why, and what to do on standard error. "
        "With `--json` it also prints one object on standard output: `error` holds `type` (the "
        "names below), `what`, `why`, `fix` and `where` (`file`, `line`, `column`, `field`)."
    )
    yield ""
    rows = [("0", "The command did its work.", "")]
    by_code: dict[int, list[type[HudtuiError]]] = {}
    for error in _errors(HudtuiError):
        by_code.setdefault(error.exit_code, []).append(error)
    meanings = {
        1: (
            "The command found problems, see below; you declined a question; or the command failed "
            "in another way."
        )
    }
    for code, found in sorted(by_code.items()):
        first = min(found, key=lambda error: len(error.__mro__))
        meaning = meanings.get(code) or (first.__doc__ or "").partition("\n")[0]
        rows.append(
            (
                str(code),
                meaning,
                ", ".join(f"`{name}`" for name in sorted({error.__name__ for error in found})),
            )
        )
    rows += [
        ("130", "Ctrl-C stopped the command.", ""),
        ("141", "The reader of the command's output went away, as `head` does.", ""),
        ("129, 143", "A signal stopped the command: SIGHUP, SIGTERM.", ""),
    ]
    yield from _table(("code", "meaning", "error types"), rows)
    yield ""
    yield "These commands have codes of their own:"
    yield ""
    yield from _table(
        ("command", "code", "when"), list(_own_codes(typer.main.get_command(build()), "hudtui"))
    )


def effects() -> Iterator[str]:
    """Yield the lines of the page of what commands change."""
    root: Any = typer.main.get_command(build())
    known = dict(leaves(root))
    yield "# What commands change"
    yield ""
    yield (
        f"{NOTE} A command that *asks* shows what it is about to do, and waits for a yes; `--yes` "
        "says it in advance. Where there is no terminal and no `--yes`, it fails with exit code 2 "
        "and does nothing. See [for coding agents](../agents.md)."
    )
    yield ""
    rows = [
        (
            f"`hudtui {words}`",
            effect.changes,
            effect.costs or "no",
            "yes" if takes(known[words], "--yes") else "no",
            "yes" if takes(known[words], "--dry-run") else f"no: {effect.no_dry_run}",
        )
        for words, effect in EFFECTS.items()
    ]
    yield from _table(("command", "changes", "costs money", "asks", "`--dry-run`"), rows)
    yield ""
    yield "All of these have `--json`. These commands change nothing:"
    yield ""
    yield from _table(
        ("command", "`--json`"),
        [(f"`hudtui {words}`", f"no: {why}" if why else "yes") for words, why in READ_ONLY.items()],
    )


def signatures() -> Iterator[str]:
    """Yield the lines of the page of signatures."""
    yield "# Signatures"
    yield ""
    yield (
        f"{NOTE} `hudtui runs diagnose` looks for these troubles in the metrics of a run, in its "
        "log and in what is known of its machine. A signature says nothing where the run does not "
        "write what it needs. Those of severity `critical` or `high` are "
        "[alarms](../monitor.md#alarms) of a run that goes on."
    )
    for known in SIGNATURES.values():
        yield ""
        yield f"## {known.name}"
        yield ""
        yield f"{known.title}. {known.meaning}"
        yield ""
        yield f"Needs {_needs(known)}. Severity: {known.severity}."
        yield ""
        for remedy in known.advice({}):
            yield f"- {remedy.words}"


def _needs(known: Signature) -> str:
    if known.test is None:
        needs = "what the machine and the log tell"
    else:
        needs = ", ".join(f"`{need}`" for need in known.needs) or "any metric"
    if known.threshold is None:
        return needs
    return f"{needs}; at once from `{ALARM_SETTINGS[known.threshold].name}` on"


def audit() -> Iterator[str]:
    """Yield the lines of the page of checks."""
    yield "# Checks of the audit"
    yield ""
    yield (
        f"{NOTE} `hudtui env audit` lets these players play, and looks for these defects. A check "
        "says nothing where nobody has played what it needs."
    )
    yield ""
    players = [(f"`{one.name}`", f"It {one.does}.") for one in PLAYERS.values()]
    yield from _table(("player", "what it does"), players)
    for known in CHECKS.values():
        yield ""
        yield f"## {known.name}"
        yield ""
        yield known.meaning
        yield ""
        yield f"Severity: {known.severity}."
        yield ""
        yield from (f"- {remedy}" for remedy in known.remedies)


def _own_codes(command: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the sentences about exit codes in the help of a command and its subcommands."""
    if command.hidden and path != "hudtui rl run":
        return
    text = " ".join((command.help or "").split())
    for code, when in re.findall(r"Exit code (\d) (?:if|when) ([^.]+)\.", text):
        yield f"`{path.removesuffix(' run')}`", code, when
    for name, inner in getattr(command, "commands", {}).items():
        yield from _own_codes(inner, f"{path} {name}")


def _errors(kind: type[HudtuiError]) -> Iterator[type[HudtuiError]]:
    if not kind.__name__.startswith("_"):
        yield kind
    for below in kind.__subclasses__():
        yield from _errors(below)


PAGES = {
    "commands.md": commands,
    "keys.md": keys,
    "settings.md": settings,
    "exit-codes.md": exit_codes,
    "effects.md": effects,
    "signatures.md": signatures,
    "audit.md": audit,
}


def main() -> int:
    """Write or check the pages, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a page is out of date"
    )
    check = parser.parse_args().check
    stale = []
    for name, page in PAGES.items():
        text = "\n".join(page()) + "\n"
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                FOLDER.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if stale and check:
        print(f"out of date: {', '.join(stale)}. Run: python scripts/reference.py", file=sys.stderr)
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
