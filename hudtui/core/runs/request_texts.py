"""A request for a run as texts by option, as a form holds it, and as the words of a command.

The declarations of `RunRequest`, `ArtRequest` and `Recipe` say all that is needed: a new option
there is read, kept and written without a line here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from hudtui.core.knobs import Texts, knobs_of, text_of, values_from
from hudtui.core.runs.art_request import ArtRequest
from hudtui.core.runs.request import RunRequest
from hudtui.core.training.options import engine_of, trains
from hudtui.core.training.recipe import Recipe, parse_settings, settings_taken

if TYPE_CHECKING:
    from hudtui.core.compute.values import Offer


def kind_of(texts: Texts) -> type[RunRequest]:
    """Return the class of the request that texts stand for: it depends on their engine."""
    return ArtRequest if engine_of(texts).from_environment else RunRequest


def counts(name: str, texts: Texts, kind: type[RunRequest] | None = None) -> bool:
    """Return whether an option, or a setting of the trainer, counts beside these texts."""
    kind = kind or kind_of(texts)
    option = knobs_of(kind).get(name)
    if option is not None:
        return option.counts(texts)
    return name not in kind.fixed and trains(texts) and name in settings_taken(engine_of(texts))


def request_from(texts: Texts, kind: type[RunRequest] | None = None) -> RunRequest:
    """Return the request that texts stand for; by default of the kind that the engine takes.

    A name that is no option is a setting of the trainer. Texts that do not count beside the others
    are left out.

    Raises:
        InputError: A text is not of its option's type, or beyond its bounds; the error names the
            option as a form does.
    """
    kind = kind or kind_of(texts)
    counting = {name: text for name, text in texts.items() if text and counts(name, texts, kind)}
    options = values_from(kind, counting)
    settings = parse_settings(
        f"{name}={text}" for name, text in counting.items() if name not in options
    )
    return kind(**options, settings=settings)


def texts_of(request: RunRequest) -> dict[str, str]:
    """Return the texts that stand for a request.

    `request_from` reads them; an offer is named, and not held.
    """
    texts = {name: _setting_text(name, value) for name, value in request.settings.items()}
    texts |= {
        name: text for name in knobs_of(type(request)) if (text := text_of(getattr(request, name)))
    }
    return texts if request.offer is None else texts | _offer_texts(request.offer)


def _offer_texts(offer: Offer) -> dict[str, str]:
    return {"provider": offer.provider, "offer_name": offer.short}


def chosen_texts(request: RunRequest) -> dict[str, str]:
    """Return the texts of the options that are not at their defaults.

    The trainer's settings are left out.
    """
    usual, texts = type(request)(), dict[str, str]()
    for name in knobs_of(type(request)):
        value = getattr(request, name)
        if value != getattr(usual, name) and (text := text_of(value)):
            texts[name] = text
    return texts


def argv_of(request: RunRequest) -> list[str]:
    """Return the words of the command that asks for the same.

    Options with their defaults are left out.
    """
    return [*request.command.split(), *_words(request)]


def _words(request: RunRequest) -> Iterator[str]:
    knobs = knobs_of(type(request))
    texts = chosen_texts(request)
    if request.offer is not None:
        texts |= _offer_texts(request.offer)
    for name, text in texts.items():
        value = getattr(request, name)
        flag, _, negative = knobs[name].flag(name).partition("/")
        if isinstance(value, bool):
            yield flag if value else negative
        elif isinstance(value, tuple):
            for each in value:
                yield from (flag, each)
        else:
            yield from (text,) if name == "tasks" else (flag, text)
    for name, value in request.settings.items():
        yield from ("--set", f"{name}={_setting_text(name, value)}")


def _setting_text(name: str, value: Any) -> str:
    """Return a setting as it is typed.

    A word is quoted where it would be read as a number or as true or false.
    """
    text = json.dumps(value) if value is None or isinstance(value, list | tuple) else text_of(value)
    return (
        text if text and parse_settings([f"{name}={text}"]) == {name: value} else json.dumps(value)
    )


def default_text(name: str, texts: Texts) -> str:
    """Return what counts for an option or a setting without a value, beside these texts.

    Its text, or words for it.
    """
    kind, recipe = kind_of(texts), Recipe()
    option = knobs_of(kind).get(name)
    if option is not None and option.unset:
        return option.unset
    usual = {setting.name: getattr(recipe, setting.name) for setting in fields(recipe)}
    usual |= {"learning_rate": recipe.rate} | dict(engine_of(texts).defaults)
    if name in usual and trains(texts):
        return text_of(usual[name])
    return "" if option is None else text_of(getattr(kind(), name))


def first_texts(kind: type[RunRequest]) -> dict[str, str]:
    """Return the texts that a form begins with: the default of each option that is a text."""
    begun = kind()
    return {
        name: value
        for name in knobs_of(kind)
        if isinstance(value := getattr(begun, name), str) and value
    }
