"""Logins that servers ask for while a session is open, answered by the person of a flow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hudtui.core.desktop import has_desktop, open_externally
from hudtui.core.environment.asking import LoginNeeded, LoginOptions
from hudtui.core.flows.person import Choice, Person

if TYPE_CHECKING:
    from hudtui.core.environment.login_redirect import LoginRedirect
    from hudtui.core.settings import Settings

DOCUMENT_VARIABLE = "HUDTUI_CLIENT_METADATA_URL"
_WHY = {
    "none": "wants a login",
    "expired": "wants a new login: the last one has expired",
    "scope": "wants a login that covers more",
}


class PersonAnswers:
    """An `Answerer` that asks a person.

    Args:
        person: The user.
        settings: Name the client metadata document.
        options: How to log in.
        agreed: The user has asked for the login already.
    """

    def __init__(self, person: Person, settings: Settings, *, options: LoginOptions | None = None, agreed: bool = False) -> None:
        self.options = replace(options or LoginOptions(), document=settings.get(DOCUMENT_VARIABLE))
        self.logged_in: set[str] = set()
        """The servers that a login was begun at."""
        self._person, self._agreed = person, agreed

    async def may_log_in(self, needed: LoginNeeded) -> bool:
        self.logged_in.add(needed.server)
        scope = (f"It asks for the scopes: {needed.scope}",) if needed.scope else ()
        if self._agreed:
            for line in scope:
                self._person.say(line)
            return True
        lines = (
            f"{needed.server} {_WHY[needed.why]}.",
            *scope,
            "The login happens in a browser; its tokens stay on this computer.",
        )
        return await self._person.confirm("Log in?", lines, yes="Log in")

    async def may_send_secret(self, server: str, issuer: str) -> bool:
        lines = (f"{server} says that this is its authorization server. The client's secret goes there.",)
        return await self._person.confirm(f"Is the client registered at {issuer}?", lines, yes="Send", danger=True)

    async def visit(self, server: str, address: str, redirect: LoginRedirect) -> bool:
        return await _shown(self._person, f"Log in at {server}", address, redirect, self.options.browser)


async def _shown(person: Person, title: str, address: str, redirect: LoginRedirect, browser: bool | None) -> bool:
    """Have the person open an address, until the browser is back."""
    if browser is None and has_desktop():
        way = await person.choose(title, (Choice("open", "Open the browser"), Choice("show", "Show the address")))
        if way is None:
            return False
        browser = way == "open"
    if browser and not await open_externally(address):
        person.say("The browser could not be opened.", severity="warning")
    lines: tuple[str, ...] = (
        "Open this address in a browser. If the browser runs on another computer, its last page cannot be shown: paste the "
        "address of that page here.",
    )
    while not redirect.done.is_set():
        pasted = await person.ask(
            title, lines=lines, copy=address, placeholder=f"{redirect.uri}?code=...", accept="Continue", until=redirect.done
        )
        if redirect.done.is_set():
            break
        if pasted is None:
            return False
        if not redirect.take(pasted):
            lines = (f"That is no answer of this login: it begins with {redirect.uri} and holds a code.",)
    return True
