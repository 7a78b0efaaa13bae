"""`hudtui settings`: list, set, unset and test."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudtui.cli import console
from hudtui.cli.options import Json
from hudtui.core.errors import ConnectError, InputError
from hudtui.core.plain import to_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudtui.core.settings import Settings

User = Annotated[
    bool,
    typer.Option("--user", help="In your own file for all projects, not in the project's .env."),
]

_GLYPHS = {
    "works": "✓",
    "refused": "✗",
    "limited": "!",
    "unclear": "?",
    "unreachable": "?",
    "missing": "○",
    "untestable": "○",
}


app = typer.Typer(
    invoke_without_command=True, help="Keys and addresses: show, change and test them."
)


@console.by_default(app)
@app.command("list")
def list_settings(as_json: Json = False) -> None:
    """Show every setting and where its value comes from. Secrets are masked."""
    from hudtui.core.settings import check_settings

    with console.failures(as_json=as_json):
        found = _load()
        problems = check_settings(found).problems
        if as_json:
            console.out_json(_listing(found, problems))
            return
        names = [name for name, key in found.keys.items() if key.secret]
        names += [name for name, key in found.keys.items() if not key.secret]
        width = max(map(len, names))
        for name in names:
            value = found.shown(name)
            origin = found.origin(name)
            place = found.location(name)
            came = (
                ""
                if origin is None
                else f"  ({place or origin})"
                if origin != "default"
                else "  (default)"
            )
            about = "" if value is not None else f"  {found.keys[name].about}"
            if value is None and found.waits(name) is not None:
                value, about = ": ".join(found.lacking(name)), ""
            console.out(
                f"{name:<{width}}  {value if value is not None else 'not set:'}{came}{about}"
            )
        for name, problem in problems.items():
            console.say(f"{name}: {problem} (from {found.location(name) or found.origin(name)})")
        if words := found.waiting_words():
            console.say(f"{words} until you agree: hudtui trust")
        for notice in found.notices:
            console.say(notice)


def _listing(found: Settings, problems: Mapping[str, str]) -> dict[str, object]:
    from hudtui.core.credentials import can_check
    from hudtui.core.settings import user_file

    entries = []
    for name, key in found.keys.items():
        place = found.location(name)
        entries.append(
            {
                "name": name,
                "about": key.about,
                "kind": key.kind,
                "secret": key.secret,
                "set": found.get(name) is not None,
                "value": found.shown(name),
                "origin": found.origin(name),
                "file": place.file if place else None,
                "line": place.line if place else None,
                "hides": list(found.hidden(name)),
                "problem": problems.get(name),
                "testable": key.secret and can_check(name, found),
            }
        )
    return {
        "platform": found.platform.name,
        "env_file": str(found.folder / ".env"),
        "user_file": str(user_file()),
        "settings": entries,
        "untrusted": {name: place.line for name, place in found.waiting.items()},
        "notices": list(found.notices),
    }


@app.command("set")
def set_setting(
    name: Annotated[str, typer.Argument(help="The variable, e.g. HUD_API_KEY.")],
    value: Annotated[
        str | None, typer.Argument(help="The value. Keys are asked for, or read from a pipe.")
    ] = None,
    user: User = False,
    force: Annotated[
        bool, typer.Option("--force", help="Accept a name that looks like a typo.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Store a value in the project's .env (mode 0600), or with --user in your own file.

    A key is typed without echo, or piped in: hudtui settings set HUD_API_KEY < file
    """
    from hudtui.core.masking import looks_secret
    from hudtui.core.settings import (
        check_setting_name,
        check_setting_value,
        save_project_setting,
        save_user_setting,
    )

    with console.failures(as_json=as_json):
        found = _load()
        name, written, _ = name.partition("=")
        if written:
            raise InputError(
                "name and value are two words here, not NAME=VALUE",
                fix=f"hudtui settings set {name} VALUE; leave the value of a key out, and type it.",
            )
        key = found.keys.get(name) if force else check_setting_name(name, found.platform)
        secret = key.secret if key is not None else looks_secret(name)
        if value is not None and secret:
            raise InputError(
                f"the value of {name} does not belong on the command line",
                why="All users of this machine can read command lines, and the shell keeps them.",
                fix=(
                    "Leave it out and type it when asked, or pipe it in: hudtui settings set "
                    f"{name} < FILE"
                ),
            )
        given = value if value is not None else _ask(name, secret)
        if not given:
            raise InputError(
                f"no value for {name} was given", fix=f"To remove it: hudtui settings unset {name}"
            )
        problem = check_setting_value(key, given) if key is not None else None
        if problem is not None:
            raise InputError(f"{name} is left as it was: {problem}")
        path = (
            save_user_setting(name, given)
            if user
            else save_project_setting(found.folder, name, given)
        )
        after = _load()
        if as_json:
            console.out_json({"name": name, "file": str(path), "origin": after.origin(name)})
        console.say(f"{name} is now in {path}.")
        wanted = "user file" if user else ".env"
        if after.origin(name) != wanted:
            refused = next(
                (notice for notice in after.notices if not user and f": {name}" in notice), None
            )
            console.say(
                refused
                or (
                    "Another value takes precedence: from "
                    f"{after.location(name) or after.origin(name)}."
                )
            )
        if key is None:
            console.say("It is not a setting of hudtui itself; tasks and configs can refer to it.")


def _ask(name: str, secret: bool) -> str:
    if console.interactive():
        answer: str = typer.prompt(name, hide_input=secret, err=True)
        return answer.strip()
    return sys.stdin.read(1_000_000).strip()


@app.command("unset")
def unset_setting(
    name: Annotated[str, typer.Argument(help="The variable.")],
    user: User = False,
    as_json: Json = False,
) -> None:
    """Remove a value from the project's .env, or with --user from your own file."""
    from hudtui.core.settings import remove_setting, user_file

    with console.failures(as_json=as_json):
        found = _load()
        gone = remove_setting(found.folder, name, user=user)
        path = user_file() if user else found.folder / ".env"
        after = _load()
        if as_json:
            console.out_json(
                {"name": name, "file": str(path), "removed": gone, "origin": after.origin(name)}
            )
        console.say(f"{name} is no longer in {path}." if gone else f"{name} was not in {path}.")
        if after.get(name) is not None:
            console.say(f"It still has a value: from {after.location(name) or after.origin(name)}.")


@app.command("test")
@console.run_async()
async def test_keys(
    names: Annotated[
        list[str] | None, typer.Argument(help="Keys to test; by default all keys with a value.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a service.")] = 15.0,
    as_json: Json = False,
) -> None:
    """Test keys with one request to the service of each.

    Exit code 1 if a key is refused. Exit code 3 if a service could not be asked.
    """
    from hudtui.core.credentials import check_key

    found = _load()
    found.require_trust()
    keys = [name for name, key in found.keys.items() if key.secret]
    wanted = list(dict.fromkeys(names or ())) or [name for name in keys if found.get(name)]
    if unknown := [name for name in wanted if name not in keys]:
        raise InputError(
            f"{unknown[0]} is not a key that can be tested", fix=f"Keys: {', '.join(keys)}."
        )
    results = await asyncio.gather(*(check_key(name, found, timeout=timeout) for name in wanted))
    if as_json:
        console.out_json({"keys": [to_plain(result) | {"ok": result.ok} for result in results]})
    else:
        for result in results:
            seconds = f" ({result.seconds:.2f} s)" if result.seconds is not None else ""
            console.out(f"{_GLYPHS[result.verdict]} {result.name}: {result.message}{seconds}")
        if not results:
            console.say("No key is set. To set one: hudtui settings set NAME")
    verdicts = {result.verdict for result in results}
    if verdicts & {"refused", "limited"} or (names and "missing" in verdicts):
        raise typer.Exit(console.FOUND)
    if verdicts & {"unreachable", "unclear"}:
        raise typer.Exit(ConnectError.exit_code)


def _load() -> Settings:
    from hudtui.core.settings import load_settings

    return load_settings(Path.cwd())
