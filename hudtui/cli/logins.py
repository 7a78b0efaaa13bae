"""`hudtui env login`, `logout` and `logins`: logging in at environments over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hudtui.cli import console
from hudtui.cli.options import Json
from hudtui.cli.sources import read_source

_Source = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="Address of the environment, or an mcp_config that holds one."
    ),
]


@console.run_async()
async def login(
    source: _Source,
    scope: Annotated[
        str | None,
        typer.Option("--scope", help="Scopes to ask for besides those that the server names."),
    ] = None,
    browser: Annotated[
        bool | None,
        typer.Option(
            "--browser/--no-browser",
            help="Open the browser of this computer, or only show the address.",
            show_default="ask",
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            help="Port of this computer that the browser comes back to; 0 for any.",
        ),
    ] = 0,
    client_id: Annotated[
        str | None, typer.Option("--client-id", help="Id of a client that you have registered.")
    ] = None,
    secret_variable: Annotated[
        str | None,
        typer.Option("--client-secret-var", help="Setting that holds that client's secret."),
    ] = None,
    issuer: Annotated[
        str | None,
        typer.Option("--issuer", help="The authorization server that the client is registered at."),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds for the connection.")
    ] = 60.0,
    as_json: Json = False,
) -> None:
    """Log in at an environment that requires OAuth, in a browser.

    The address to open goes to standard error. If the browser runs on another computer, paste the
    address of its last page. The tokens are kept in your state folder, go to this server alone, and
    are renewed where the server allows it.
    """
    from hudtui.cli.person import Terminal
    from hudtui.core.environment.login_file import ClientCredentials, LoginOptions
    from hudtui.core.flows.login import log_in
    from hudtui.core.settings import load_settings

    credentials = None
    settings = load_settings(Path.cwd())
    if client_id is None:
        given = {"--client-secret-var": secret_variable, "--issuer": issuer}
        if lonely := next((name for name, value in given.items() if value), None):
            raise typer.BadParameter(
                "it belongs to a client: name one with --client-id", param_hint=lonely
            )
    else:
        secret = settings.require(secret_variable) if secret_variable else None
        if issuer is None and secret_variable:
            raise typer.BadParameter(
                "name the authorization server that the secret is for", param_hint="--issuer"
            )
        credentials = ClientCredentials(client_id, secret, issuer)
    if browser is None and not console.interactive():
        browser = False
    place, options = read_source(source), LoginOptions(credentials, scope, port, browser=browser)
    made = await log_in(
        place, Terminal(), settings, options=options, timeout=timeout, on_event=console.tell
    )
    if as_json:
        console.out_json([one.to_json() for one in made])
        return
    for one in made:
        console.out(f"{one.to_json()['server']}: {one.words()}")
    if not made:
        console.say(f"{place.text} asks for no login.")


@console.run_async()
async def logout(source: _Source, as_json: Json = False) -> None:
    """Forget the login at an environment.

    Its tokens are removed here; the server may honour them until they expire.
    """
    from hudtui.core.flows.login import log_out

    place = read_source(source)
    gone = await log_out(place)
    if as_json:
        console.out_json({"removed": len(gone)})
    elif gone:
        console.out(f"The login at {place.text} is forgotten.")
    else:
        console.say(f"There is no login at {place.text}.")


def logins(as_json: Json = False) -> None:
    """List the logins that are kept."""
    from hudtui.core.environment.login_file import all_logins

    found = all_logins()
    if as_json:
        console.out_json([one.to_json() for one in found])
        return
    for one in found:
        console.out(f"{one.to_json()['server']}: {one.words()}")
    if not found:
        console.say("There is no login.")
