"""Checks of everything a run needs besides its machine: files, model, environments, keys, judge."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from hudtui.core.errors import InputError
from hudtui.core.masking import mask_url
from hudtui.core.runs.checks import (
    Check,
    CheckState,
    distinct,
    fine,
    lacking,
    missing,
    refused,
    warning,
)
from hudtui.core.runs.inputs import OWN_VARIABLES, Inputs, task_lookup
from hudtui.core.runs.judge import (
    judge_checks,
    judge_port,
    task_judge_checks,
    task_judge_names,
)
from hudtui.core.runs.site import RunSite
from hudtui.core.runs.work import Work
from hudtui.core.text import clean_line
from hudtui.core.training.plan import PlanFile, file_ref
from hudtui.core.variables import EPISODE_VARIABLES, substitute_tree, variable_names
from hudtui.core.workspace import Workspace

if TYPE_CHECKING:
    from hudtui.core.lockfile import LockFile
    from hudtui.core.settings import Settings
    from hudtui.core.training.model import ModelAssessment

_SERVICES = ("WANDB_API_KEY", "HF_TOKEN")
"""Optional keys that trainers use if they are set."""
_SHOWN_ROUTES = 8
"""Largest number of ways to environments that are shown."""


class Sent(NamedTuple):
    """Settings that are sent to the machine."""

    secrets: tuple[str, ...] = ()
    """Their names alone."""
    variables: Mapping[str, str] = {}


@dataclass(frozen=True)
class Checks:
    """The results of all checks before a run is planned, and what they have read for its spec."""

    results: tuple[Check, ...]
    inputs: Inputs
    model_files: tuple[Path, ...] = ()
    """Files of a model on this computer that are sent to the machine."""
    sent: Sent = Sent()  # noqa: RUF009 - frozen
    tunnels: tuple[int, ...] = ()
    """Ports of this computer that environments and the judge listen on."""
    remarks: tuple[str, ...] = ()
    """Remarks for the user before the start."""
    templates: tuple[PlanFile, ...] = ()
    """Files of the episodes' folders that are sent to the machine."""

    @property
    def complete(self) -> bool:
        """True if nothing keeps the run from being planned."""
        return all(one.state != "missing" for one in self.results)


def check(
    work: Work, site: RunSite, inputs: Inputs, workspace: Workspace, settings: Settings
) -> Checks:
    """Check everything that a run needs, those of its inputs and its machine included.

    Reads files, and the Hub where the model is there.
    """
    model = _assess(work, site, inputs, workspace, settings)
    servers = tuple(_servers(inputs, settings))
    routes = tuple(_routes(servers)) if site.remote else ()
    sent = _sent(work, inputs, servers, settings) if site.remote else Sent()
    templates, template_checks = _templates(inputs, settings, remote=site.remote)
    port = judge_port(work, settings, remote=site.remote)
    ports = (*(route.port for route in routes), port)
    found = (
        *(warning("training", remark) for remark in work.request.remarks),
        *inputs.checks,
        *work.checks,
        *site.checks,
        *_model_checks(model),
        *_image_checks(inputs, servers, remote=site.remote),
        *(_login_checks(servers) if site.remote else ()),
        *(
            Check("environment", route.state, clean_line(route.text, 400))
            for route in routes[:_SHOWN_ROUTES]
        ),
        *template_checks,
        *_sharing_checks(inputs, settings, workspace),
        *_key_checks(work, site, servers, sent, settings),
        *judge_checks(work, settings, remote=site.remote),
        *task_judge_checks(inputs.tasks, settings, remote=site.remote),
    )
    tunnels = tuple(dict.fromkeys(port for port in ports if port is not None))
    remarks = tuple(f"environment {route.text}" for route in routes[:_SHOWN_ROUTES])
    files = () if model is None else model.files
    return Checks(distinct(found), inputs, files, sent, tunnels, remarks, templates)


# --- the model ------------------------------------------------------------------------------------


def _assess(
    work: Work, site: RunSite, inputs: Inputs, workspace: Workspace, settings: Settings
) -> ModelAssessment | None:
    """Assess the model that the user names, as far as this computer and the Hub can tell.

    None for the engine's choice.
    """
    request, features = work.request, work.request.features
    name = (
        request.rehearse_model if request.rehearse else request.model or work.training.get("model")
    )
    if not features.trains or name is None:
        return None
    from hudtui.core.training.model import assess_model

    here = not site.remote
    model = assess_model(
        str(name), workspace.folder, here=here, sent=features.sends_model, config=inputs.config
    )
    if model.state == "unknown" and site.rented and model.fix is not None and not model.files:
        model = replace(model, state="refused")  # a machine that is not rented yet has no files
    if model.state == "unknown" and model.on_hub:
        model = _ask_hub(str(name), settings, model, elsewhere=site.remote and not site.rented)
    return model


def _model_checks(model: ModelAssessment | None) -> Iterator[Check]:
    states: Mapping[str, CheckState] = {"fine": "fine", "unknown": "warning", "refused": "missing"}
    if model is not None:
        yield Check("model", states[model.state], clean_line(model.text, 400), model.fix)


def _ask_hub(
    name: str, settings: Settings, model: ModelAssessment, *, elsewhere: bool
) -> ModelAssessment:
    """Assess a model by what the Hub says.

    `elsewhere`: it is trained on a machine of the user's, which may ask another Hub.
    """
    from hudtui.core.tasks.hub import has_model, use_hub_of

    use_hub_of(settings)
    known, shown = has_model(name, settings.get("HF_TOKEN")), clean_line(name, 100)
    if known is None:
        return model
    if known:
        return replace(model, state="fine", text=f"{shown}, on the Hub")
    text = f"the Hub has no model {shown} that can be read from here"
    fix = (
        "Is the name right? A private model needs a token that may read it: hudtui settings set "
        "HF_TOKEN"
    )
    return replace(model, state="unknown" if elsewhere else "refused", text=text, fix=fix)


# --- environments ---------------------------------------------------------------------------------


class Servers(NamedTuple):
    """An `mcp_config` of the tasks on this computer."""

    config: Mapping[str, Any]
    """With the values of its variables."""
    variables: tuple[str, ...]
    """Names of all variables in it."""
    unset: tuple[str, ...]
    """Names of those without a value."""

    @property
    def named(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the name and the configuration of each server."""
        for name, server in self.config.items():
            yield clean_line(str(name), 60), server if isinstance(server, Mapping) else {}


def _server_configs(inputs: Inputs) -> Collection[Mapping[str, Any]]:
    """Return the `mcp_config`s of the tasks; one that several tasks share stands there once."""
    return {id(task.mcp_config): task.mcp_config for task in inputs.tasks}.values()


def _servers(inputs: Inputs, settings: Settings) -> Iterator[Servers]:
    """Yield the distinct `mcp_config` values of the tasks."""
    lookup = task_lookup(settings)
    for config in _server_configs(inputs):
        filled, unset = substitute_tree(config, lookup)
        lacking_here = tuple(name for name in unset if name not in EPISODE_VARIABLES)
        yield Servers(filled, tuple(variable_names(config)), lacking_here)


class Route(NamedTuple):
    """The way of a run's machine to a server of the tasks."""

    state: CheckState
    text: str
    port: int | None = None
    """The port of this computer that the server listens on."""


def _routes(servers: Sequence[Servers]) -> Iterator[Route]:
    """Yield the distinct ways to the servers of the tasks."""
    known: set[str] = set()
    for name, server in (pair for one in servers for pair in one.named):
        route = _route(name, server)
        if route.text not in known:
            known.add(route.text)
            yield route


def _route(name: str, server: Mapping[str, Any]) -> Route:
    """Return how the run's machine reaches a server."""
    url, command = server.get("url"), str(server.get("command") or "")
    if isinstance(url, str) and not command:
        return _route_to(name, url)
    ours = any(str(arg).startswith("hudtui.envs.") for arg in server.get("args") or ())
    if not ours or not Path(command).name.startswith("python"):
        return Route(
            "warning",
            f"{name}: started on the machine by `{clean_line(command, 60)}`, which must be "
            "installed there",
        )
    text = f"{name}: started on the machine (hudtui is uploaded)"
    if command in ("python", "python3", sys.executable):
        return Route("fine", text)
    return Route("warning", f"{text}; {clean_line(command, 80)} must be installed there")


def _route_to(name: str, url: str) -> Route:
    """Return how the run's machine reaches a server at an address."""
    if not _is_here(url):
        place = clean_line(url.partition("://")[2].partition("/")[0], 80)
        return Route("fine", f"{name}: at {place}, as from this computer")
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme in ("https", "wss") else 80)
    except ValueError:
        return Route(
            "warning", f"{name}: the address {clean_line(parts.netloc, 80)} has no valid port"
        )
    way = (
        f"port {port} of this computer, through a tunnel: hudtui has to stay open until the run "
        "ends"
    )
    return Route("warning", f"{name}: {way}", port)


def _is_here(url: str) -> bool:
    try:
        return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
    except ValueError:
        return False


def _login_checks(servers: Sequence[Servers]) -> Iterator[Check]:
    """Check which servers require a login: logins stay on this computer."""
    from hudtui.core.environment.login_file import read_login

    for name, server in (pair for one in servers for pair in one.named):
        url = server.get("url")
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            continue
        if server.get("command"):
            continue  # no login is sent to a program that is started
        headers = server.get("headers")
        if isinstance(headers, Mapping) and any(
            str(header).lower() == "authorization" for header in headers
        ):
            continue
        if read_login(url) is None:
            continue
        shown = clean_line(mask_url(url), 120)
        text = f"{name}: {shown} requires a login, and your login is not sent to the machine"
        fix = "Set a key as a header in the mcp_config, or run on this computer. "
        yield missing("environment", text, f"{fix}`hudtui env logout {shown}` removes the login.")


# --- folders of episodes --------------------------------------------------------------------------


def _templates(
    inputs: Inputs, settings: Settings, *, remote: bool
) -> tuple[tuple[PlanFile, ...], tuple[Check, ...]]:
    """Return the templates of the episodes' folders as files of the run, and what is wrong there.

    A run on this computer finds them in the project.
    """
    from hudtui.core.environment.episode_place import (
        CARRIED,
        find_template,
        template_files,
        template_key,
        template_names,
    )

    lookup, files, checks = task_lookup(settings), list[PlanFile](), list[Check]()
    configs = _server_configs(inputs)
    names = dict.fromkeys(name for config in configs for name in template_names(config, lookup))
    for name in names:
        try:
            folder = find_template(name, settings.folder)
            paths = template_files(folder)
            if not remote:
                continue
            if not paths:
                raise InputError(
                    f"the template {name} holds no file, and only files are sent to the machine",
                    fix="Write ${EPISODE_DIR} alone: every episode then has an empty folder.",
                )
            place = f"{CARRIED}/{template_key(name)}"
            files += [PlanFile(f"{place}/{path}", file_ref(folder / path)) for path in paths]
        except InputError as error:
            checks.append(refused("environment", error))
    return tuple(files), tuple(checks)


def _sharing_checks(inputs: Inputs, settings: Settings, workspace: Workspace) -> Iterator[Check]:
    """Warn of what episodes share, although several are played at once."""
    from hudtui.core.environment.sharing import shared_places

    configs, lookup = _server_configs(inputs), task_lookup(settings)
    shared = shared_places(configs, settings.folder, lookup, workspace.platform)
    for text in shared[:_SHOWN_ROUTES]:
        yield warning("isolation", text)


# --- images ---------------------------------------------------------------------------------------


def _image_checks(inputs: Inputs, servers: Sequence[Servers], *, remote: bool) -> Iterator[Check]:
    """Check images that exist, or may exist, only on this computer."""
    images = _images(servers)
    if inputs.local_image is not None:
        yield _local_image(inputs.local_image, images, remote=remote)
    yield from _other_images(inputs, images, remote=remote)


def _images(servers: Sequence[Servers]) -> dict[str, bool]:
    """Return the images of the tasks.

    True for images that run on the tasks' machine or behind one of its addresses.
    """
    from hudtui.core.environment.servers import parse_mcp_config

    images: dict[str, bool] = {}
    for one in servers:
        try:
            parsed = parse_mcp_config(one.config, "mcp_config")
        except InputError:
            continue  # the check of the tasks has reported the error
        for server in parsed:
            if server.image is not None:
                beside = server.url is None or _is_here(server.url)
                images[server.image] = images.get(server.image, True) and beside
    return images


def _local_image(lock: LockFile, images: Mapping[str, bool], *, remote: bool) -> Check:
    """Check the use of the lock file's image, which exists only on this computer."""
    from hudtui.core.environment.engine import lacks_image

    image = clean_line(lock.image_here or "", 120)
    ours = [beside for name, beside in images.items() if name in lock.images]
    if lock.image_here is not None and lacks_image(lock.image_here):
        text = (
            f"the lock file's image {image} is in no registry, and the container engine here does "
            "not have it either"
        )
        fix = "Build it again, or name an image in a registry in the lock file."
        return missing("image", text, fix) if ours else warning("image", text, fix)
    if not ours:
        return fine("image", f"{image} exists only on this computer; the tasks do not use it")
    if remote or not all(ours):
        text = f"the environment's image {image} exists only on this computer, and the tasks use it"
        fix = "Push it to a registry that the machine can reach: --push-image ghcr.io/my-org/"
        return missing("image", text, fix, remedy="push-image", options=(image,))
    return fine("image", f"{image}, which exists only on this computer")


def _other_images(inputs: Inputs, images: Mapping[str, bool], *, remote: bool) -> Iterator[Check]:
    """Check images that tasks name themselves and that may exist only on this computer."""
    from hudtui.core.environment.engine import is_built_locally
    from hudtui.core.lockfile import is_local_image

    known = inputs.local_image.images if inputs.local_image is not None else frozenset()
    for name, beside in images.items():
        if name in known or not is_local_image(name) or (beside and not remote):
            continue
        instead = clean_line(inputs.image or "its name in the registry", 120)
        text = f"tasks use the image {clean_line(name, 120)}, whose name belongs to no registry"
        fix = (
            f"Push it, and put {instead} into the tasks. Without an mcp_config they get the lock "
            "file's image."
        )
        # The platform cannot pull this image. A machine may find the name on Docker Hub, such as
        # `node`.
        certain = not beside or is_built_locally(name)
        yield missing("image", text, fix) if certain else warning("image", text, fix)


# --- keys -----------------------------------------------------------------------------------------


def _sent(work: Work, inputs: Inputs, servers: Sequence[Servers], settings: Settings) -> Sent:
    """Return the settings that a run on another machine needs there."""
    trains = work.request.features.trains
    asks = not trains or work.judge is not None
    wanted = [
        *(name for one in servers for name in one.variables),
        *_telemetry_names(inputs, settings),
        settings.platform.own_variable("CLIENT_TIMEOUT"),
        *(("OPENAI_API_KEY", "OPENAI_BASE_URL") if asks else ()),
        *(_SERVICES if trains else ()),
        *task_judge_names(inputs.tasks, settings),
    ]
    secrets, variables = [], {}
    for name in dict.fromkeys(wanted):
        value = settings.lookup(name)
        if not value or name in OWN_VARIABLES or settings.origin(name) == "default":
            continue
        if settings.is_secret(name):
            secrets.append(name)
        else:
            variables[name] = value
    return Sent(tuple(secrets), variables)


def _telemetry_names(inputs: Inputs, settings: Settings) -> tuple[str, ...]:
    """Return the settings that the machine needs to report the run's job to the platform.

    Empty if it is not reported.
    """
    from hudtui.core.rollouts.telemetry import sends_telemetry

    if inputs.config is None or not inputs.config.job or not sends_telemetry(settings):
        return ()
    platform = settings.platform
    return platform.key_variable, *(
        platform.url_variable(service) for service in ("telemetry", "api", "web")
    )


def _key_checks(
    work: Work, site: RunSite, servers: Sequence[Servers], sent: Sent, settings: Settings
) -> Iterator[Check]:
    """Check which settings the run needs, and say which are sent to the machine."""
    request = work.request
    for name in dict.fromkeys(name for one in servers for name in one.unset):
        yield lacking(settings, name, ", and the tasks' servers need it")
    trains = request.features.trains
    asks_openai = (
        not trains and (request.policy or "").startswith("openai:") and not request.base_url
    )
    if asks_openai and settings.get("OPENAI_API_KEY") is None:
        yield lacking(settings, "OPENAI_API_KEY")
    if words := settings.waiting_words():
        yield warning("trust", words, "hudtui trust", remedy="trust")
    yield from _placeholders(
        dict.fromkeys(name for one in servers for name in one.variables), settings
    )
    if sent.secrets:
        how = "sent to the machine on standard input, and not written to a file"
        yield fine("keys", f"{how}: {', '.join(sent.secrets)}")
    if site.remote and trains and settings.get("WANDB_API_KEY") is None:
        lack, fix = settings.lacking("WANDB_API_KEY")
        text = (
            f"WANDB_API_KEY {lack}: metrics are kept in the run, and not sent to Weights & Biases"
        )
        yield warning("keys", text, fix)


def _placeholders(names: Iterable[str], settings: Settings) -> Iterator[Check]:
    """Check for keys with a placeholder instead of a value.

    Such is the sample text in a `.env` file.
    """
    from hudtui.core.settings import check_setting_value

    for name in names:
        key, value = settings.keys.get(name), settings.get(name)
        problem = (
            check_setting_value(key, value)
            if key is not None and key.secret and value is not None
            else None
        )
        if problem is not None:
            text = f"{name}: {problem}; the tasks' servers need it"
            yield missing(
                "keys", text, f"hudtui settings set {name}", remedy="set-key", options=(name,)
            )
