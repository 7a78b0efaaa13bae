"""What servers ask while a session is open, answered by the person of a flow: logins, forms, pages, models."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hudtui.core.desktop import has_desktop, open_externally
from hudtui.core.environment.asking import FormAnswer, LoginNeeded, LoginOptions, Sample, SampleRequest
from hudtui.core.environment.form_args import choices_of, form_fields, read_form
from hudtui.core.environment.schema_words import describe_schema
from hudtui.core.environment.servers import mask_url
from hudtui.core.environment.values import Tool
from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.flows.person import Choice, Person
from hudtui.core.http import is_http_url
from hudtui.core.text import clean, clean_line, in_full

if TYPE_CHECKING:
    from hudtui.core.environment.login_redirect import LoginRedirect
    from hudtui.core.settings import Settings

MODEL_VARIABLE = "HUDTUI_SAMPLING_MODEL"
DOCUMENT_VARIABLE = "HUDTUI_CLIENT_METADATA_URL"
_MOST_LINES = 40
"""Lines of a server's text in a question."""
_WHY = {
    "none": "wants a login",
    "expired": "wants a new login: the last one has expired",
    "scope": "wants a login that covers more",
}


class PersonAnswers:
    """An `Answerer` that asks a person.

    Args:
        person: The user.
        settings: Name the model that answers servers, and its endpoint.
        options: How to log in.
        agreed: The user has asked for the login already.
    """

    def __init__(self, person: Person, settings: Settings, *, options: LoginOptions | None = None, agreed: bool = False) -> None:
        self.options = replace(options or LoginOptions(), document=settings.get(DOCUMENT_VARIABLE))
        self.logged_in: set[str] = set()
        """The servers that a login was begun at."""
        self._person, self._settings, self._agreed = person, settings, agreed
        self._model = settings.get(MODEL_VARIABLE)
        self._sampling = False
        """The user lets servers ask the model for as long as this lives."""

    @property
    def samples(self) -> bool:
        """Whether a model is there to be asked."""
        return self._model is not None

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

    async def fill_in(self, server: str, message: str, schema: Mapping[str, Any]) -> FormAnswer:
        """See `Answerer.fill_in`. Asks again until the answers fit the form."""
        form = Tool(server, input_schema=schema)
        fields = form_fields(form)
        lines, title = (*_lines(message), *_about(schema)), f"{server} asks"
        while True:
            typed = await self._person.fill_in(title, fields, lines=lines, accept="Send", no="Decline")
            if typed is None:
                return FormAnswer("decline")
            try:
                content = read_form(form, typed)
                _check(content, schema)
            except InputError as error:
                self._person.say(" ".join(error.lines()), severity="error")
                fields = tuple(replace(field, default=typed.get(field.name, "")) for field in fields)
                continue
            return FormAnswer("accept", content)

    async def open_page(self, server: str, message: str, address: str) -> bool:
        if not is_http_url(address):
            self._person.say(
                f"{server} asks to open {clean_line(address, 200)}, which is no web page: declined", severity="warning"
            )
            return False
        lines = (*_lines(message), f"The page: {in_full(address)}")
        if not await self._person.confirm(f"Open the page that {server} names?", lines, yes="Open", no="Decline", danger=True):
            return False
        if not (has_desktop() and await open_externally(address)):
            await self._person.ask("Open this address, then continue", lines=_lines(message), copy=address, accept="Continue")
        return True

    async def sample(self, server: str, request: SampleRequest) -> Sample:
        from hudtui.core.rollouts.chat import DEFAULT_BASE_URL, ChatEndpoint, ChatOptions

        model = self._model
        if model is None:
            raise HudtuiError("no model answers servers here")
        base = self._settings.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
        if not self._sampling:
            shown = [f"{message['role']}: {message['content']}" for message in request.messages]
            place = f"{clean_line(model, 80)} at {clean_line(mask_url(base), 120)}"
            about = f"{place} would answer, with {request.max_tokens} tokens at most"
            self._person.say(f"{server} wants to ask a model; {about}:")
            for line in _lines("\n".join(shown)):
                self._person.say(line)
            choices = (Choice("once", "Ask it"), Choice("all", "Ask it, and all that follows in this session"))
            chosen = await self._person.choose(f"Let {server} ask {model}?", choices)
            if chosen is None:
                raise HudtuiError("the user declined to ask a model")
            self._sampling = chosen == "all"
        await asyncio.to_thread(self._settings.require_trust)
        options = ChatOptions(
            base_url=base,
            key=self._settings.get("OPENAI_API_KEY"),
            temperature=request.temperature,
            max_tokens=max(1, request.max_tokens),
        )
        async with ChatEndpoint(model, options) as endpoint:
            text = await endpoint.complete(list(request.messages))
        ends = [at for at in (text.find(word) for word in request.stop) if at >= 0]
        return Sample(text[: min(ends)], model, "stopSequence") if ends else Sample(text, model)


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


def _lines(text: str) -> tuple[str, ...]:
    """A server's text as lines for a question."""
    lines = clean(text[:8000]).splitlines()
    return (*lines[:_MOST_LINES], "…") if len(lines) > _MOST_LINES else tuple(lines)


def _about(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """What a form's schema says about its fields, a line each."""
    lines = []
    for row in describe_schema(schema)[:_MOST_LINES]:
        own = schema["properties"].get(row.name)
        choices = choices_of(own) if isinstance(own, Mapping) else None
        named = ", ".join(f"{value} ({title})" if title else value for value, title in choices or ())
        words = [row.description, row.type, row.notes, f"one of: {named}" if named else ""]
        lines.append(clean_line(f"{row.name}: {'; '.join(word for word in words if word)}", 400))
    return tuple(lines)


def _check(content: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raise unless the answers fit the form. A form that cannot be checked is left to the server."""
    from hudtui.core.environment.validation import NotCheckedError, Validator

    try:
        errors = Validator(schema).errors(dict(content), most=1)
    except NotCheckedError:
        return
    if errors:
        name = ".".join(str(part) for part in errors[0].absolute_path)
        raise InputError(f"{clean_line(name, 60) or 'the form'}: {clean_line(errors[0].message, 200)}")
