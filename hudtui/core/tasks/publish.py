"""Pushing a dataset to the Hub in one commit, and its dataset card.

Pushing the same dataset again changes nothing. Files are compared by content. A file that was
uploaded before a push was interrupted is not uploaded again, and a push is recognised as done if
its commit arrived but the answer did not.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import InputError, Location
from hudtui.core.events import Progress
from hudtui.core.tasks.hub import (
    TOKEN,
    HubError,
    HubRateLimited,
    endpoint,
    explain_error,
    hub_client,
    hub_errors,
    rate_limit_error,
)
from hudtui.core.tasks.task import check_name
from hudtui.core.text import clean_line, plural

if TYPE_CHECKING:
    from huggingface_hub import HfApi

LONGEST_WAIT = 300.0
"""Seconds that a push waits when the Hub limits requests. A push that would have to wait longer
stops with an error."""
TRIES = 5
"""Attempts of a push after a busy Hub, a lost connection or a conflict."""
FIRST_WAIT = 1.0
"""Seconds before the second attempt. Each further attempt waits twice as long."""

_SHARD = re.compile(r"data/[\w.]+-\d{5}-of-\d{5}\.parquet")


@dataclass(frozen=True)
class Pushed:
    """A dataset on the Hub."""

    repo: str
    url: str
    """Address of its page."""
    commit: str | None
    """The new commit; None if nothing had changed."""
    private: bool = False


@dataclass(frozen=True)
class RepoStatus:
    """The repository of a dataset before a push."""

    repo: str
    """Name with its owner."""
    exists: bool
    private: bool
    """True if the repository is private, or will be."""


def repo_status(name: str, *, private: bool | None = None, token: str | None = None) -> RepoStatus:
    """Return the state of the repository that a push under a name would change. Changes nothing.

    Args:
        name: As `push` takes it.
        private: As `push` takes it.
        token: As `push` takes it.

    Raises:
        HubError: The Hub refuses or cannot be reached, there is no token, or the dataset is public
            and a private one is wanted.
        InputError: The name is not valid.
    """
    check_name(name)
    with hub_client(token) as api:
        _needs_token(token, name)
        try:
            with hub_errors("asking", name):
                repo = _own(api, name)
                content = _look(api, repo)
        except HubRateLimited as busy:
            raise rate_limit_error(busy.seconds, "asking", name) from None
        except _RetryableError as again:
            raise explain_error(again.reason, "asking", name) or again.reason from None
    if content is None:
        return RepoStatus(repo, False, private is not False)
    _refuse_public(content, private, repo)
    return RepoStatus(repo, True, content.private)


@dataclass(frozen=True)
class _RepoContent:
    """The content of a repository."""

    head: str
    private: bool
    files: dict[str, str | None]
    """Path -> SHA-256 of a large file, Git hash of a small one."""


def push(
    files: dict[str, Path],
    facts: CardFacts,
    *,
    private: bool | None = None,
    token: str | None = None,
) -> Iterator[Progress | Pushed]:
    """Upload a dataset step by step; the last step is the result.

    Args:
        files: Path in the repository (`data/train-00000-of-00001.parquet`) -> file.
        facts: Content of the card. `facts.repo` is the repository; a name without a slash is the
            user's own.
        private: True: the repository must be private. False: a new repository is public. None: a
            new repository is private, an existing one stays as it is.
        token: Token with write access; None: the client's own.

    Raises:
        HubError: The Hub refuses or cannot be reached, or the repository is public and must be
            private.
        InputError: The name is not valid.
    """
    check_name(facts.repo)
    tries = 0
    with hub_client(token) as api:
        _needs_token(token, facts.repo)
        while True:
            tries += 1
            try:
                with hub_errors("pushing", facts.repo, writing=True):
                    yield from _once(api, files, facts, private)
                return
            except HubRateLimited as busy:
                if tries >= TRIES or (busy.seconds or 0) > LONGEST_WAIT:
                    raise rate_limit_error(busy.seconds, "pushing", facts.repo) from None
                yield from _wait(
                    busy.seconds if busy.seconds is not None else FIRST_WAIT * 2**tries,
                    "the Hub limits requests",
                )
            except _RetryableError as again:
                if tries >= TRIES:
                    error = explain_error(again.reason, "pushing", facts.repo, writing=True)
                    raise error or again.reason from None
                yield from _wait(FIRST_WAIT * 2 ** (tries - 1), again.words)


def _needs_token(token: str | None, name: str) -> None:
    if token is None:
        from huggingface_hub import get_token

        if get_token() is None:
            raise HubError(
                "pushing needs a token, and there is none", fix=TOKEN, where=Location(name)
            )


def _own(api: HfApi, name: str) -> str:
    """Return a name with its owner, by default the user."""
    return name if "/" in name else check_name(f"{api.whoami()['name']}/{name}")


def _refuse_public(content: _RepoContent, private: bool | None, repo: str) -> None:
    if private and not content.private:
        raise HubError(
            "this dataset is public already, and a private one is wanted; nothing was pushed",
            fix=f"Make it private at {endpoint()}/datasets/{repo}/settings, or take another name.",
            where=Location(repo),
        )


class _RetryableError(Exception):
    """A step failed and may succeed the next time."""

    def __init__(self, reason: Exception, words: str) -> None:
        super().__init__(words)
        self.reason, self.words = reason, words


def _wait(seconds: float, why: str) -> Iterator[Progress]:
    """Wait in short steps, so that the caller can stop between them."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        yield Progress("wait", f"{why}; continuing in {left:.0f} s")
        time.sleep(min(1.0, left))


def _once(
    api: HfApi, files: dict[str, Path], facts: CardFacts, private: bool | None
) -> Iterator[Progress | Pushed]:
    repo = facts.repo
    if "/" not in repo:
        yield Progress("push", "asking the Hub who you are")
        repo = _own(api, repo)
    yield Progress("push", f"looking at {repo}")
    content = _look(api, repo)
    if content is None:
        yield Progress("push", f"making {repo}")
        made = _trying(
            lambda: api.create_repo(
                repo, repo_type="dataset", private=private is not False, exist_ok=True
            )
        )
        repo = made.repo_id
        content = _look(api, repo)
        if content is None:
            raise HubError(
                "the Hub made the dataset and does not show it",
                fix="Try again in a minute.",
                where=Location(repo),
            )
    _refuse_public(content, private, repo)
    text = dataset_card(replace(facts, repo=repo), _old_card(api, repo, content))
    readme = text.encode()
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    fresh: list[CommitOperationAdd] = []
    for name, path in files.items():
        if content.files.get(name) != _sha256(path):
            fresh.append(CommitOperationAdd(name, path))
    stale = [name for name in content.files if _SHARD.fullmatch(name) and name not in files]
    operations: list[Any] = [*fresh, *(CommitOperationDelete(name) for name in stale)]
    if content.files.get("README.md") not in (
        _git_hash(readme),
        hashlib.sha256(readme).hexdigest(),
    ):
        operations.append(CommitOperationAdd("README.md", readme))
    url = f"{endpoint()}/datasets/{repo}"
    if not operations:
        yield Pushed(repo, url, None, content.private)
        return
    size = sum(operation.upload_info.size for operation in fresh)
    done = 0
    for operation in fresh:
        yield Progress("upload", operation.path_in_repo, done, size)
        _trying(lambda one=operation: api.preupload_lfs_files(repo, [one], repo_type="dataset"))
        done += operation.upload_info.size
    yield Progress("upload", "committing", size, size)
    total = sum(facts.splits.values())
    commit = _trying(
        lambda: api.create_commit(
            repo,
            operations,
            commit_message=f"{plural(total, 'task')} from {facts.source}",
            repo_type="dataset",
            parent_commit=content.head,
        )
    )
    yield Pushed(repo, url, commit.oid, content.private)


def _trying(step: Any) -> Any:
    """Run a step that changes the repository.

    Raises:
        _RetryableError: The result is unknown (the connection broke), or another commit was faster.
    """
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError

    try:
        try:
            return step()
        except RuntimeError as error:  # how the client wraps whatever went wrong with one file
            cause = error.__cause__
            if not isinstance(cause, Exception):
                raise
            raise cause from None
    except (httpx2.TimeoutException, httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
        raise _RetryableError(error, "the connection broke") from None
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (409, 412, 428) or status >= 500:
            words = (
                "someone else changed the dataset"
                if status < 500
                else f"the Hub has trouble of its own ({status})"
            )
            raise _RetryableError(error, words) from None
        raise


def _look(api: HfApi, repo: str) -> _RepoContent | None:
    """Return the content of a repository; None if there is none that this token may see."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    try:
        info = api.dataset_info(repo, files_metadata=True)
    except RepositoryNotFoundError as error:
        if (
            error.response.status_code == 401
            and "credential" in (error.server_message or "").lower()
        ):
            raise
        return None
    except (httpx2.TimeoutException, httpx2.RemoteProtocolError) as error:
        raise _RetryableError(error, "the connection broke") from None
    except HfHubHTTPError as error:
        if error.response.status_code >= 500:
            raise _RetryableError(
                error, f"the Hub has trouble of its own ({error.response.status_code})"
            ) from None
        raise
    files = {
        sibling.rfilename: sibling.lfs.sha256 if sibling.lfs is not None else sibling.blob_id
        for sibling in info.siblings or []
    }
    return _RepoContent(info.sha or "main", bool(info.private), files)


def _old_card(api: HfApi, repo: str, content: _RepoContent) -> str | None:
    if "README.md" not in content.files:
        return None
    path = api.hf_hub_download(repo, "README.md", repo_type="dataset", revision=content.head)
    return Path(path).read_text(encoding="utf-8", errors="replace")


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            "this file cannot be read", why=error.strerror or str(error), where=Location(str(path))
        ) from None


def _git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()


# -- dataset card
# --------------------------------------------------------------------------------------------------

CARD_BEGIN = "<!-- hudtui: begin -->"
CARD_END = "<!-- hudtui: end -->"

_MEANING = {
    "id": "name of the task, unique in the dataset",
    "prompt": "what the agent is asked to do",
    "mcp_config": (
        "JSON: the MCP servers of the environment; variables such as `$HUD_API_KEY` get values "
        "when it is played"
    ),
    "setup_tool": 'JSON: the call (or calls) that prepare the environment; `"{}"` for none',
    "evaluate_tool": "JSON: the call (or calls) that judge the outcome",
    "metadata": "JSON: anything else about the task",
    "evaluate": (
        "JSON: what is expected after the last turn, or which model judges by which rubric, in "
        "place of `evaluate_tool`"
    ),
}


@dataclass(frozen=True)
class CardFacts:
    """The facts on a dataset card."""

    repo: str
    splits: Mapping[str, int]
    """Tasks by split."""
    columns: tuple[str, ...]
    source: str
    """Name of the source, without the folders of this machine."""
    image: str | None = None
    duplicated: int = 0
    skipped: int = 0
    """Unusable tasks of the source."""


def dataset_card(facts: CardFacts, old: str | None = None) -> str:
    """Return the text of README.md. It has no dates, so the same tasks give the same card.

    Args:
        facts: Content of our part.
        old: The existing card. Its text and its other metadata stay; only our part is replaced.
    """
    head, body = _card_parts(old or "")
    if not body.strip():
        body = f"# {facts.repo.rpartition('/')[2]}\n\n{CARD_BEGIN}\n{CARD_END}\n"
    ours = f"{CARD_BEGIN}\n{_card_section(facts)}{CARD_END}"
    if CARD_BEGIN in body and CARD_END in body.partition(CARD_BEGIN)[2]:
        before, _, rest = body.partition(CARD_BEGIN)
        body = before + ours + rest.partition(CARD_END)[2]
    else:
        body = f"{body.rstrip()}\n\n{ours}\n"
    return f"---\n{_card_metadata(facts, head)}---\n\n{body.lstrip()}"


def _card_parts(text: str) -> tuple[str, str]:
    """Return the metadata of a card (YAML, without its rules) and its body."""
    match = re.match(
        r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", text, re.DOTALL | re.MULTILINE
    )
    return (match[1], text[match.end() :]) if match else ("", text)


def _card_metadata(facts: CardFacts, old: str) -> str:
    """Return the YAML at the top with the splits and tags. Other metadata stays."""
    import io

    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML()
    yaml.width = 4096
    try:
        data = yaml.load(old) if old.strip() else None
    except YAMLError:
        data = None
    if not isinstance(data, dict):
        data = {}
    data.setdefault("tags", [])
    if isinstance(data["tags"], list):
        data["tags"] += [
            tag for tag in ("reinforcement-learning", "mcp", "hudtui") if tag not in data["tags"]
        ]
    data["size_categories"] = [_size(sum(facts.splits.values()))]
    data["configs"] = [
        {
            "config_name": "default",
            "data_files": [{"split": split, "path": f"data/{split}-*"} for split in facts.splits],
        }
    ]
    data.pop(
        "dataset_info", None
    )  # another writer's counts would contradict the files, and loading would fail
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue()


def _size(count: int) -> str:
    bounds = (
        ("n<1K", 10**3),
        ("1K<n<10K", 10**4),
        ("10K<n<100K", 10**5),
        ("100K<n<1M", 10**6),
        ("1M<n<10M", 10**7),
    )
    return next((name for name, bound in bounds if count < bound), "10M<n<100M")


def _card_section(facts: CardFacts) -> str:
    counts = ", ".join(f"{count:,} in `{split}`" for split, count in facts.splits.items())
    lines = [
        "Tasks for reinforcement learning of agents on an MCP environment, in HUD's v4 task "
        "format.",
        "",
        f"- Tasks: {counts}",
        f"- Made from: `{clean_line(facts.source, 200).replace('`', '')}`"
        + (f" ({facts.skipped:,} unusable tasks left out)" if facts.skipped else ""),
    ]
    if facts.image:
        lines.append(f"- Environment: `{clean_line(facts.image, 200).replace('`', '')}`")
    if facts.duplicated:
        lines.append(
            f"- {facts.duplicated:,} of the tasks in `train` are copies of others under new ids"
        )
    lines += ["", "| column | holds |", "| --- | --- |"]
    lines += [
        (
            f"| `{clean_line(name, 100).replace('|', ' ')}` | "
            f"{_MEANING.get(name, 'kept from the source')} |"
        )
        for name in facts.columns
    ]
    lines += [
        "",
        "All columns are text. To load it:",
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        f'tasks = load_dataset("{facts.repo}", split="train")',
        "```",
        "",
        "To evaluate and to train on it with hudtui:",
        "",
        "```bash",
        f"hudtui eval {facts.repo} --config configs/my-env.yaml --policy openai:gpt-4.1-mini",
        f"hudtui rl --dataset {facts.repo} --config configs/my-env.yaml",
        "```",
    ]
    return "\n".join(lines) + "\n"
