"""The client that the MCP conformance suite tests: `hudtui env` at a terminal, with a person whom
this program plays.

The suite appends the server's address, and names its scenario in MCP_CONFORMANCE_SCENARIO, with
more in MCP_CONFORMANCE_CONTEXT. The person agrees to what hudtui asks and opens the address of a
login. All protocol is hudtui's.

`mcp_client.py serve SOCKET` imports hudtui once and forks for each scenario; the suite starts
`mcp_client.py SOCKET URL`, which only asks for that.
"""

from __future__ import annotations

import json
import os
import socket
import sys

if sys.argv[1] == "serve":  # asking takes none of these
    import gc
    import pty
    import re
    import tempfile
    import traceback
    import urllib.request
    from importlib import import_module
    from urllib.parse import urlsplit

    from hudtui.cli import main as hudtui_main
    from hudtui.cli.app import build

    ADDRESS = re.compile(r"^(https?://\S+[?&]code_challenge=\S+)\s", re.MULTILINE)
    QUESTION = re.compile(r"(?:\[y/N\]|\[Y/n\]): $")

DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client metadata document that the suite expects; it is never fetched."""


def ask(place: str, url: str) -> int:
    """Have one scenario run, with the environment and streams of this process; its exit code."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(place)
        socket.send_fds(connection, [json.dumps([url, dict(os.environ)]).encode()], [0, 1, 2])
        return int(connection.recv(100))


def serve(place: str) -> None:
    """Fork for each scenario that is asked for, until this process is ended."""
    build()
    for late in ("client", "discover", "login"):
        import_module(f"hudtui.core.environment.{late}")
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(place)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                text, streams, *_ = socket.recv_fds(connection, 1 << 17, 3)
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                url, environment = json.loads(text)
                os.environ.clear()
                os.environ.update(environment)
                connection.send(str(scenario_at(url)).encode())
                os._exit(0)
            connection.close()


def scenario_at(url: str) -> int:
    """Run the client for one scenario; its exit code is hudtui's."""
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with tempfile.TemporaryDirectory(prefix="conformance-") as home:
        os.chdir(home)
        secret = context.get("client_secret", "")
        os.environ.update(
            HUDTUI_HOME=home, HUDTUI_CLIENT_METADATA_URL=DOCUMENT, THE_CLIENT_SECRET=secret
        )
        for name in ("DISPLAY", "WAYLAND_DISPLAY"):
            os.environ.pop(name, None)
        return converse(command(scenario, url, context))


def command(scenario: str, url: str, context: dict[str, str]) -> list[str]:
    """The command for a scenario: a login with given credentials, a call, or an analysis."""
    tools = {
        "tools_call": ("add_numbers", '{"a": 5, "b": 3}'),
        "sse-retry": ("test_reconnection", "{}"),
        "auth/scope-step-up": ("test-tool", "{}"),
    }
    if scenario in tools:
        return ["env", "call", url, *tools[scenario]]
    if "client_id" not in context:
        return ["env", "show", url, "--live"]
    login = ["env", "login", url, "--client-id", context["client_id"]]
    return [*login, "--issuer", issuer_of(url), "--client-secret-var", "THE_CLIENT_SECRET"]


def issuer_of(url: str) -> str:
    """The authorization server that the suite registered the client at: the one that its server
    names."""
    place = urlsplit(url)
    address = f"{place.scheme}://{place.netloc}/.well-known/oauth-protected-resource{place.path}"
    with urllib.request.urlopen(address, timeout=20) as answer:
        return str(json.load(answer)["authorization_servers"][0])


def converse(words: list[str]) -> int:
    """Run a command of hudtui at a terminal, and answer as its person."""
    process, ours = pty.fork()
    if process == 0:
        sys.argv = ["hudtui", *words]
        try:
            hudtui_main()
        except SystemExit as end:
            sys.stdout.flush()
            os._exit(end.code if isinstance(end.code, int) else 0)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    said, visited = "", 0
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the terminal is closed
            break
        if not data:
            break
        text = data.decode(errors="replace").replace("\r\n", "\n")
        os.write(1, text.encode())
        said += text
        for match in list(ADDRESS.finditer(said))[visited:]:
            visited += 1
            urllib.request.urlopen(match[1], timeout=20).close()
        line = said.rpartition("\n")[2]
        if QUESTION.search(line):
            os.write(ours, b"y\n")
            said, visited = "", 0
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


if __name__ == "__main__":
    sys.exit(serve(sys.argv[2]) if sys.argv[1] == "serve" else ask(*sys.argv[1:]))
