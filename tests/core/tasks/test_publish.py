"""Datasets on the Hub: the real client against a stand-in, with the connection cut and the process
killed at every request."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from support import hub_stub as stub

from hudtui.core.tasks.publish import CARD_BEGIN, CARD_END, CardFacts, dataset_card

_SUPPORT = Path(__file__).parents[2] / "support"

REPO = "my-org/my-tasks"


class Driver:
    """Pushes on request; see tests/support/push_driver.py."""

    def __init__(self, hub: Any, home: Path) -> None:
        self.hub, self.home = hub, home
        environment = {**os.environ, **hub.environment(), "HF_HOME": str(home / "hf")}
        self.process = subprocess.Popen(
            [sys.executable, str(_SUPPORT / "push_driver.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, bufsize=1,
        )  # fmt: skip
        self.child = 0

    def push(self, files: dict[str, Path], repo: str = REPO, **more: Any) -> tuple[int, str]:
        """Exit status (negative: the signal that ended it) and what was said."""
        assert self.process.stdin is not None and self.process.stdout is not None
        log = self.home / "log"
        order = {
            "repo": repo,
            "files": {name: str(path) for name, path in files.items()},
            "log": str(log),
            **more,
        }
        self.process.stdin.write(json.dumps(order) + "\n")
        self.child = int(self.process.stdout.readline())
        return int(self.process.stdout.readline()), log.read_text()

    def kill(self) -> None:
        os.kill(self.child, signal.SIGKILL)

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Driver]]:
    with stub.HubStub() as hub:
        driver = Driver(hub, tmp_path_factory.mktemp("driver"))
        yield hub, driver
        driver.close()


@pytest.fixture
def hub(world: tuple[Any, Driver]) -> Any:
    forget(world[0])
    return world[0]


@pytest.fixture
def push(world: tuple[Any, Driver], hub: Any) -> Callable[..., tuple[int, str]]:
    return world[1].push


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    made = {}
    for number in range(2):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(
            pa.table({"id": [f"{number}-{n}" for n in range(50)], "prompt": ["p"] * 50}), path
        )
        made[f"data/train-{number:05d}-of-00002.parquet"] = path
    return made


@pytest.fixture
def shard(files: dict[str, Path]) -> dict[str, Path]:
    return {"data/train-00000-of-00001.parquet": files["data/train-00000-of-00002.parquet"]}


def complete(hub: Any, files: dict[str, Path]) -> None:
    """One repository with the right files, made by one commit, and nothing sent twice that had
    arrived."""
    assert list(hub.repos) == [REPO]
    repo = hub.repos[REPO]
    assert {name: repo.files[name] for name in files} == {
        name: path.read_bytes() for name, path in files.items()
    }
    assert set(repo.files) == {*files, "README.md"}
    assert len(repo.commits) == 1
    assert len(hub.uploads) == len(set(hub.uploads)) == len(files)


def test_a_push_and_the_same_again(hub: Any, push: Any, files: dict[str, Path]) -> None:
    code, log = push(files, private=True)
    assert code == 0, log
    complete(hub, files)
    assert hub.repos[REPO].private
    assert f"url='{hub.url}/datasets/{REPO}'" in log and "Progress(stage='upload'" in log
    before = len(hub.requests)
    code, log = push(files, private=True)
    assert code == 0 and "commit=None" in log
    complete(hub, files)
    assert {method for method, _ in hub.requests[before:]} == {"GET", "HEAD"}


def test_a_name_without_a_slash_is_one_s_own(hub: Any, push: Any, files: dict[str, Path]) -> None:
    code, log = push(files, repo="mine")
    assert code == 0, log
    assert list(hub.repos) == ["tester/mine"] and hub.repos["tester/mine"].private
    assert 'load_dataset("tester/mine"' in hub.repos["tester/mine"].files["README.md"].decode()


def test_what_is_new_replaces_what_is_old(hub: Any, push: Any, files: dict[str, Path]) -> None:
    push(files)
    repo = hub.repos[REPO]
    repo.files["notes.md"] = b"mine"
    repo.files["README.md"] = (
        b"---\nlicense: mit\n---\n# Mine\n" + repo.files["README.md"].partition(b"\n\n")[2]
    )
    repo.commits.append({"summary": "theirs"})
    one = {"data/train-00000-of-00001.parquet": files["data/train-00001-of-00002.parquet"]}
    code, log = push(one)
    assert code == 0, log
    assert set(repo.files) == {*one, "notes.md", "README.md"} and len(repo.commits) == 3
    readme = repo.files["README.md"].decode()
    assert "license: mit" in readme and "# Mine" in readme and readme.count(CARD_BEGIN) == 1
    assert len(hub.uploads) == 2, "the shard was there by its content"


def requests_of_a_push(hub: Any, push: Any, files: dict[str, Path]) -> list[tuple[str, str]]:
    code, log = push(files)
    assert code == 0, log
    made = list(hub.requests)
    forget(hub)
    return made


def forget(hub: Any) -> None:
    hub.fault = lambda number, method, path: None
    hub.before_answer = lambda number: None
    for what in (hub.repos, hub.objects, hub.uploads, hub.requests):
        what.clear()


class Killer:
    """Kills the pushing process when a request comes in, or when it has been carried out."""

    def __init__(self, driver: Driver, victim: int) -> None:
        self.driver, self.victim, self.done = driver, victim, False

    def after(self, number: int) -> None:
        if number == self.victim and not self.done:
            self.done = True
            self.driver.kill()

    def before(self, number: int, method: str, path: str) -> Any:
        self.after(number)
        return stub.CUT_BEFORE if number == self.victim else None


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_every_request_in_turn(
    world: tuple[Any, Driver], hub: Any, push: Any, shard: dict[str, Path], moment: str
) -> None:
    count = len(requests_of_a_push(hub, push, shard))
    assert count > 8
    for victim in range(count):
        killer = Killer(world[1], victim)
        if moment == "before":
            hub.fault = killer.before
        else:
            hub.before_answer = killer.after
        code, log = push(shard)
        assert killer.done and code == -signal.SIGKILL, log
        hub.fault = lambda number, method, path: None
        hub.before_answer = lambda number: None
        code, log = push(shard)
        assert code == 0, log
        complete(hub, shard)
        forget(hub)


@pytest.mark.parametrize("fault", [stub.CUT_BEFORE, stub.CUT_AFTER])
def test_cut_at_every_request_in_turn(
    hub: Any, push: Any, shard: dict[str, Path], fault: str
) -> None:
    for victim, request in enumerate(requests_of_a_push(hub, push, shard)):
        hub.fault = lambda number, method, path, victim=victim: fault if number == victim else None
        code, log = push(shard)
        if code != 0 and request[0] in (
            "GET",
            "HEAD",
        ):  # looking, which changes nothing, is not tried again
            assert "cannot be reached" in log, (request, log)
            code, log = push(shard)
        assert code == 0, (request, log)
        if fault == stub.CUT_AFTER and request[0] == "PUT":
            del hub.uploads[0]  # the client sends a file again whose arrival was never confirmed
        complete(hub, shard)
        forget(hub)


HTML = {"Content-Type": "text/html; charset=utf-8"}
XML = {"Content-Type": "application/xml"}


@pytest.mark.parametrize(
    ("where", "answer", "code", "words"),
    [
        ("/api/datasets/", stub.refuse(401, "Invalid credentials in Authorization header"), 7,
         "does not accept the token"),
        ("/api/repos/create", stub.refuse(401, "Invalid username or password."), 7,
         "does not accept the token"),
        ("/api/repos/create", stub.refuse(403, "no rights"), 7, "write access to my-org"),
        ("/preupload/", stub.Answer(403, b'{"error": "no rights"}'), 7, "does not allow pushing"),
        ("/commit/", stub.Answer(409, b'{"error": "conflict"}'), 7, "conflict (409)"),
        ("/commit/", stub.Answer(412, b'{"error": "A commit has happened '
                                      b'since"}'), 7, "conflict (412)"),
        ("/commit/", stub.Answer(503, b"{}"), 7, "trouble of its own (503)"),
        ("/api/datasets/", stub.Answer(200, b"<html>Sign in</html>", HTML), 7,
         "something else than the Hub"),
        ("/api/datasets/", stub.Answer(502, b"<html>Bad gateway</html>", HTML), 7,
         "something else than the Hub"),
        ("/info/lfs/", stub.Answer(200, b"<html>Sign in</html>", HTML), 7,
         "something else than the Hub"),
        ("/objects/", stub.Answer(403, b"<Error>expired</Error>", XML), 7, "403"),
        ("/api/datasets/", stub.Answer(200, b"not json"), 7, "something else than the Hub"),
        ("/api/datasets/", stub.Answer(429, b"{}", {"Retry-After": "4000"}), 7, "in 4000 s"),
        ("/commit/", stub.Answer(429, b"{}", {"Retry-After": "0"}), 7, "limits requests (429)"),
    ],
)  # fmt: skip
def test_refusals_in_words(
    hub: Any, push: Any, files: dict[str, Path], where: str, answer: Any, code: int, words: str
) -> None:
    hub.fault = lambda number, method, path: answer if where in path else None
    got, log = push(files, tries=2)
    assert got == code, log
    said = json.loads(log.splitlines()[-1])
    assert words in " ".join(filter(None, (said["what"], said["why"], said["fix"]))), said
    assert stub.TOKEN not in log
    hub.fault = lambda number, method, path: None
    assert push(files)[0] == 0
    complete(hub, files)


def test_the_hub_is_busy_for_a_moment(hub: Any, push: Any, shard: dict[str, Path]) -> None:
    count = len(requests_of_a_push(hub, push, shard))
    for victim in range(1, count):
        busy = stub.Answer(429, b"{}", {"Retry-After": "0" if victim != 2 else "1"})
        hub.fault = lambda number, method, path, victim=victim, busy=busy: (
            busy if number == victim else None
        )
        code, log = push(shard)
        assert code == 0, log
        complete(hub, shard)
        if victim == 2:
            assert "continuing in 1 s" in log
        forget(hub)


def test_someone_else_commits_in_between(hub: Any, push: Any, files: dict[str, Path]) -> None:
    push({})
    repo = hub.repos[REPO]

    def other(number: int, method: str, path: str) -> None:
        if "/commit/" in path and len(repo.commits) == 1:
            repo.commits.append({"summary": "theirs"})
            repo.files["theirs.txt"] = b"x"

    hub.fault = other
    code, log = push(files)
    assert code == 0, log
    assert (
        len(repo.commits) == 3 and repo.files["theirs.txt"] == b"x" and set(files) < set(repo.files)
    )


def test_private_is_not_made_public_by_mistake(hub: Any, push: Any, files: dict[str, Path]) -> None:
    hub.repos[REPO] = stub.Repo(private=False)
    code, log = push(files, private=True)
    assert code == 7 and "public already" in log and hub.repos[REPO].files == {}


def test_no_network(push: Any, files: dict[str, Path], hub: Any, tmp_path: Path) -> None:
    code = (
        "from hudtui.core.platform import HUD\nfrom hudtui.core.tasks.publish import CardFacts\n"
        "from hudtui.core.tasks import publish\npublish.TRIES = 1\n"
        "try:\n    list(publish.push({}, CardFacts('a/b', {}, (), 's')))\n"
        "except publish.HubError as error: print(error)\n"
    )

    def said(**variables: str) -> str:
        environment = {
            **os.environ,
            **hub.environment(),
            "HF_HOME": str(tmp_path / "hf"),
            **variables,
        }
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert "127.0.0.1 cannot be reached" in said(HF_ENDPOINT="http://127.0.0.1:9")
    assert "HF_HUB_OFFLINE is set" in said(HF_HUB_OFFLINE="1")
    assert "needs a token, and there is none" in said(HF_TOKEN="")


class TestCard:
    FACTS = CardFacts(
        "o/n",
        {"train": 1500, "test": 10},
        ("id", "prompt", "weird|name"),
        "tasks`.json",
        "o/e:1",
        2,
        3,
    )

    def test_what_it_says(self) -> None:
        text = dataset_card(self.FACTS)
        head = yaml.safe_load(re.match(r"---\n(.*?)---\n", text, re.DOTALL)[1])  # type: ignore[index]
        assert head["configs"] == [
            {
                "config_name": "default",
                "data_files": [
                    {"split": split, "path": f"data/{split}-*"} for split in ("train", "test")
                ],
            }
        ]
        assert head["size_categories"] == ["1K<n<10K"] and "mcp" in head["tags"]
        for words in (
            "1,500 in `train`, 10 in `test`",
            "`o/e:1`",
            'load_dataset("o/n"',
            "hudtui rl --dataset o/n",
            "2 of the tasks",
        ):
            assert words in text

    def test_another_s_words_stay(self) -> None:
        old = (
            "---\nlicense: mit\ntags: [games]\ndataset_info: {features: []}\nbroken_by: nobody\n"
            "---\n# Mine\n\nwords\n"
        )
        text = dataset_card(self.FACTS, old)
        assert (
            "license: mit" in text
            and "games" in text
            and "words" in text
            and "dataset_info" not in text
        )
        assert text.index("words") < text.index(CARD_BEGIN) < text.index(CARD_END)
        assert dataset_card(self.FACTS, text) == text

    def test_a_head_that_is_no_yaml(self) -> None:
        assert "# Mine" in dataset_card(self.FACTS, "---\n: [\n---\n# Mine\n")


@pytest.mark.parametrize(
    "place", ["http://hub.example", "http://127.0.0.1@hub.example", "HTTP://10.0.0.7:80", None]
)
def test_a_token_goes_to_no_address_and_no_proxy_in_the_clear(
    place: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's own token, too. This machine's own services pass no proxy."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    from huggingface_hub import constants

    from hudtui.core.tasks.hub import hub_client

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    seen: list[tuple[str, str | None]] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, *arguments: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy, stub.HubStub() as hub:
        Thread(target=proxy.serve_forever, daemon=True).start()
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_ENDPOINT", place or hub.url)
        monkeypatch.setenv("HF_TOKEN", stub.TOKEN)
        for token in (None, stub.TOKEN):
            with hub_client(token) as api:
                if place is None:
                    assert api.whoami()["name"]
                else:
                    assert list(api.list_datasets(limit=1)) == []
        proxy.shutdown()
    if place is None:
        assert seen == []
    else:
        assert len(seen) == 2 and not any(
            key is not None and key.startswith("Bearer") for _, key in seen
        )


def test_a_use_of_the_hub_that_ends_takes_no_limits_from_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library has one maker of connections for the whole process."""
    from huggingface_hub import constants, get_session
    from huggingface_hub.utils import close_session

    from hudtui.core.tasks.hub import hub_client

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with stub.HubStub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        first, second = hub_client(stub.TOKEN), hub_client(stub.TOKEN)
        first.__enter__()
        with second:
            first.__exit__(None, None, None)
            assert get_session().timeout.read is not None
        close_session()
        outside = get_session().timeout.read
        with hub_client(stub.TOKEN):
            connections = get_session()
            with hub_client(stub.TOKEN):
                assert not connections.is_closed, (
                    "one use that begins closes no connection of another"
                )
            assert get_session() is connections and not connections.is_closed
            assert connections.timeout.read is not None
        assert outside is None and get_session().timeout.read is None, (
            "what others in the process use is as it was"
        )
