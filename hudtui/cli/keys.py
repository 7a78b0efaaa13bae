"""`hudtui pods keys`: the SSH key for rented machines, here and at the provider."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudtui.cli import compute, console
from hudtui.cli.options import DryRun, Json, Yes
from hudtui.cli.person import Terminal

if TYPE_CHECKING:
    from hudtui.core.compute.values import SshKey


app = typer.Typer(
    help="Your SSH key for rented machines.", invoke_without_command=True, rich_markup_mode=None
)


@console.by_default(app)
@app.command("list")
@console.run_async()
async def list_keys(as_json: Json = False) -> None:
    """Show your key, whether it can be used, and the public keys that the provider knows."""
    from hudtui.core.compute.ssh_key import VARIABLE, find_registered, key_path, read_key
    from hudtui.core.errors import HudtuiError, InputError

    settings = compute.settings()
    path, own, trouble = key_path(settings.get), None, None
    try:
        if path is None:
            raise InputError(
                "you have no SSH key",
                fix="Make one with: hudtui pods keys create, then: hudtui pods keys register",
            )
        own = read_key(path)
        trouble = own.warning
    except HudtuiError as error:
        trouble = "; ".join(error.lines())
    async with compute.asked(settings, paid=True) as providers, compute.busy("asking for the keys"):
        known = {one.title: await one.keys() for one in providers.values()}
    if as_json:
        console.out_json(
            {
                "path": None if path is None else str(path),
                "origin": settings.origin(VARIABLE) or ("usual place" if path else None),
                "fingerprint": own.fingerprint if own else None,
                "locked": own.locked if own else None,
                "trouble": trouble,
                "registered": [
                    title for title, keys in known.items() if own and find_registered(own, keys)
                ],
                "keys": [
                    {**vars(key), "provider": title}
                    for title, keys in known.items()
                    for key in keys
                ],
            }
        )
        return
    if path is not None:
        locked = ", with a pass-phrase" if own and own.locked else ""
        console.out(f"your key   {path}  ({settings.origin(VARIABLE) or 'usual place'}{locked})")
    if own is not None:
        console.out(f"           {own.fingerprint}")
    for title, keys in known.items():
        for key in keys:
            mine = "  <- yours" if own and find_registered(own, [key]) else ""
            console.out(
                f"{title}: {key.name or key.id}  "
                f"{_brief(key)}{'  primary' if key.primary else ''}{mine}"
            )
        if own is not None and not find_registered(own, keys):
            console.say(f"{title} does not know your key: hudtui pods keys register")
    if trouble:
        console.say(f"warning: {trouble}")


def _brief(key: SshKey) -> str:
    words = key.public_key.split()
    return f"{words[0]} …{words[1][-12:]}" if len(words) > 1 else "–"


@app.command("create")
@console.run_async()
async def create(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[PATH]", help="Where; by default ~/.ssh/prime_key.pem."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make an SSH key for rented machines (ed25519, without a passphrase).

    Existing files are never overwritten.
    """
    from hudtui.core.compute.registry import usual_rental
    from hudtui.core.compute.ssh_key import usual_path
    from hudtui.core.flows.keys import create_key
    from hudtui.core.project import open_project

    target = (path or usual_path()).expanduser().absolute()
    key, file = await create_key(open_project(), target, Terminal())
    if as_json:
        told = {
            "path": str(key.path),
            "public": key.public_key,
            "fingerprint": key.fingerprint,
            "file": file and str(file),
        }
        console.out_json(told)
        return
    console.out(f"{key.path}  {key.fingerprint}")
    lookup = compute.settings().get
    console.say(f"hudtui pods keys register makes it known to {usual_rental(lookup).title(lookup)}")


@app.command("register")
@console.run_async()
async def register_key(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[PATH]", help="Private key; the configured key by default."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name at the provider; by default hudtui and the file's name."),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Register your public key with Prime Intellect as the primary key for new machines.

    The private key stays here.
    """
    from hudtui.core.compute.ssh_key import find_registered, key_path, read_key
    from hudtui.core.errors import InputError
    from hudtui.core.flows import keys

    settings = compute.settings()
    person = Terminal(yes=yes, dry=dry_run, as_json=as_json)
    chosen = path or key_path(settings.get)
    if chosen is None:
        raise InputError("you have no SSH key", fix="Make one with: hudtui pods keys create")
    key = await keys.make_private(read_key(chosen), person)
    entries = []
    async with compute.asked(settings, paid=True) as providers:
        for one in providers.values():
            if one.features.brings_ssh_key:
                continue
            known = find_registered(key, await one.keys())
            entry = await keys.register(key, one, person, known=known, name=name)
            if entry is None:
                raise typer.Abort
            entries.append({**vars(entry), "provider": one.title})
    if as_json:
        console.out_json(entries)


@app.command("set-path")
@console.run_async()
async def set_path(
    path: Annotated[Path, typer.Argument(help="Private key, for instance ~/.ssh/prime_key.pem.")],
    project: Annotated[
        bool,
        typer.Option("--project", help="Store it in the project's .env, not in your own file."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Set the private key for rented machines."""
    from hudtui.core.compute.registry import usual_rental
    from hudtui.core.compute.ssh_key import VARIABLE, read_key
    from hudtui.core.flows.keys import make_private
    from hudtui.core.settings import save_project_setting, save_user_setting

    key = read_key(path)
    value = str(key.path)
    file = (
        save_project_setting(Path.cwd(), VARIABLE, value)
        if project
        else save_user_setting(VARIABLE, value)
    )
    hidden = compute.settings()
    if console.interactive():
        key = await make_private(key, Terminal())
    if key.warning:
        console.say(f"warning: {key.warning}")
    if hidden.get(VARIABLE) != str(key.path):
        console.say(
            f"warning: {VARIABLE} is also set in {hidden.origin(VARIABLE)}, which takes precedence"
        )
    if as_json:
        console.out_json({"path": str(key.path), "fingerprint": key.fingerprint, "file": str(file)})
        return
    console.out(f"{key.path}  {key.fingerprint}")
    console.say(
        f"kept in {file}; hudtui pods keys register makes it known to "
        f"{usual_rental(hidden.get).title(hidden.get)}"
    )
