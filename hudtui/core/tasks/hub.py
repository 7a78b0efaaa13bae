"""The Hugging Face Hub through its own client: errors for a user, and downloads of datasets."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hudtui.core.errors import HudtuiError, InputError, Location
from hudtui.core.http import keeps_secrets, past_proxies, retry_after
from hudtui.core.tasks.read import TaskSource
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub import HfApi

    from hudtui.core.settings import Settings

_PUBLIC_HOST = "huggingface.co"
_TIMEOUT = 60.0
"""Seconds without an answer after which a request has failed. The client itself sets no limit."""
_lock = threading.Lock()
_uses: list[object] = []
"""Uses that are going on: the first opens the connections of all, and the last gives the library
its own back."""
_hooks: list[dict[str, list[Callable[..., Any]]]] = []
"""The event hooks of the library's own client, which make its requests known to the Hub; empty
before the first use."""
_chunks: list[bool] = []
"""True if the client was told to use no store of chunks, before the uses that are going on; empty
without a use."""
_models: dict[tuple[str, str, str | None], tuple[float, bool | None]] = {}
"""Answers of `has_model`, each with the monotonic time until which it holds."""
_KEPT = 120.0
_QUICK = 5.0
"""Seconds that the Hub has for a question which a form waits for."""


class HubError(HudtuiError):
    """The Hub refused or could not be reached, or another server answered in its place."""

    exit_code = 7


class HubRateLimited(Exception):
    """The Hub limits requests (429).

    Attributes:
        seconds: Seconds to wait; None if the Hub does not say.
    """

    def __init__(self, seconds: float | None) -> None:
        super().__init__(f"busy for {seconds} s")
        self.seconds = seconds


class _NotTheHub(Exception):
    """An address that returns JSON returned a web page."""


def endpoint() -> str:
    """Return the address of the Hub."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or f"https://{_PUBLIC_HOST}"


def use_hub_of(settings: Settings) -> None:
    """Set the settings' address for the Hub's client.

    The client reads it from the environment only.
    """
    address = settings.get("HF_ENDPOINT")
    if address and settings.origin("HF_ENDPOINT") not in ("environment", "default"):
        os.environ["HF_ENDPOINT"] = address


@contextlib.contextmanager
def hub_client(token: str | None = None) -> Iterator[HfApi]:
    """Open the Hub's client with time limits and without output on the terminal.

    It shows no progress bars and log lines.

    Args:
        token: Access token; None: the client's own (HF_TOKEN, its login). An address that would get
            it in the clear gets none.

    Raises:
        Busy: While in use: the Hub answered 429.
    """
    import httpx2
    from huggingface_hub import HfApi, constants, get_session, set_client_factory
    from huggingface_hub.utils.tqdm import disable_progress_bars

    def watch(response: httpx2.Response) -> None:
        if response.status_code == 429:
            raise HubRateLimited(_seconds(response.headers))
        kind = response.headers.get("content-type", "")
        if "text/html" in kind and (
            response.url.path.startswith("/api/") or "/info/lfs/" in response.url.path
        ):
            raise _NotTheHub(
                f"{response.request.method} {response.url.host}{response.url.path}: "
                f"{response.status_code}, a web page"
            )

    def usual() -> httpx2.Client:
        return httpx2.Client(event_hooks=_hooks[0], follow_redirects=True, timeout=None)

    def client() -> httpx2.Client:
        hooks = {**_hooks[0], "response": [*_hooks[0].get("response", []), watch]}
        direct = past_proxies(endpoint()) or None
        return httpx2.Client(
            event_hooks=hooks, follow_redirects=True, timeout=_TIMEOUT, mounts=direct
        )

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    disable_progress_bars()
    # The client of the library is the same for the whole process: it keeps the time limits until
    # the last use is over.
    with _lock:
        if not _hooks:
            _hooks.append(get_session().event_hooks)
        if not _uses:
            _chunks.append(constants.HF_HUB_DISABLE_XET)
            set_client_factory(
                client
            )  # closes the client before: never in the middle of another use
        _uses.append(use := object())
        if urlsplit(endpoint()).hostname not in (_PUBLIC_HOST, None):
            constants.HF_HUB_DISABLE_XET = True  # a mirror has no chunk store behind it
    try:
        yield HfApi(endpoint=endpoint(), token=token if keeps_secrets(endpoint()) else False)
    finally:
        with _lock:
            _uses.remove(use)
            if not _uses:
                set_client_factory(usual)
                constants.HF_HUB_DISABLE_XET = _chunks.pop()


def _seconds(headers: Any) -> float | None:
    """Return the seconds to wait according to the headers of a 429."""
    named = retry_after(headers)
    if named is not None:
        return named
    reset = re.search(r"\bt=(\d+)", headers.get("ratelimit", ""))
    return float(reset[1]) if reset else None


@contextlib.contextmanager
def hub_errors(doing: str, repo: str, *, writing: bool = False) -> Iterator[None]:
    """Turn exceptions of the client into errors for a user.

    Args:
        doing: What is being done, e.g. `reading`.
        repo: Id of the dataset.
        writing: Whether write access is needed.

    Raises:
        HubError: The Hub, or another server in its place, refused.
        InputError: The Hub has no such dataset, revision or name.
    """
    try:
        yield
    except (HudtuiError, HubRateLimited):
        raise
    except Exception as error:
        made = explain_error(error, doing, repo, writing)
        if made is None:
            raise
        raise made from None


def explain_error(
    error: Exception, doing: str, repo: str, writing: bool = False
) -> HudtuiError | None:
    """Return the error for a user for an exception of the Hub's client.

    None for any other exception.
    """
    import httpx2
    from huggingface_hub import errors

    host = urlsplit(endpoint()).hostname or endpoint()
    where = Location(repo)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return HubError(
            f"{doing} needs the network, and HF_HUB_OFFLINE is set",
            fix="Unset HF_HUB_OFFLINE, or stay local.",
            where=where,
        )
    if isinstance(error, _NotTheHub) or (
        isinstance(error, ValueError) and "JSON" in type(error).__name__
    ):
        return HubError(
            f"something else than the Hub answered for {host}: a proxy, a firewall or a sign-in "
            "page of the network",
            why=clean_line(str(error), 200),
            fix=(
                "Open the address in a browser, or set HTTPS_PROXY and HF_ENDPOINT for your "
                "network."
            ),
            where=where,
        )
    if isinstance(error, errors.HfHubHTTPError):
        return _refused(error, doing, host, where, writing)
    if isinstance(error, errors.HFValidationError):
        return InputError(
            "this is not a name of a dataset", why=clean_line(str(error), 200), where=where
        )
    if isinstance(error, errors.LocalTokenNotFoundError):
        return HubError(
            f"{doing} needs a token, and there is none", fix=TOKEN, where=where, lacks="HF_TOKEN"
        )
    if isinstance(error, errors.LocalEntryNotFoundError | httpx2.TransportError | ConnectionError):
        return HubError(
            f"{host} cannot be reached",
            why=clean_line(str(error) or type(error).__name__, 200),
            fix="Check the network and HTTPS_PROXY, then try again; nothing is lost.",
            where=where,
        )
    if isinstance(error, errors.EntryNotFoundError):
        return InputError("the dataset lacks a file", why=clean_line(str(error), 200), where=where)
    if isinstance(
        error, OSError | RuntimeError
    ):  # a full disk under the cache; the chunk store's own client
        return HubError(
            f"{doing} failed",
            why=clean_line(getattr(error, "strerror", None) or str(error), 200),
            where=where,
        )
    return None


TOKEN = (
    "Make one at https://huggingface.co/settings/tokens and put it into HF_TOKEN, or run `hf auth "
    "login`."
)


def _refused(error: Any, doing: str, host: str, where: Location, writing: bool) -> HudtuiError:
    from huggingface_hub import errors

    status = error.response.status_code
    said = clean_line(error.server_message or "", 200) or None
    page = "text/html" in error.response.headers.get("content-type", "")
    if page and status not in (401, 403, 404):
        why = f"HTTP {status} with a web page"
        return HubError(
            f"{host} answered with a web page instead of data: a proxy, or it is down",
            why=why,
            where=where,
        )
    if isinstance(error, errors.GatedRepoError):
        return HubError(
            "this dataset is gated: its owner must grant you access",
            why=said,
            where=where,
            lacks="HF_TOKEN",
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return InputError("the dataset has no such revision", why=said, where=where)
    namespace = where.file.partition("/")[0]
    if status == 401 and (writing or not isinstance(error, errors.RepositoryNotFoundError)):
        return HubError(
            "the Hub does not accept the token (401)",
            why=said,
            fix=TOKEN,
            where=where,
            lacks="HF_TOKEN",
        )
    if status == 403:
        fix = (
            f"Use a token with write access to {namespace}, or another name."
            if writing
            else "Use a token with access to it."
        )
        return HubError(
            f"the token does not allow {doing} (403)",
            why=said,
            fix=fix,
            where=where,
            lacks="HF_TOKEN",
        )
    if status in (401, 404):
        fix = "Check its name; for a private one a token is needed (HF_TOKEN or --token)."
        what = "the Hub has no such dataset, or does not show it to you"
        return InputError(what, why=said, fix=fix, where=where, lacks="HF_TOKEN")
    if status in (409, 412):
        fix = "Run the command again; what was uploaded already is not uploaded twice."
        return HubError(
            f"the Hub reports a conflict ({status}): someone else changed the dataset",
            why=said,
            fix=fix,
            where=where,
        )
    if status == 429:
        return rate_limit_error(None, doing, where.file)
    if status >= 500:
        fix = "Try again in a few minutes; what was uploaded already is not uploaded twice."
        return HubError(
            f"the Hub has trouble of its own ({status})", why=said, fix=fix, where=where
        )
    return HubError(
        f"the Hub refused {doing} ({status})", why=said or clean_line(str(error), 200), where=where
    )


def rate_limit_error(seconds: float | None, doing: str, repo: str) -> HubError:
    """Return the error for work that the Hub's limit on requests ended."""
    when = f"in {seconds:.0f} s" if seconds is not None else "in a few minutes"
    return HubError(
        f"the Hub limits requests (429), and {doing} has to wait",
        fix=f"Run the same command again {when}; what was uploaded already is not uploaded twice.",
        where=Location(repo),
    )


def has_model(name: str, token: str | None = None) -> bool | None:
    """Return whether the Hub has a model that this token may read; None if the Hub cannot be asked.

    Waits some seconds at most. The answer is kept for a while, because a form asks for it again
    with each change.
    """
    key = (endpoint(), name, token)
    until, answer = _models.get(key, (0.0, None))
    if time.monotonic() < until:
        return answer
    import httpx2
    from huggingface_hub import errors

    try:
        with hub_client(token) as api:
            api.model_info(name, timeout=_QUICK)
        answer = True
    except errors.GatedRepoError:
        answer = True
    except errors.RepositoryNotFoundError:
        answer = False
    except (
        errors.HfHubHTTPError,
        errors.OfflineModeIsEnabled,
        HubRateLimited,
        _NotTheHub,
        httpx2.HTTPError,
        OSError,
        ValueError,
    ):
        answer = None
    _models[key] = time.monotonic() + _KEPT, answer
    return answer


def download_files(source: TaskSource, *, token: str | None = None) -> TaskSource:
    """Download a dataset into the cache of the Hub's client; return it as a source of files.

    Raises:
        InputError: There is no such dataset, revision or split, or no file in it can hold tasks.
        HubError: The Hub cannot be reached or refuses.
    """
    assert source.repo is not None
    repo = source.repo
    try:
        with hub_client(token) as api, hub_errors("reading", repo):
            info = api.dataset_info(repo, revision=source.revision)
            names = [sibling.rfilename for sibling in info.siblings or []]
            chosen = pick_files(names, _patterns(info.card_data), source)
            files = []
            for name in chosen:
                files.append(
                    Path(api.hf_hub_download(repo, name, repo_type="dataset", revision=info.sha))
                )
    except HubRateLimited as busy:
        raise rate_limit_error(busy.seconds, "reading", repo) from None
    return TaskSource(
        source.name, "files", repo=repo, revision=info.sha, split=source.split, files=tuple(files)
    )


def _patterns(card: Any) -> dict[str, list[str]]:
    """Return split -> patterns of file names, from a configuration of the dataset card.

    The configuration is the default one, or else the first.
    """
    configs = (card or {}).get("configs") if hasattr(card, "get") else None
    if not isinstance(configs, list):
        return {}
    usable = [config for config in configs if isinstance(config, dict) and config.get("data_files")]
    config = next(
        (
            config
            for config in usable
            if config.get("default") or config.get("config_name") == "default"
        ),
        None,
    )
    config = config or (usable[0] if usable else None)
    if config is None:
        return {}
    entries = config["data_files"]
    if not isinstance(entries, list):
        entries = [{"split": "train", "path": entries}]
    made: dict[str, list[str]] = {}
    for entry in entries:
        entry = entry if isinstance(entry, dict) else {"split": "train", "path": entry}
        paths = entry.get("path")
        made.setdefault(str(entry.get("split", "train")), []).extend(
            map(str, paths if isinstance(paths, list) else [paths])
        )
    return made


def pick_files(
    names: Sequence[str], patterns: dict[str, list[str]], source: TaskSource
) -> list[str]:
    """Return the files of a dataset that hold the wanted split.

    Args:
        names: All its files.
        patterns: Split -> patterns of file names, from its card; may be empty.
        source: Source with the split; `train`, or the only one, when it names none.

    Raises:
        InputError: There is no such split, or no file that can hold tasks.
    """
    from hudtui.core.tasks.read import choose_split, split_from_name

    if patterns:
        split = choose_split(list(patterns), source)
        found = sorted(
            name for name in names if any(fnmatch(name, pattern) for pattern in patterns[split])
        )
        if found:
            return found
    for ending in (r"\.parquet", r"\.jsonl(\.gz|\.zst)?", r"\.json"):
        files = sorted(
            name
            for name in names
            if re.search(ending + "$", name) and not Path(name).name.startswith(".")
        )
        if files:
            splits = {name: split_from_name(name.rpartition("/")[2]) for name in files}
            known = list(dict.fromkeys(splits.values()))
            if len(files) == 1 and source.split is None:
                return files
            split = choose_split(known, source)
            return [name for name in files if splits[name] == split]
    raise InputError(
        "this dataset holds no Parquet, JSONL or JSON files",
        why=f"It has {', '.join(clean_line(name, 60) for name in names[:5]) or 'no files at all'}.",
        where=Location(source.name),
    )
