"""A stand-in for the Hugging Face Hub on loopback that the real client library accepts, with faults
on request.

It keeps repositories in memory: files, commits, large files by content. What it does not know it
answers with 404.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

TOKEN = "hf_" + "stub" * 8


@dataclass
class Repo:
    private: bool
    files: dict[str, bytes] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)
    commits: list[dict[str, Any]] = field(default_factory=list)

    @property
    def head(self) -> str:
        return hashlib.sha1(str(len(self.commits)).encode()).hexdigest()


@dataclass
class Answer:
    """An answer in the place of the real one."""

    status: int
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


CUT_BEFORE = "cut before"
"""The connection breaks before anything is done."""
CUT_AFTER = "cut after"
"""What was asked for is done, and the connection breaks before the answer."""

Fault = Callable[[int, str, str], Answer | str | None]


class HubStub:
    """The server. A context manager; `url` is what HF_ENDPOINT takes."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.objects: dict[str, bytes] = {}
        self.uploads: list[str] = []
        """Every large file that was sent, by content, in order; twice the same is a waste."""
        self.requests: list[tuple[str, str]] = []
        self.fault: Fault = lambda number, method, path: None
        """Asked before each request: its number (from 0), method and path."""
        self.before_answer: Callable[[int], None] = lambda number: None
        """Called when a request has been carried out, before its answer is sent."""
        self.user = "tester"
        self.lock = threading.Lock()
        hub = self

        class Bound(_Handler):
            stub = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> HubStub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def environment(self) -> dict[str, str]:
        """Variables that make a child process use this stub."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_TOKEN": TOKEN,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_OFFLINE": "0",
        }


def quick_retries() -> None:
    """Let the client of this process try again soon: it waits a second first, and twice as long
    each further time."""
    from huggingface_hub.utils import http_backoff

    http_backoff.__kwdefaults__["base_wait_time"] = 0.02


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: ClassVar[HubStub]

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        stub = self.stub
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        path = unquote(urlsplit(self.path).path)
        with stub.lock:
            number = len(stub.requests)
            stub.requests.append((self.command, path))
        fault = stub.fault(number, self.command, path)
        if fault == CUT_BEFORE:
            self._cut()
            return
        if isinstance(fault, Answer):
            answer = fault
        else:
            with stub.lock:
                answer = self._route(path, body)
        stub.before_answer(number)
        if fault == CUT_AFTER:
            self._cut()
            return
        self.send_response(answer.status)
        headers = {"Content-Type": "application/json", **answer.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_POST = do_PUT = do_HEAD = _serve

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(2)

    def _route(self, path: str, body: bytes) -> Answer:
        for method, pattern, call in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and self.command in method.split():
                open_to_all = call in (_Handler._put_object, _Handler._harnesses)
                if not open_to_all and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    return refuse(401, "Invalid credentials in Authorization header")
                return call(self, body, **match.groupdict())
        return refuse(404, f"no such page: {path}")

    def _harnesses(self, body: bytes) -> Answer:
        return refuse(404, "none")

    def _whoami(self, body: bytes) -> Answer:
        return _json(
            {
                "type": "user",
                "name": self.stub.user,
                "orgs": [],
                "auth": {"accessToken": {"role": "write"}},
            }
        )

    def _create(self, body: bytes) -> Answer:
        wanted = json.loads(body)
        repo = f"{wanted.get('organization') or self.stub.user}/{wanted['name']}"
        if repo in self.stub.repos:
            return _json(
                {
                    "error": "You already created this dataset repo",
                    "url": f"{self.stub.url}/datasets/{repo}",
                },
                409,
            )
        self.stub.repos[repo] = Repo(
            wanted.get("visibility") == "private" or bool(wanted.get("private"))
        )
        return _json({"url": f"{self.stub.url}/datasets/{repo}", "name": repo})

    def _info(self, body: bytes, repo: str, revision: str | None = None) -> Answer:
        found = self.stub.repos.get(repo)
        if found is None:
            return refuse(404, "Repository not found", code="RepoNotFound")
        siblings = []
        for name, data in found.files.items():
            entry: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": _git(data)}
            if name in found.large:
                oid = hashlib.sha256(data).hexdigest()
                entry |= {
                    "blobId": _git(oid.encode()),
                    "lfs": {"sha256": oid, "size": len(data), "pointerSize": 134},
                }
            siblings.append(entry)
        return _json(
            {
                "id": repo,
                "sha": found.head,
                "private": found.private,
                "siblings": siblings,
                "tags": [],
            }
        )

    def _preupload(self, body: bytes, repo: str) -> Answer:
        if repo not in self.stub.repos:
            return refuse(404, "Repository not found", code="RepoNotFound")
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(".parquet") else "regular",
                "shouldIgnore": False,
            }
            for file in json.loads(body)["files"]
        ]
        return _json({"files": files})

    def _batch(self, body: bytes, repo: str) -> Answer:
        objects = []
        for wanted in json.loads(body)["objects"]:
            entry: dict[str, Any] = {"oid": wanted["oid"], "size": wanted["size"]}
            if wanted["oid"] not in self.stub.objects:
                entry["actions"] = {"upload": {"href": f"{self.stub.url}/objects/{wanted['oid']}"}}
                entry["actions"]["verify"] = {"href": f"{self.stub.url}/verify"}
            objects.append(entry)
        return _json({"transfer": "basic", "objects": objects})

    def _put_object(self, body: bytes, oid: str) -> Answer:
        if hashlib.sha256(body).hexdigest() != oid:
            return refuse(400, "the content is not what its name says")
        self.stub.uploads.append(oid)
        self.stub.objects[oid] = body
        return Answer(200)

    def _verify(self, body: bytes) -> Answer:
        wanted = json.loads(body)
        return (
            _json({})
            if len(self.stub.objects.get(wanted["oid"], b"")) == wanted["size"]
            else refuse(404, "not there")
        )

    def _yaml(self, body: bytes) -> Answer:
        return _json({"errors": [], "warnings": []})

    def _commit(self, body: bytes, repo: str) -> Answer:
        found = self.stub.repos.get(repo)
        if found is None:
            return refuse(404, "Repository not found", code="RepoNotFound")
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        header = lines[0]["value"]
        if header.get("parentCommit") not in (None, found.head):
            return refuse(412, "A commit has happened since. Please refresh and try again.")
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                found.files[value["path"]] = base64.b64decode(value["content"])
                found.large.discard(value["path"])
            elif line["key"] == "lfsFile":
                if value["oid"] not in self.stub.objects:
                    return refuse(400, "the large file was never uploaded")
                found.files[value["path"]] = self.stub.objects[value["oid"]]
                found.large.add(value["path"])
            elif line["key"] == "deletedFile":
                del found.files[value["path"]]
        found.commits.append(header)
        url = f"{self.stub.url}/datasets/{repo}/commit/{found.head}"
        return _json({"success": True, "commitOid": found.head, "commitUrl": url, "hookOutput": ""})

    def _tree(self, body: bytes, repo: str, revision: str) -> Answer:
        files = self.stub.repos[repo].files
        return _json(
            [
                {"type": "file", "path": name, "size": len(data), "oid": _git(data)}
                for name, data in files.items()
            ]
        )

    def _resolve(self, body: bytes, repo: str, revision: str, name: str) -> Answer:
        found = self.stub.repos.get(repo)
        if found is None:
            return refuse(404, "Repository not found", code="RepoNotFound")
        if name not in found.files:
            return refuse(404, "Entry not found", code="EntryNotFound")
        data = found.files[name]
        headers = {
            "Content-Type": "application/octet-stream",
            "ETag": f'"{hashlib.sha256(data).hexdigest()}"',
            "X-Repo-Commit": found.head,
            "Content-Length": str(len(data)),
        }
        return Answer(200, data, headers)


_REPO = r"(?P<repo>[^/]+/[^/]+)"
_ROUTES: tuple[tuple[str, str, Callable[..., Answer]], ...] = (
    ("GET", "/api/agent-harnesses", _Handler._harnesses),
    ("GET", "/api/whoami-v2", _Handler._whoami),
    ("POST", "/api/repos/create", _Handler._create),
    ("POST", "/api/validate-yaml", _Handler._yaml),
    ("GET", f"/api/datasets/{_REPO}", _Handler._info),
    ("GET", f"/api/datasets/{_REPO}/revision/(?P<revision>.+)", _Handler._info),
    ("POST", f"/api/datasets/{_REPO}/preupload/main", _Handler._preupload),
    ("POST", rf"/datasets/{_REPO}\.git/info/lfs/objects/batch", _Handler._batch),
    ("PUT", "/objects/(?P<oid>[0-9a-f]{64})", _Handler._put_object),
    ("POST", "/verify", _Handler._verify),
    ("POST", f"/api/datasets/{_REPO}/commit/main", _Handler._commit),
    ("GET HEAD", f"/datasets/{_REPO}/resolve/(?P<revision>[^/]+)/(?P<name>.+)", _Handler._resolve),
    ("GET", f"/api/models/{_REPO}/tree/(?P<revision>.+)", _Handler._tree),
)
# Models have the same routes as datasets; the addresses of their files and objects have no prefix.
_ROUTES += tuple(
    (method, path.replace("/api/datasets/", "/api/models/").replace("/datasets/", "/"), call)
    for method, path, call in _ROUTES
    if "datasets" in path
)


def _json(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode())


def refuse(status: int, message: str, code: str | None = None) -> Answer:
    """A refusal in the Hub's manner."""
    headers = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {})}
    return Answer(status, json.dumps({"error": message}).encode(), headers)


def _git(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%b" % (len(data), data)).hexdigest()
