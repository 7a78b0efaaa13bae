"""The kinds of settings as pydantic-settings knows them. Imported only when values are checked: pydantic takes its time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PositiveFloat, SecretStr, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

if TYPE_CHECKING:
    from hudtui.core.settings import Setting

_PLACEHOLDER = re.compile(r"(your|my|change|insert|replace|enter)[-_ ].*|x{3,}|<.*>|\.{3,}|todo", re.IGNORECASE)


def _key(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if _PLACEHOLDER.fullmatch(text):
        raise ValueError("this is the placeholder of an example, not a key")
    bad = next((index for index, character in enumerate(text) if not 33 <= ord(character) <= 126), None)
    if bad is not None:
        raise ValueError(f"a key is one word of plain characters; character {bad + 1} is none of them")
    return value


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("this is no address; write it with http:// or https:// and a host")
    return value.rstrip("/")


def parse_limit(value: str) -> float:
    """A limit as a number; infinite where the value says that there is none.

    Raises:
        ValueError: It is no limit; the text says why.
    """
    if value.strip().lower() in ("none", "off", "unlimited"):
        return math.inf
    try:
        number = float(value)
    except ValueError:
        raise ValueError("this is no number; none means that there is no limit") from None
    if not number > 0:
        raise ValueError("this must be more than 0; none means that there is no limit")
    return number


def _path(value: Path) -> Path:
    return value.expanduser()


_TYPES: Mapping[str, Any] = {
    "secret": Annotated[SecretStr, AfterValidator(_key)],
    "url": Annotated[str, AfterValidator(_url)],
    "flag": bool,
    "seconds": Annotated[PositiveFloat, Field(allow_inf_nan=False)],
    "limit": Annotated[float, BeforeValidator(parse_limit)],
    "path": Annotated[Path, AfterValidator(_path)],
    "text": str,
}
_PLAIN_WORDS = {
    "bool_parsing": "this is neither true nor false",
    "float_parsing": "this is not a number of seconds",
    "greater_than": "this must be more than 0 seconds",
    "finite_number": "this must be a finite number of seconds",
}


class _LayerSource(PydanticBaseSettingsSource):
    """Values from the layers that `Settings` has already put in order."""

    def __init__(self, model: type[BaseSettings], get: Callable[[str], str | None]) -> None:
        super().__init__(model)
        self._get = get

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self._get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        found = {name: self._get(name) for name in self.settings_cls.model_fields}
        return {name: value for name, value in found.items() if value is not None}


def checked_values(keys: tuple[Setting, ...], get: Callable[[str], str | None]) -> tuple[dict[str, object], dict[str, str]]:
    """Typed values and problems by name; see `settings.Checked`."""
    problems: dict[str, str] = {}

    def present(name: str) -> str | None:
        return None if name in problems else get(name)

    class Base(BaseSettings):
        model_config = SettingsConfigDict(case_sensitive=True, hide_input_in_errors=True)

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (_LayerSource(settings_cls, present),)

    fields: dict[str, Any] = {key.name: (_TYPES[key.kind] | None, None) for key in keys}
    model = create_model("Values", __base__=Base, **fields)
    try:
        values = model()
    except ValidationError as error:
        for item in error.errors(include_input=False, include_url=False, include_context=False):
            words = _PLAIN_WORDS.get(item["type"]) or item["msg"].removeprefix("Value error, ")
            problems[str(item["loc"][0])] = words
        values = model()
    return {name: value for name, value in values.model_dump().items() if value is not None}, problems
