"""Logging in at an environment's servers, and out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from hudtui.core.desktop import has_desktop, open_externally
from hudtui.core.environment.client import DEFAULT_TIMEOUT, connect
from hudtui.core.environment.errors import LoginRequiredError
from hudtui.core.environment.login_file import KeptLogin, LoginOptions, read_login, remove_login
from hudtui.core.environment.source import Source
from hudtui.core.errors import ConnectError, InputError
from hudtui.core.events import Progress
from hudtui.core.flows.person import Choice, Person
from hudtui.core.settings import Settings
from hudtui.core.variables import substitute_tree

if TYPE_CHECKING:
    from hudtui.core.environment.login_redirect import LoginRedirect

T = TypeVar("T")
DOCUMENT_VARIABLE = "HUDTUI_CLIENT_METADATA_URL"
_MOST_OFFERS = 3
"""Logins that one piece of work offers: a server may ask for another scope after each."""


def login_addresses(source: Source) -> tuple[str, ...]:
    """The addresses of a source's servers that may require a login."""
    written = (spec.url for spec in source.servers if spec.url and not spec.command)
    urls = (substitute_tree(url, source.lookup)[0] for url in written)
    return tuple(url for url in urls if url.startswith(("http://", "https://")))


def kept_logins(source: Source) -> tuple[KeptLogin, ...]:
    """The logins that are kept for the servers of a source. Reads files."""
    logins = map(read_login, login_addresses(source))
    return tuple(login for login in logins if login is not None)


async def log_in(
    source: Source,
    person: Person,
    settings: Settings,
    *,
    options: LoginOptions | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    on_event: Callable[[Progress], None] | None = None,
) -> tuple[KeptLogin, ...]:
    """Connect to an environment, and log in where its servers require that.

    Args:
        source: The environment.
        person: The user, who has asked for the login.
        settings: Name the client metadata document.
        options: How to log in.
        timeout: Seconds for the connection, without the time that the user takes.
        on_event: Receives the progress.

    Returns:
        The logins that were made; empty if no server asked for one.

    Raises:
        InputError: The source has no address that may require a login.
        ConnectError: There is no connection, or no login.
    """
    addresses = login_addresses(source)
    if not addresses:
        raise InputError(
            "a login is for servers that are reached at an http(s) address",
            fix="For example: hudtui env login https://...",
        )
    options = options or LoginOptions()
    visit = partial(_visit, person, options.browser)
    wanted = replace(options, document=settings.get(DOCUMENT_VARIABLE), visit=visit)
    before = await asyncio.to_thread(kept_logins, source)
    async with connect(source, timeout=timeout, on_event=on_event, login=wanted):
        pass
    after = await asyncio.to_thread(kept_logins, source)
    return tuple(login for login in after if login not in before)


async def with_login(
    source: Source, person: Person, settings: Settings, work: Callable[[], Awaitable[T]]
) -> T:
    """Do work with an environment; where a server requires a login, offer it, and do it again.

    Args:
        source: The environment.
        person: The user.
        settings: Name the client metadata document.
        work: Opens a session of its own. The kept login counts in it.

    Raises:
        ConnectError: There is no connection, or no login.
    """
    offered: set[str] = set()
    while True:
        try:
            return await work()
        except LoginRequiredError as error:
            if error.scope in offered or len(offered) == _MOST_OFFERS:
                raise
            offered.add(error.scope)
            lines = (
                f"{error.what}.",
                *([error.why] if error.why else []),
                "The login happens in a browser; its tokens stay on this computer.",
            )
            if not await person.confirm("Log in?", lines, yes="Log in"):
                raise ConnectError(
                    f"{error.what}, and you declined to log in", why=error.why, fix=error.fix
                ) from None
            options = LoginOptions(scope=error.scope or None)
        await log_in(source, person, settings, options=options)


async def log_out(source: Source) -> tuple[str, ...]:
    """Remove the logins at the servers of a source; returns the addresses that had one.

    Raises:
        InputError: The file of a login cannot be removed.
    """
    removed = [url for url in login_addresses(source) if await asyncio.to_thread(remove_login, url)]
    return tuple(removed)


async def _visit(
    person: Person, browser: bool | None, server: str, address: str, redirect: LoginRedirect
) -> bool:
    """Have the user open an address until the browser is back; False if the user gives up."""
    title = f"Log in at {server}"
    if browser is None and has_desktop():
        choices = (Choice("open", "Open the browser"), Choice("show", "Show the address"))
        way = await person.choose(title, choices)
        if way is None:
            return False
        browser = way == "open"
    if browser and not await open_externally(address):
        person.say("The browser could not be opened.", severity="warning")
    lines: tuple[str, ...] = (
        "Open this address in a browser. If the browser runs on another computer, its last page "
        "cannot be shown: paste the address of that page here.",
    )
    while not redirect.done.is_set():
        pasted = await person.ask(
            title,
            lines=lines,
            copy=address,
            placeholder=f"{redirect.uri}?code=...",
            accept="Continue",
            until=redirect.done,
        )
        if redirect.done.is_set():
            break
        if pasted is None:
            return False
        if not redirect.take(pasted):
            lines = (
                f"That is no answer of this login: it begins with {redirect.uri} and holds a code.",
            )
    return True
