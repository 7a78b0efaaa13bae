"""`hudtui trust`: what the files of a project folder would have hudtui do, and whether they may."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hudtui.cli import console
from hudtui.cli.command import top
from hudtui.cli.options import Json, Yes
from hudtui.cli.person import Terminal


@top.command("trust")
def trust(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help=(
                "Files that the folder's own list leaves out: configurations of servers elsewhere, "
                "very large task files."
            )
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Only show what the folder asks for.")
    ] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Stop trusting the folder.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Trust the files of this folder: let them name programs, servers, keys and limits.

    Until then hudtui shows a folder and does nothing that its files ask for. When they ask for
    something else, hudtui asks again. Exit code 1 if you decline, or with --show if you have not
    agreed.
    """
    from hudtui.core import trust as agreements
    from hudtui.core.errors import InputError, Location
    from hudtui.core.flows.trust import changes, listing, status, survey

    if show and revoke:
        raise typer.BadParameter("these options exclude each other", param_hint="--show, --revoke")
    with console.failures(as_json=as_json):
        folder = Path.cwd()
        named = [Path(os.path.abspath(file)) for file in files or ()]
        for file in named:
            if not file.is_file():
                raise InputError("there is no such file", where=Location(str(file)))
        if revoke:
            found = agreements.revoke(folder)
            if as_json:
                console.out_json(status(folder, survey(folder)))
            console.say(
                f"{folder} is not trusted any more." if found else f"{folder} was not trusted."
            )
            return
        powers = survey(folder, files=named)
        lacking = agreements.missing(folder, powers)
        if not as_json:
            known = [one for one in powers if one not in lacking]
            for title, these in (
                ("You have agreed that the files here have hudtui", known),
                ("The files here would have hudtui", lacking),
            ):
                if these:
                    console.out(title)
                    for line in listing(these, folder):
                        console.out(f"  {line}")
            if before := changes(powers, folder):
                console.out("instead of what you agreed to before:")
                for line in before:
                    console.out(f"  {line}")
            if not powers:
                console.out("The files here need no agreement.")
        if lacking and not show:
            if not console.run(Terminal(yes=yes).confirm("Trust these files?"), as_json=as_json):
                raise typer.Abort
            agreements.agree(folder, lacking)
            console.say(f"{folder} is trusted, as its files are now.")
        if as_json:
            console.out_json(status(folder, powers))
        if show and lacking:
            raise typer.Exit(console.FOUND)
