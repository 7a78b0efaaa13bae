"""Settings and keys.

Which there are, where each value comes from, how values are checked and changed. Values come from
layers, and the first layer with a value wins: the environment, the project's `.env`, the user's own
file, the files of other tools (`~/.hud/.env`, Prime's config, the Hugging Face login), the
defaults. An empty value counts as none. Importing this module is cheap: python-dotenv is imported
when it is first needed.

A line of the project's `.env` counts only if the user has agreed to it (`core.trust`);
`Settings.withheld` says what does not count, and `Settings.lacking` where a missing value stands.
Even a trusted `.env` can only lower a limit on money or time, and can name neither a program to
start nor the address of a simulator.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Literal, Protocol

from hudtui.core import trust
from hudtui.core.dotenv import VARIABLE_NAME, EnvEntry, EnvFile, read_env, set_value, unset_value
from hudtui.core.errors import InputError, Location
from hudtui.core.extensions import PROVIDERS, extensions
from hudtui.core.http import bad_key_character, is_http_url
from hudtui.core.masking import looks_secret, without_login
from hudtui.core.paths import app_paths, typed_path
from hudtui.core.platform import BUILT_IN, SERVICES, Platform, choose_platform
from hudtui.core.text import MASK, did_you_mean
from hudtui.core.variables import lookup_in_any_case

Kind = Literal["secret", "url", "flag", "seconds", "limit", "threshold", "path", "command", "text"]
Origin = str
"""`environment`, `.env`, `user file`, `default`, or what another tool keeps: `~/.hud/.env`,
`~/.prime`, `Hugging Face login`."""


@dataclass(frozen=True)
class Setting:
    """One setting that this program knows."""

    name: str
    about: str
    """Purpose, in one line."""
    kind: Kind = "text"
    default: str | None = None
    get_it: str | None = None
    """The web page where a user can make such a key."""
    minimum: float | None = None
    """Smallest value of a threshold."""
    maximum: float | None = None
    needs: str | None = None
    """Rights that the user's own key needs, in a sentence. Such a key is kept in the user's
    settings, not in a project's."""
    in_folders: bool = True
    """A project folder may set it. What names a program to start, and a simulator's key, it may
    not."""

    @property
    def secret(self) -> bool:
        return self.kind == "secret"


_URL_ABOUT = {
    "mcp": "address that serves {title} environments over MCP",
    "api": "address of {title}'s API",
    "telemetry": "address that {title} traces are sent to",
    "web": "address of {title}'s web pages, for links to jobs",
}

NOTIFY_URL, NOTIFY_TEXT = "HUDTUI_NOTIFY_URL", "HUDTUI_NOTIFY_TEXT"

ALARM_SETTINGS: Mapping[str, Setting] = {
    "heartbeat": Setting(
        "HUDTUI_ALARM_HEARTBEAT_SECONDS",
        "alarm: seconds without a heartbeat of a run, or none",
        "threshold",
        "15",
        minimum=5,
        maximum=86_400,
    ),
    "quiet": Setting(
        "HUDTUI_ALARM_QUIET_MINUTES",
        "alarm: minutes in which a stage logs nothing, or three steps where those take longer; or "
        "none",
        "threshold",
        "5",
        minimum=0.5,
        maximum=1_440,
    ),
    "flat": Setting(
        "HUDTUI_ALARM_FLAT_STEPS",
        "alarm: steps one after the other without a spread of the rewards in any group, or none",
        "threshold",
        "5",
        minimum=1,
        maximum=10_000,
    ),
    "nan": Setting(
        "HUDTUI_ALARM_NAN_STEPS",
        "alarm: values one after the other that are NaN or infinite, or none",
        "threshold",
        "1",
        minimum=1,
        maximum=10_000,
    ),
    "broken": Setting(
        "HUDTUI_ALARM_BROKEN_PERCENT",
        "alarm: per cent of the episodes of a step that broke off, or none",
        "threshold",
        "25",
        minimum=1,
        maximum=100,
    ),
    "learning": Setting(
        "HUDTUI_ALARM_LEARNING_PERCENT",
        "alarm: per cent of probability of a severe finding about the learning, or none",
        "threshold",
        "95",
        minimum=50,
        maximum=99,
    ),
    "server": Setting(
        "HUDTUI_ALARM_SERVER_SECONDS",
        "alarm: seconds in which a model server does not answer, or none",
        "threshold",
        "20",
        minimum=5,
        maximum=86_400,
    ),
    "memory": Setting(
        "HUDTUI_ALARM_MEMORY_PERCENT",
        "alarm: per cent of the memory of a run's machine, GPUs aside, that is in use, or none",
        "threshold",
        "95",
        minimum=1,
        maximum=100,
    ),
    "disk": Setting(
        "HUDTUI_ALARM_DISK_GIB",
        "alarm: less free GiB on the disk of a run's machine, or none",
        "threshold",
        "5",
        minimum=0.1,
        maximum=10_000,
    ),
}
"""Name of the threshold of an alarm -> the setting that gives it; see `diagnosis.alarms`."""

DEFAULT_BASE_URL = "https://api.openai.com/v1"
"""The endpoint of models where no setting names another one."""
_KEYS_HERE, _PROGRAMS_HERE = Setting("keys", ""), Setting("programs", "")
"""The places of the settings of providers in the list: what names a program stands beside the other
programs."""
_COMMON = (
    Setting(
        "WANDB_API_KEY",
        "Weights & Biases: training metrics",
        "secret",
        get_it="https://wandb.ai/authorize",
    ),
    Setting(
        "WANDB_BASE_URL", "address of the Weights & Biases server", "url", "https://api.wandb.ai"
    ),
    _KEYS_HERE,
    Setting(
        "OPENAI_API_KEY",
        "OpenAI, or a server that speaks its API: models to evaluate",
        "secret",
        get_it="https://platform.openai.com/api-keys",
    ),
    Setting(
        "OPENAI_BASE_URL",
        "address of OpenAI, or of a server that speaks its API",
        "url",
        DEFAULT_BASE_URL,
    ),
    Setting(
        "HUDTUI_CLIENT_METADATA_URL",
        "address of your client metadata document, for logins at environments",
        "url",
    ),
    Setting(
        "HF_TOKEN",
        "Hugging Face: reading private and publishing datasets",
        "secret",
        get_it="https://huggingface.co/settings/tokens",
    ),
    Setting("HF_ENDPOINT", "address of the Hugging Face Hub", "url", "https://huggingface.co"),
    Setting(
        "HUDTUI_GUARD_KEY",
        "a Prime key that may only end machines: left on those that are rented, for their guard",
        "secret",
    ),
    Setting(
        "HUDTUI_BUDGET_RUN",
        "money that one run or rented machine may cost, in its provider's currency, or none",
        "limit",
        "25",
    ),
    Setting(
        "HUDTUI_BUDGET_DAY",
        "money that all rented machines may cost in a day, in USD, or none",
        "limit",
        "100",
    ),
    Setting(
        "HUDTUI_MAX_HOURS", "hours after which a rented machine is ended, or none", "limit", "24"
    ),
    Setting(
        "HUDTUI_IDLE_MINUTES",
        "minutes without GPU work or log lines after which it is ended, or none",
        "limit",
        "30",
    ),
    Setting(
        "HUDTUI_ENGINE",
        "container engine for images, docker or podman; without it, whichever answers",
        in_folders=False,
    ),
    _PROGRAMS_HERE,
    Setting(
        "HUDTUI_NOTIFY_COMMAND",
        "command that gets JSON on its standard input when a run ends or has an alarm",
        "command",
        in_folders=False,
    ),
    Setting(
        NOTIFY_URL,
        "address that a run's machine sends JSON to at a certain finding and at the end of the run",
        "secret",
        in_folders=False,
    ),
    Setting(
        NOTIFY_TEXT,
        "whether these messages hold the name of the run and why it has ended: true or false",
        "flag",
        "false",
        in_folders=False,
    ),
    *ALARM_SETTINGS.values(),
)


class _OfProvider(Protocol):
    """The part of a provider's entry (`compute.entry`) that settings are made of."""

    @property
    def settings(self) -> tuple[Setting, ...]: ...
    @property
    def key(self) -> str | None: ...


def _providers() -> Iterable[_OfProvider]:
    return extensions(PROVIDERS).loaded.values()


def provider_settings() -> tuple[Setting, ...]:
    """Return the settings of all providers."""
    return tuple(one for provider in _providers() for one in provider.settings)


def machine_prefixes() -> tuple[str, ...]:
    """Return how the names of the settings about renting begin.

    These decide which machines are rented, where, and within which limits.
    """
    heads = dict.fromkeys(f"{one.name.partition('_')[0]}_" for one in provider_settings())
    return ("HUDTUI_", *(head for head in heads if head != "HUDTUI_"))


LIMIT_SETTINGS: Mapping[str, str] = {
    "run_budget": "HUDTUI_BUDGET_RUN",
    "day_budget": "HUDTUI_BUDGET_DAY",
    "max_hours": "HUDTUI_MAX_HOURS",
    "idle_minutes": "HUDTUI_IDLE_MINUTES",
}
"""Name of a limit in `compute.limits.Limits` -> the setting that gives it."""

_OF_PLATFORM = (
    Setting(
        "TELEMETRY_ENABLED",
        "whether episodes of configurations with a job are sent to {title}: true or false",
        "flag",
        "true",
    ),
    Setting(
        "TELEMETRY_LOCAL_DIR",
        "folder that gets the traces of these episodes, as JSON lines",
        "path",
    ),
    Setting(
        "CLIENT_TIMEOUT",
        "seconds for a connection to an environment and for one call, where an episode is played",
        "seconds",
        "60",
    ),
)
"""Settings that each platform has under its own name."""


def known_settings(platform: Platform) -> tuple[Setting, ...]:
    """Every setting that is read on a platform.

    Its own first, then the built-in platforms' keys, then the services in common.
    """
    providers = provider_settings()
    if platform in BUILT_IN:  # by far the most: each variable is looked up in the settings of all
        return _settings_of_built_in(BUILT_IN.index(platform), providers)
    return _settings_of(platform, providers)


@lru_cache(maxsize=8)
def _settings_of_built_in(place: int, providers: tuple[Setting, ...]) -> tuple[Setting, ...]:
    return _settings_of(BUILT_IN[place], providers)


def _settings_of(platform: Platform, providers: tuple[Setting, ...]) -> tuple[Setting, ...]:
    keys: dict[str, Setting] = {}
    for one in (platform, *BUILT_IN):
        site = one.urls.get("web")
        keys.setdefault(
            one.key_variable,
            Setting(
                one.key_variable, f"{one.title}: environments and traces", "secret", get_it=site
            ),
        )
        for service in (
            SERVICES if one is platform else ("mcp", "api")
        ):  # tasks may name the first, and a key is tested at the other
            default = one.urls.get(service)
            if default or one is platform:
                name = one.url_variable(service)
                keys.setdefault(
                    name, Setting(name, _URL_ABOUT[service].format(title=one.title), "url", default)
                )
        if one is platform:
            own = (
                replace(
                    key, name=one.own_variable(key.name), about=key.about.format(title=one.title)
                )
                for key in _OF_PLATFORM
            )
            keys.update({key.name: key for key in own})
    programs = tuple(one for one in providers if one.kind == "command")
    others = tuple(one for one in providers if one.kind != "command")
    for key in _COMMON:
        for setting in (
            others if key is _KEYS_HERE else programs if key is _PROGRAMS_HERE else (key,)
        ):
            keys.setdefault(setting.name, setting)
    return tuple(keys.values())


@dataclass(frozen=True)
class _Layer:
    origin: Origin
    values: Mapping[str, str] = field(repr=False)
    file: Path | None = None
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)


class Settings:
    """The settings of one project folder, as they were when loaded.

    Attributes:
        folder: The project folder.
        platform: The platform whose keys and addresses these are.
        notices: What was ignored while reading, in plain words, without values.
        withheld: Powers of the project's `.env` and of a platform that the project declares, which
            the user has not agreed to. The lines of `.env` that they come from do not count.
    """

    def __init__(
        self,
        folder: Path,
        platform: Platform,
        layers: tuple[_Layer, ...],
        notices: tuple[str, ...],
        withheld: tuple[trust.Power, ...] = (),
        waiting: Mapping[str, trust.Power] | None = None,
    ) -> None:
        self.folder = folder
        self.platform = platform
        self.notices = notices
        self.withheld = withheld
        self._waiting = dict(waiting or {})
        self._waiting_in_any_case = lookup_in_any_case({name: name for name in self._waiting})
        self.keys = {key.name: key for key in known_settings(platform)}
        self._layers = layers
        # From the last layer to the first, so that the first layer's values stay. An empty value
        # hides nothing.
        values: dict[str, str] = {}
        for layer in reversed(layers):
            values.update(
                {name: value for name, value in layer.values.items() if value or name not in values}
            )
        self._values = values
        self._in_any_case = lookup_in_any_case(values)

    def __repr__(self) -> str:
        return f"Settings({str(self.folder)!r}, {self.platform.name!r})"

    def get(self, name: str) -> str | None:
        """The value of exactly this name; None if it is unset or empty."""
        return self._values.get(name) or None

    def lookup(self, name: str) -> str | None:
        """The value of a variable in a task or a config, for `variables.substitute`.

        Also under a name in another case.
        """
        return self._in_any_case(name)

    def use(self, name: str) -> str | None:
        """Like `lookup`, for work that uses the value.

        Raises:
            Untrusted: There is none, and the project's `.env` has one that the user has not agreed
                to.
        """
        if not (value := self.lookup(name)):
            self._require_agreed(name)
        return value

    def waits(self, name: str) -> Location | None:
        """File and line of a value in the project's `.env` that the user has not agreed to.

        The name may be in another case.
        """
        one = self._waiting.get(self._waiting_in_any_case(name) or "")
        return None if one is None else Location(str(one.file), one.line)

    def _require_agreed(self, name: str) -> None:
        """Raise `Untrusted` if the project's `.env` has a value that is not agreed to.

        The error names this value first. The user has to agree to it.
        """
        if (one := self._waiting.get(self._waiting_in_any_case(name) or "")) is not None:
            raise trust.Untrusted(
                self.folder, (one, *(other for other in self.withheld if other != one))
            )

    def lacking(self, name: str) -> tuple[str, str]:
        """Return why a variable has no value, and the command that mends it.

        The reason is the end of a sentence.
        """
        if (place := self.waits(name)) is not None:
            words = trust.standing({name: place.line or 0}, Path(place.file).name)
            return words.removeprefix(f"{name} "), "hudtui trust"
        return "is not set", f"hudtui settings set {name}"

    @property
    def waiting(self) -> Mapping[str, Location]:
        """Return file and line of each value in the project's `.env` that is not agreed to.

        The keys are the names of the variables.
        """
        return {name: Location(str(one.file), one.line) for name, one in self._waiting.items()}

    def waiting_words(self) -> str | None:
        """A sentence that names the values in the project's `.env` that the user has not agreed to.

        None if there is none.
        """
        lines = {name: one.line or 0 for name, one in self._waiting.items()}
        if not lines:
            return None
        return (
            f"{trust.standing(lines, '.env')}, and {'does' if len(lines) == 1 else 'do'} not count"
        )

    def require(self, name: str) -> str:
        """Like `get`, for work that needs the value.

        Raises:
            Untrusted: The value stands in the project's `.env`, and the user has not agreed to it.
            InputError: There is no value; the error says how to set it.
        """
        if (value := self.get(name)) is not None:
            return value
        self._require_agreed(name)
        key = self.keys.get(name)
        where = f" Get one at {key.get_it}." if key is not None and key.get_it else ""
        raise InputError(
            f"{name} is not set",
            why=f"It is needed for {key.about}." if key is not None else None,
            fix=(
                f"Set it in the environment, or keep it in {self.folder / '.env'} with: hudtui "
                f"settings set {name}.{where}"
            ),
        )

    def require_trust(self, *prefixes: str) -> None:
        """Raise if anything is withheld: for work that may depend on it.

        Args:
            prefixes: How the names begin of the settings that the work depends on; all settings,
                and the platform, without one.

        Raises:
            Untrusted: The user has not agreed to what this folder's files ask for.
        """
        powers = self.withheld
        if prefixes:
            powers = tuple(one for name, one in self._waiting.items() if name.startswith(prefixes))
        if powers:
            raise trust.Untrusted(self.folder, powers)

    def url(self, service: str) -> str | None:
        """An address of the platform, by the name of its service (see `platform.SERVICES`)."""
        return self.platform.url(service, self.get)

    def own(self, name: str) -> str | None:
        """The value of a setting that each platform has under its own name.

        `CLIENT_TIMEOUT` is `HUD_CLIENT_TIMEOUT` on HUD.
        """
        return self.get(self.platform.own_variable(name))

    @property
    def client_timeout(self) -> float:
        """Seconds for a connection to an environment, and for one call to it.

        Raises:
            InputError: The setting is not a number of seconds.
        """
        name, text = (
            self.platform.own_variable("CLIENT_TIMEOUT"),
            self.own("CLIENT_TIMEOUT") or "60",
        )
        try:
            return _seconds(text)
        except ValueError:
            raise InputError(
                f"{name} is {text!r}, and a number of seconds is needed", where=self.location(name)
            ) from None

    def is_set(self, name: str) -> bool:
        """Return True if the user or a file gives this setting a value; a default is none."""
        return self.origin(name) not in (None, "default")

    def origin(self, name: str) -> Origin | None:
        """Return the source of the value; None if there is no value."""
        layer = self._layer_of(name)
        return layer.origin if layer is not None else None

    def location(self, name: str) -> Location | None:
        """File and line of the value; None if it does not come from a file."""
        layer = self._layer_of(name)
        if layer is None or layer.file is None:
            return None
        return Location(str(layer.file), layer.lines.get(name))

    def hidden(self, name: str) -> tuple[Origin, ...]:
        """Return the origins of a name whose value does not count, the nearest first.

        A nearer origin has a value too.
        """
        having = [layer.origin for layer in self._layers if layer.values.get(name)]
        return tuple(origin for origin in having[1:] if origin != "default")

    def shown(self, name: str) -> str | None:
        """The value as it may be shown.

        Masked if it is a secret, or if its name looks like a secret's.
        """
        value = self.get(name)
        if value is None:
            return None
        return mask(value) if self.is_secret(name) else without_login(value)

    def is_secret(self, name: str) -> bool:
        key = self.keys.get(name)
        return key.secret if key is not None else looks_secret(name)

    def redact(self, text: str) -> str:
        """`text` with every secret value masked: for messages and logs of other programs."""
        return self._mask(text)

    @cached_property
    def _mask(self) -> Callable[[str], str]:
        return _masking(value for name, value in self._values.items() if self.is_secret(name))

    def _layer_of(self, name: str) -> _Layer | None:
        return next((layer for layer in self._layers if layer.values.get(name)), None)


def secret_mask() -> Callable[[str], str]:
    """A function that masks the user's own secrets in a text.

    Those of the environment, their file and other tools' files.
    """
    keys = {key.name for one in BUILT_IN for key in known_settings(one) if key.secret}
    layers = _own_layers(dict(os.environ), [])
    return _masking(
        value
        for layer in layers
        for name, value in layer.values.items()
        if name in keys or looks_secret(name)
    )


def other_holder(value: str, name: str, folder: Path) -> str | None:
    """The variable that holds a secret beside the one that it was given as; None if there is none.

    All layers are looked through, also those whose value does not count, and a project's `.env`
    that is not trusted.

    Args:
        value: The secret. Blanks around it are no difference.
        name: The variable that it was given as.
        folder: The project folder.
    """
    keys = {key.name for one in BUILT_IN for key in known_settings(one) if key.secret}
    layers = (*_own_layers(os.environ, []), *_env_layer(".env", _read(".env", folder / ".env", [])))
    return next(
        (
            other
            for layer in layers
            for other, held in layer.values.items()
            if other != name
            and held.strip() == value.strip()
            and (other.upper() in keys or looks_secret(other))
        ),
        None,
    )


def _masking(values: Iterable[str]) -> Callable[[str], str]:
    kept = sorted({value for value in values if len(value) >= 8}, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, kept)))
    return (lambda text: pattern.sub(MASK, text)) if kept else str


def mask(secret: str) -> str:
    """A secret as it may be shown: masked, with its last four characters if it has at least 16."""
    return MASK + secret[-4:] if len(secret) >= 16 and secret[-4:].isalnum() else MASK


def user_file() -> Path:
    """The user's settings for all projects, a file in the form of `.env`. It need not exist."""
    return app_paths().settings_file


def user_setting(name: str) -> str | None:
    """The value of a setting that no folder decides.

    From the environment, else from the user's own file; None without one.
    """
    if value := _spelled(os.environ).get(name):
        return value
    entry = _read("user file", user_file(), []).entries.get(name)
    return (entry.value or None) if entry is not None else None


def notify_settings() -> dict[str, str]:
    """Return what the machine of a run needs to tell the user: where to, and whether with text.

    Empty without an address. No folder decides it.
    """
    url = user_setting(NOTIFY_URL)
    if url is None or not is_http_url(url):
        return {}
    text = user_setting(NOTIFY_TEXT) or ""
    return {NOTIFY_URL: url} | ({NOTIFY_TEXT: "1"} if _FLAGS.get(text.lower()) else {})


def load_settings(
    folder: Path, platform: Platform | None = None, *, environ: Mapping[str, str] | None = None
) -> Settings:
    """Read every layer.

    A file that cannot be read is left out and named in `notices`: settings never prevent the
    program from starting.

    Args:
        folder: The project folder.
        platform: Its platform; the choice of the folder when None, see `choose_platform`.
        environ: The environment; the process's own by default.

    Raises:
        InputError: No platform is given, and the platform in `HUDTUI_PLATFORM` cannot be used.
    """
    platform = platform or choose_platform(folder)
    environment = dict(os.environ if environ is None else environ)
    notices: list[str] = []
    written = _read(".env", folder / ".env", notices, platform)
    layers = _own_layers(environment, notices, platform)
    file = _of_folder(written, layers, notices)
    layers.append(
        _Layer(
            "default", {key.name: key.default for key in known_settings(platform) if key.default}
        )
    )
    powers = _env_powers(file, platform)
    withheld = trust.missing(folder, (*powers.values(), *_platform_powers(folder, platform)))
    tokens = {one.token for one in withheld}
    waiting = {name: one for name, one in powers.items() if one.token in tokens}
    agreed = {name: entry for name, entry in file.entries.items() if name not in waiting}
    layers[1:1] = _env_layer(".env", _allowed(EnvFile(file.path, agreed), layers, notices))
    return Settings(folder, platform, tuple(layers), tuple(notices), withheld, waiting)


def _own_layers(
    environment: Mapping[str, str], notices: list[str], platform: Platform | None = None
) -> list[_Layer]:
    """The layers that no folder and no default gives."""
    layers = [_Layer("environment", _aliased(_spelled(environment, platform)))]
    for origin, path in (
        ("user file", user_file()),
        ("~/.hud/.env", Path.home() / ".hud" / ".env"),
    ):
        layers += _env_layer(origin, _read(origin, path, notices, platform))
    layers += _json_layer(Path.home() / ".prime" / "config.json", notices)
    layers += _hugging_face_layer(environment)
    return layers


def folder_powers(folder: Path, platform: Platform) -> tuple[trust.Power, ...]:
    """The powers of the project's `.env` and of the platform that the project declares.

    See `core.trust`.
    """
    written = _read(".env", folder / ".env", [], platform)
    file = _of_folder(written, _own_layers(os.environ, [], platform), [])
    return (*env_powers(file, platform), *_platform_powers(folder, platform))


def _platform_powers(folder: Path, platform: Platform) -> tuple[trust.Power, ...]:
    """One power for each address of a platform that the project folder itself declares."""
    if platform.file is None or not platform.file.is_relative_to(folder):
        return ()
    return tuple(
        trust.power(
            "address",
            f"{url} ({platform.key_variable} is sent there)",
            platform.file,
            service,
            url,
            platform.key_variable,
        )
        for service, url in platform.urls.items()
    )


def env_powers(file: EnvFile, platform: Platform) -> tuple[trust.Power, ...]:
    """One power for each value of a project's `.env`. Keys are named and never shown.

    All else is shown with what other lines of the file put in for its references, and with the
    names of the variables of the environment that it takes.
    """
    return tuple(_env_powers(file, platform).values())


def _env_powers(file: EnvFile, platform: Platform) -> dict[str, trust.Power]:
    """The power of each value of a project's `.env`, by the name of the variable."""
    keys = {key.name: key for key in known_settings(platform)}
    found: dict[str, trust.Power] = {}
    for name, entry in file.entries.items():
        key = keys.get(name)
        if not entry.value:
            continue
        written = entry.value if entry.written is None else entry.written
        borrowed = f", with {', '.join(sorted(entry.outside))}" if entry.outside else ""
        told = f"{name}={written}{borrowed}"
        if key.secret if key is not None else looks_secret(name):
            told = f"{name}{borrowed}"
            found[name] = trust.power(
                "key",
                told,
                file.path,
                name,
                *sorted(entry.outside),
                line=entry.line,
                secret=entry.value,
            )
            continue
        kind: trust.Kind
        if name == _PRIME_ADDRESS or (key is not None and key.kind == "url"):
            goes = _key_for(name, platform)
            use = f"{name}{borrowed}; {goes} is sent there" if goes else f"{name}{borrowed}"
            kind, told = "address", f"{written} ({use})"
        elif key is not None and key.kind == "limit":
            kind = "limit"
        elif _PROGRAM.fullmatch(name):
            kind = "command"
        else:
            kind = "variable" if key is None else "setting"
        found[name] = trust.power(
            kind, told, file.path, name, written, *sorted(entry.outside), line=entry.line
        )
    return found


_PRIME_ADDRESS = "PRIME_BASE_URL"
"""The other name that Prime's command knows for PRIME_API_BASE_URL; see `_aliased`."""
_PROGRAM = re.compile(
    # What names a program by its own name, and what makes the programs that are started run another
    # one.
    r"(?:.*_)?(?:PYTHON|COMMAND|CMD|PROGRAM|SHELL|BIN|BINARY|EXE|EXECUTABLE|INTERPRETER|RUNNER"
    r"|WRAPPER|LAUNCHER|ASKPASS)"
    r"|(?:.*_)?(?:EDITOR|PAGER|BROWSER)|PATH|BASH_ENV|VISUAL|CLASSPATH"
    r"|(?:LD_|DYLD_|PYTHON|PERL5|RUBY(?:OPT|LIB)).*"
    r"|NODE_(?:OPTIONS|PATH)|_?JAVA_(?:TOOL_)?OPTIONS|GIT_(?:SSH|EXEC|CONFIG|PROXY|EXTERNAL).*"
    r"|DOCKER_(?:HOST|CONTEXT|CONFIG)",
    re.IGNORECASE,
)
_SIMULATORS = frozenset({"demo", "off"})
"""Values of HUDTUI_SIM that a folder may choose; an address is the user's to choose."""


def _never_in_a_folder() -> frozenset[str]:
    """Return the settings that only the environment and the user's own file may set."""
    return frozenset(
        key.name for one in BUILT_IN for key in known_settings(one) if not key.in_folders
    )


def _key_for(name: str, platform: Platform) -> str | None:
    """The key that is sent to the address in a setting."""
    if name in platform.url_variables:
        return platform.key_variable
    keys = {"OPENAI": "OPENAI_API_KEY", "HF": "HF_TOKEN", "WANDB": "WANDB_API_KEY"}
    keys |= {one.key.partition("_")[0]: one.key for one in _providers() if one.key is not None}
    keys |= {one.prefix: one.key_variable for one in BUILT_IN}
    return keys.get(name.partition("_")[0])


def _of_folder(file: EnvFile, own: Iterable[_Layer], notices: list[str]) -> EnvFile:
    """A folder's `.env` without what no agreement could let it have.

    Programs of the user's, and keys of other places.

    Args:
        file: The file.
        own: The layers that are the user's own.
        notices: Gets what is left out, and why.
    """
    keys = {key.name for one in BUILT_IN for key in known_settings(one) if key.secret}
    never = _never_in_a_folder()

    def secret(name: str) -> bool:
        return name.upper() in keys or looks_secret(name)

    values = {
        value
        for layer in own
        for name, value in layer.values.items()
        if len(value) >= 8 and secret(name)
    }
    kept = {}
    for name, entry in file.entries.items():
        # A key of the file itself is not shown in a question: no other value may depend on it.
        used = [
            one
            for one in (*sorted(entry.outside), *(() if secret(name) else sorted(entry.inside)))
            if secret(one)
        ]
        used += [
            one
            for one in sorted(entry.outside)
            if any(value in os.environ.get(one, "") for value in values)
        ]
        if entry.value and name in never:
            why = (
                f"{name} is not taken from a project folder; set it in the environment or with "
                "--user"
            )
        elif entry.value and used:
            why = (
                f"{name} does not count: it takes the value of {used[0]}, and a file of a folder "
                "passes no key on"
            )
        else:
            kept[name] = entry
            continue
        notices.append(f"{file.path}:{entry.line}: {why}")
    return EnvFile(file.path, kept)


def _allowed(file: EnvFile, others: list[_Layer], notices: list[str]) -> EnvFile:
    """A trusted folder's `.env` without what a folder must not decide."""
    kept = {}
    for name, entry in file.entries.items():
        place = f"{file.path}:{entry.line}"
        if entry.value and name == "HUDTUI_SIM" and entry.value not in _SIMULATORS:
            notices.append(
                f"{place}: HUDTUI_SIM can only be demo or off in a project folder; set an address "
                "with --user"
            )
        elif (
            entry.value
            and name in LIMIT_SETTINGS.values()
            and not _lowers(entry.value, _first(others, name))
        ):
            notices.append(
                f"{place}: {name}={entry.value} does not count: a project folder can lower the "
                f"limit of {_first(others, name)}, not lift it"
            )
        else:
            kept[name] = entry
    return EnvFile(file.path, kept)


def _first(layers: list[_Layer], name: str) -> str | None:
    return next((layer.values[name] for layer in layers if layer.values.get(name)), None)


def _lowers(value: str, limit: str | None) -> bool:
    """Return True if a limit can be read, and is at least as strict as the user's."""
    try:
        return limit is None or parse_limit(value) <= parse_limit(limit)
    except ValueError:
        return False


def save_project_setting(folder: Path, name: str, value: str) -> Path:
    """Set a value in the project's `.env`, in place. Returns the file's path.

    Raises:
        InputError: No project folder may set it; see also `dotenv.set_value`.
    """
    if name.upper() in _never_in_a_folder():
        raise InputError(
            f"{name} is not taken from a project folder",
            fix=f"Keep it in your own settings: hudtui settings set {name} --user",
        )
    path = folder / ".env"
    _refuse_outside(folder, path)
    set_value(path, name, value.strip())
    # The user has just set it here, so there is nothing to ask.
    file = EnvFile(path, {name: EnvEntry(value.strip(), 0)})
    trust.agree(folder, env_powers(file, choose_platform(folder)))
    return path


def _refuse_outside(folder: Path, path: Path) -> None:
    target = Path(os.path.realpath(path))
    if path.is_symlink() and not target.is_relative_to(os.path.realpath(folder)):
        raise InputError(
            f"{path.name} is a link to a file outside of this folder, and is not written",
            why=f"It leads to {target}.",
            fix="Change that file itself, or replace the link by a file.",
            where=Location(str(path)),
        )


def save_user_setting(name: str, value: str) -> Path:
    """Set a value in the user's file. Returns the file's path.

    Raises:
        InputError: See `dotenv.set_value`.
    """
    path = user_file()
    set_value(path, name, value.strip())
    return path


def remove_setting(folder: Path, name: str, *, user: bool = False) -> bool:
    """Remove a value from the project's `.env` or the user's file. Returns whether it was there.

    Raises:
        InputError: The file cannot be read or written.
    """
    if not user:
        _refuse_outside(folder, folder / ".env")
    return unset_value(user_file() if user else folder / ".env", name)


def check_setting_name(name: str, platform: Platform) -> Setting | None:
    """The setting of this name; None if the program does not know it.

    Raises:
        InputError: The name is unknown and so similar to a known name that it must be a slip, or it
            cannot be a variable's name.
    """
    keys = {key.name: key for key in known_settings(platform)}
    if name in keys:
        return keys[name]
    near = did_you_mean(name.upper(), keys, cutoff=0.85)
    if near or not VARIABLE_NAME.match(name):
        raise InputError(
            f"there is no setting {name!r}",
            fix=f"Did you mean {near}?"
            if near
            else "A name has letters, digits and _, with no digit first.",
        )
    return None


def _read(
    origin: Origin, path: Path, notices: list[str], platform: Platform | None = None
) -> EnvFile:
    try:
        file = read_env(path)
    except InputError as error:
        notices.append(f"{origin} is left out: {error.lines()[0]}")
        return EnvFile(path)
    notices.extend(file.notices)
    names = _setting_names({name: entry.value for name, entry in file.entries.items()}, platform)
    return EnvFile(
        path, {name: file.entries[written] for name, written in names.items()}, file.notices
    )


def _setting_names(values: Mapping[str, str], platform: Platform | None) -> dict[str, str]:
    """Return the variable that counts for each name.

    The name of a setting may be written in any case. Of several spellings the first one with a
    value counts, and the setting's own spelling before all others.
    """
    platforms = BUILT_IN if platform is None else (platform, *BUILT_IN)
    known = {
        _PRIME_ADDRESS,
        *(setting.name for one in platforms for setting in known_settings(one)),
    }
    names: dict[str, str] = {}
    for written in sorted(values, key=lambda name: (not values[name], name not in known)):
        upper = written.upper()
        names.setdefault(upper if upper in known else written, written)
    order = {written: place for place, written in enumerate(values)}
    return dict(sorted(names.items(), key=lambda pair: order[pair[1]]))


def _spelled(values: Mapping[str, str], platform: Platform | None = None) -> dict[str, str]:
    """Return variables under the names of `_setting_names`."""
    return {name: values[written] for name, written in _setting_names(values, platform).items()}


def _env_layer(origin: Origin, file: EnvFile) -> list[_Layer]:
    if not file.entries:
        return []
    values = {name: entry.value for name, entry in file.entries.items()}
    return [
        _Layer(
            origin,
            _aliased(values),
            file.path,
            {name: entry.line for name, entry in file.entries.items()},
        )
    ]


def _aliased(values: dict[str, str]) -> dict[str, str]:
    # Prime's command knows two names for one address, and takes it with and without the version at
    # the end.
    base = values.get("PRIME_API_BASE_URL") or values.get(_PRIME_ADDRESS)
    return (
        {**values, "PRIME_API_BASE_URL": base.rstrip("/").removesuffix("/api/v1")}
        if base
        else values
    )


_PRIME = {
    "api_key": "PRIME_API_KEY",
    "team_id": "PRIME_TEAM_ID",
    "ssh_key_path": "PRIME_SSH_KEY_PATH",
    "base_url": "PRIME_API_BASE_URL",
}


def _json_layer(path: Path, notices: list[str]) -> list[_Layer]:
    """The config of the Prime command.

    It is read and never written: the command drops fields that it does not know.
    """
    try:
        data = json.loads(path.read_bytes()[:100_000])
        values = {name: data[key] for key, name in _PRIME.items() if isinstance(data.get(key), str)}
    except FileNotFoundError:
        return []
    except (OSError, ValueError, AttributeError, RecursionError):
        notices.append(f"~/.prime is left out: {path} cannot be read as JSON")
        return []
    return [_Layer("~/.prime", _aliased(values), path)]


def _hugging_face_layer(environment: Mapping[str, str]) -> list[_Layer]:
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(environment.get("HF_HOME") or cache / "huggingface")
    path = typed_path(environment.get("HF_TOKEN_PATH") or home / "token")
    try:
        token = path.read_text("ascii").strip()
    except (OSError, ValueError):
        return []
    return (
        [_Layer("Hugging Face login", {"HF_TOKEN": token}, path)] if 0 < len(token) < 1000 else []
    )


@dataclass(frozen=True)
class CheckedSettings:
    """Settings as typed values, and what is wrong with the others."""

    values: Mapping[str, object] = field(repr=False)
    """By name, of all but the secrets: an address without a slash at its end, bool, seconds, a
    limit or a threshold as float (infinite: none), Path, or a command in words."""
    problems: Mapping[str, str]
    """By name, in plain words that never hold the value."""


def check_settings(settings: Settings) -> CheckedSettings:
    """Check every known setting that has a value against its kind.

    A key is one word, an address is http(s) with a host, ...
    """
    values: dict[str, object] = {}
    problems: dict[str, str] = {}
    for setting in settings.keys.values():
        if (text := settings.get(setting.name)) is not None:
            value, problem = _checked(setting, text)
            if problem is not None:
                problems[setting.name] = problem
            elif not setting.secret:
                values[setting.name] = value
    return CheckedSettings(values, problems)


def check_setting_value(setting: Setting, value: str) -> str | None:
    """Return the problem of a new value of a setting; None if there is none."""
    return _checked(setting, value)[1]


def parse_limit(value: str, about: str = "limit") -> float:
    """A limit as a number; infinite if the value says that there is no limit.

    `about` is what the text of an error says that `none` turns off.

    Raises:
        ValueError: It is not a limit; the text says why.
    """
    if value.strip().lower() in ("none", "off", "unlimited"):
        return math.inf
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"this is not a number; none means that there is no {about}") from None
    if not number > 0:
        raise ValueError(f"this must be more than 0; none means that there is no {about}")
    return number


_PLACEHOLDER = re.compile(
    r"(your|my|change|insert|replace|enter)[-_ ].*|x{3,}|<.*>|\.{3,}|todo", re.IGNORECASE
)
_FLAGS = {
    word: value
    for value, words in ((True, "1 on t true y yes"), (False, "0 off f false n no"))
    for word in words.split()
}


def _checked(setting: Setting, text: str) -> tuple[object, str | None]:
    """A value of a setting, or what is wrong with the text."""
    try:
        value = _CHECKS[setting.kind](text)
    except ValueError as error:
        return None, str(error)
    if isinstance(value, float) and math.isfinite(value):
        if setting.minimum is not None and value < setting.minimum:
            return None, f"this must be at least {setting.minimum:g}"
        if setting.maximum is not None and value > setting.maximum:
            return (
                None,
                f"this must be at most {setting.maximum:g}; none means that there is no alarm",
            )
    return value, None


def _key(text: str) -> str:
    if _PLACEHOLDER.fullmatch(text):
        raise ValueError("this is the placeholder of an example, not a key")
    if (at := bad_key_character(text)) is not None:
        raise ValueError(
            f"a key is one word of ASCII letters, digits and signs; character {at} is not one of "
            "them"
        )
    return text


def _url(text: str) -> str:
    if not is_http_url(text):
        raise ValueError("this is not an address; write it with http:// or https:// and a host")
    return text.rstrip("/")


def _flag(text: str) -> bool:
    if (value := _FLAGS.get(text.lower())) is None:
        raise ValueError("this is neither true nor false")
    return value


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("this is not a number of seconds") from None
    if not math.isfinite(number):
        raise ValueError("this must be a finite number of seconds")
    if number <= 0:
        raise ValueError("this must be more than 0 seconds")
    return number


def _command(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"this is not a command: {error}") from None


_CHECKS: Mapping[Kind, Callable[[str], object]] = {
    "secret": _key,
    "url": _url,
    "flag": _flag,
    "seconds": _seconds,
    "limit": parse_limit,
    "threshold": partial(parse_limit, about="alarm"),
    "path": lambda text: Path(
        os.path.expanduser(text)
    ),  # which leaves the home of a user who is not known as it stands
    "command": _command,
    "text": str,
}
"""Check of each kind: returns the value of a text, or raises ValueError with the problem."""
