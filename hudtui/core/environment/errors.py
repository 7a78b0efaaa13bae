"""Errors of connections to servers.

Each function here makes one error with what happened, why, and the fix.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hudtui.core.environment.bundled import BUNDLED
from hudtui.core.environment.servers import NEVER_PULL, Secrets, ServerSpec
from hudtui.core.errors import ConnectError, HudtuiError, SourceError
from hudtui.core.http import keeps_secrets
from hudtui.core.masking import mask_url
from hudtui.core.text import clean, clean_line, did_you_mean
from hudtui.core.variables import variable_names

if TYPE_CHECKING:
    from hudtui.core.environment.stdio import ServerProcess

LOGIN_REQUEST = "hudtui.login"
"""Extension of an HTTP request that is part of a login, and does not go to the server itself."""

# The MCP SDK (2.0 to 2.3) has neither an exception nor a code of its own for these.
SDK_BROKEN_STREAM = "SSE stream"
_SDK_CLOSED = "Connection closed"
_SDK_UNKNOWN_VERSION = "Unsupported protocol version"

_NO_IMAGE = r"image not known|no such image|unable to find image|image .* not found locally"
_SESSION_GONE, _INVALID_PARAMS = -32001, -32602
INTERNAL_ERROR = -32603
"""The code of JSON-RPC for a server that failed itself."""
_PROTOCOL_CODES = (-32700, -32601)
"""The server cannot read what every client sends, or does not know tool calls."""
_SERVER_CODES = range(-32099, -31999)
_NO_SESSION = r"(?i)session|(?:not|before) (?:been )?initiali[sz]|^invalid request parameters$"
_BUSY = (
    r"(?i)too many requests|rate.?limit|quota|overloaded|service unavailable|bad gateway"
    r"|gateway time"
)
_CUT_OFF = (
    r"(?i)connection (?:was |is )?(?:closed|lost|reset|refused)|not connected|transport"
    r"|upstream|shut(?:ting)? ?down"
)
_HOST_REFUSED = r"(?i)invalid (?:host|origin)|(?:host|origin)\b.{0,80}\bnot allowed|misdirected"
_CHECK_PATH = "Check the path: MCP endpoints usually end in /mcp or /sse."
_ASK_LESS = "Ask it for less at a time, or check what it does."
_PUBLIC_HEADERS = ("mcp-image", "environment-name", "run-id")


class LoginRequiredError(ConnectError):
    """A server requires a login, and there is none, or none that covers the request.

    `scope` holds the scopes to ask for, separated by blanks.
    """

    def __init__(
        self, what: str, *, why: str | None = None, fix: str | None = None, scope: str = ""
    ) -> None:
        super().__init__(what, why=why, fix=fix)
        self.scope = scope


@dataclass(frozen=True)
class ResponseInfo:
    """The parts of an HTTP response that explain a failure."""

    status: int
    url: str
    content_type: str = ""
    challenge: str = ""
    """The `WWW-Authenticate` header."""
    location: str = ""
    text: str = ""
    """The text in the body of an error, in one line, secrets masked."""
    session: bool = False
    """The request was one of a session."""

    @property
    def status_and_words(self) -> str:
        """The status, with the server's words."""
        return f"{self.status}: {self.text}" if self.text else str(self.status)


def lost_session(name: str, why: str) -> ConnectError:
    """The server no longer has the session of this connection."""
    return ConnectError(
        f"the server {name!r} has ended the session",
        why=why,
        fix="It was started again, or a proxy led the call to another copy of it. Connect again.",
    )


def rpc_fault(name: str, code: int, message: str, asked: str) -> ConnectError | None:
    """Return the error for a JSON-RPC error that is about the connection; else None.

    None means that the error is about what was asked.

    Args:
        name: The server's name.
        code: The code of the error.
        message: Its text, secrets masked.
        asked: The call with its arguments. An error about a session may mean one that they name.
    """
    answer = f"It answered: {clean_line(message, 300)} ({code})."
    if code == _SESSION_GONE or session_words(message, asked):
        return lost_session(name, answer)
    busy = code in (429, *range(500, 600)) or (
        code != _INVALID_PARAMS and re.search(_BUSY, message) is not None
    )
    if busy or code in _PROTOCOL_CODES or (code in _SERVER_CODES and re.search(_CUT_OFF, message)):
        return ConnectError(
            f"the server {name!r} cannot answer",
            why=answer,
            fix="Check the server's log, and connect again.",
        )
    return None


def session_words(message: str, asked: str) -> bool:
    """True if an error says that the server does not know the connection's session."""
    if "session" in asked.lower() and "session" in message.lower():
        return False
    return re.search(_NO_SESSION, message) is not None


def leaf_errors(error: BaseException) -> Iterator[BaseException]:
    """The single exceptions in nested groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaf_errors(inner)
    else:
        yield error


def start_error(spec: ServerSpec, error: Exception) -> SourceError:
    """The program of a server could not be started at all."""
    program = clean_line(spec.command or "", 120)
    quoted = shlex.quote(program)
    if spec.cwd and not os.path.isdir(spec.cwd):
        return SourceError(
            f"the working folder {spec.cwd} does not exist",
            fix=f"It is `cwd` of the server {spec.name!r}.",
        )
    if isinstance(error, FileNotFoundError):
        if spec.contained:
            return SourceError(
                f"there is no container engine on this machine: {quoted} is not installed",
                why=f"The source is an image: {clean_line(spec.image or '', 120)}",
                fix=(
                    "Install docker or podman, or reach the environment by a URL or over `-- ssh "
                    "user@host docker run ...`."
                ),
            )
        if spec.literal and " " in program:
            return SourceError(
                f"there is no program called {quoted}",
                fix="Give the program and its arguments as separate words.",
            )
        return SourceError(
            f"there is no program called {program!r}",
            fix="Check its spelling, and that it is installed and on PATH.",
        )
    if isinstance(error, PermissionError):
        return SourceError(
            f"{program!r} is not an executable program",
            fix=f"Make it executable: chmod +x {quoted}",
        )
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOEXEC:
        return SourceError(
            f"{program!r} is not a program this system can run",
            why=os.strerror(errno.ENOEXEC),
            fix=(
                "If it is a script, its first line must name the interpreter (#!/usr/bin/env "
                "python3)."
            ),
        )
    if number == errno.E2BIG:
        return SourceError("the command line is too long to start", why=os.strerror(errno.E2BIG))
    return SourceError(
        f"the program cannot be started: {clean_line(spec.where, 200)}",
        why=clean_line(str(error), 300),
    )


def taken_error(spec: ServerSpec, by: str = "another program") -> ConnectError:
    """The address of a server whose program is to be started is in use."""
    url = clean_line(mask_url(spec.url or ""), 120)
    return ConnectError(
        f"the server {spec.name!r} cannot be started: {by} answers at {url}",
        fix=(
            "End it, or give each episode a port of its own: ${EPISODE_PORT} in the address, and "
            "in what the program is told."
        ),
    )


def silent_error(
    spec: ServerSpec, seconds: float, process: ServerProcess, secrets: Secrets
) -> ConnectError:
    """The program of a server runs, and does not answer at its address."""
    return ConnectError(
        f"nothing answers at {secrets.hide(mask_url(spec.url or ''))} after {seconds:g} s, "
        f"although the program of the server {_name(spec, secrets)} runs",
        why=_stderr(process, secrets, "output") or "It wrote nothing.",
        fix=(
            "Check that it listens at that port of this machine, and how it is told so; "
            "--timeout gives it longer."
        ),
    )


def with_output(
    error: ConnectError, process: ServerProcess, spec: ServerSpec, secrets: Secrets
) -> ConnectError:
    """The error of a connection to a program, with what became of that.

    Args:
        error: What the connection says.
        process: The process of the program.
        spec: The server, variables filled in.
        secrets: Masked in every text.
    """
    output = _stderr(process, secrets, "output")
    if process.died is not None:
        return _ended_error(spec, process.died, output or "It wrote nothing.", secrets)
    error.why = "\n".join(part for part in (error.why, output) if part) or None
    return error


def _ended_error(
    spec: ServerSpec, code: int, why: str, secrets: Secrets, *, before: bool = False
) -> ConnectError:
    ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return ConnectError(
        f"the server {_name(spec, secrets)} {ended}{' before it answered' if before else ''}",
        why=why,
        fix=f"Try it yourself: {clean_line(secrets.hide(spec.where), 300)}",
    )


def early_end_error(spec: ServerSpec, process: ServerProcess, secrets: Secrets) -> ConnectError:
    """The program of a server ended before it answered at its address."""
    code = process.died or 0
    output = _stderr(process, secrets, "output")
    error = _ended_error(spec, code, output or "It wrote nothing.", secrets, before=True)
    if code == 0:
        error.fix = f"It has to stay in the foreground while it serves. {error.fix}"
    return error


def timeout_error(
    spec: ServerSpec,
    seconds: float,
    process: ServerProcess | None,
    secrets: Secrets,
    asked: str = "",
) -> ConnectError:
    """The error of a time limit that ran out.

    `asked` names the request, and is empty for the connection itself.
    """
    stderr = _stderr(process, secrets)
    why = "\n".join(part for part in (_stray(process, secrets), stderr) if part) or None
    fix = f"Give it more time{'' if asked else ' with --timeout'}, or check what it does."
    if spec.contained and not asked:
        pull = f"{spec.command} pull {clean_line(spec.image or '', 120)}"
        fix = (
            f"Give it more time with --timeout; if the image is still being fetched, run `{pull}` "
            "first."
        )
    what = (
        f"the server {_name(spec, secrets)} gave no answer {f'to {asked} ' if asked else ''}within "
        f"{seconds:g} s"
    )
    return ConnectError(what, why=why, fix=fix)


def too_much_error(name: str, words: str) -> ConnectError:
    """A server sent more than hudtui accepts: `words` says what, `name` is quoted already."""
    return ConnectError(
        f"the server {name} sends more than hudtui accepts", why=f"It sent {words}.", fix=_ASK_LESS
    )


def explain_failure(
    error: BaseException,
    spec: ServerSpec,
    *,
    written: ServerSpec,
    process: ServerProcess | None,
    responses: Sequence[ResponseInfo],
    secrets: Secrets,
    connected: bool = False,
) -> HudtuiError:
    """The error for a connection that was not established, or that broke.

    Args:
        error: The exception, with its groups.
        spec: The server, variables filled in.
        written: The server as configured: its variables name the key.
        process: The process of a server that was started.
        responses: The HTTP responses so far, the newest last.
        secrets: Masked in every text.
        connected: The connection stood before it broke.
    """
    for leaf in leaf_errors(error):
        if isinstance(leaf, HudtuiError):
            return leaf
    if process is not None:
        return _process_failed(error, spec, process, secrets, connected)
    return _http_failed(error, spec, written, responses, secrets, connected)


def _process_failed(
    error: BaseException,
    spec: ServerSpec,
    process: ServerProcess,
    secrets: Secrets,
    connected: bool,
) -> ConnectError:
    name, stderr = _name(spec, secrets), _stderr(process, secrets)
    stray = secrets.hide(clean_line(process.first_stray, 160))
    if process.excess:
        return too_much_error(name, process.excess)
    if process.refused:
        return ConnectError(
            f"the server {name} does not speak MCP on its standard output: it wrote "
            f"{process.refused}",
            why=f"It began with: {stray}" if stray else stderr,
            fix="Only protocol messages may go to standard output; logs belong on standard error.",
        )
    code = process.died
    if code is not None:
        if (
            spec.contained
            and NEVER_PULL in spec.args
            and stderr
            and re.search(_NO_IMAGE, stderr, re.IGNORECASE)
        ):
            return _not_here(spec, stderr)
        wrote = stderr or "It wrote nothing to standard error."
        ended = _ended_error(spec, code, wrote, secrets, before=not connected)
        if spec.contained and NEVER_PULL in spec.args and (near := _near(spec)) is not None:
            ended.fix = f"Did you mean {near}? {ended.fix}"
        return ended
    detail = _answer(error) or _stray(process, secrets)
    return ConnectError(
        f"the server {name} "
        f"{'broke off the connection' if connected else 'does not answer as an MCP server'}",
        why="\n".join(part for part in (detail, stderr) if part) or None,
    )


def _near(spec: ServerSpec) -> str | None:
    """The environment whose name is like that of an image."""
    return did_you_mean(clean_line(spec.image or "", 120), [entry.name for entry in BUNDLED])


def _not_here(spec: ServerSpec, stderr: str) -> ConnectError:
    """A single word was named that is neither an environment nor an image on this computer."""
    word = clean_line(spec.image or "", 120)
    near = _near(spec)
    fetch = (
        f"An image is fetched by `{spec.command} pull {word}`, or if its tag is named: "
        f"{word}:latest."
    )
    return ConnectError(
        f"there is no environment and no image {word!r} on this computer, and a single word is not "
        "looked for in a registry",
        why=stderr,
        fix=f"Did you mean {near}? {fetch}" if near else fetch,
    )


def _http_failed(
    error: BaseException,
    spec: ServerSpec,
    written: ServerSpec,
    responses: Sequence[ResponseInfo],
    secrets: Secrets,
    connected: bool,
) -> ConnectError:
    import httpx2

    url = secrets.hide(mask_url(spec.url or ""))
    last = responses[-1] if responses else None
    text = secrets.hide(clean_line(str(next(iter(leaf_errors(error)), error)), 300))
    for leaf in leaf_errors(error):
        request = getattr(leaf, "_request", None)
        if (
            isinstance(leaf, httpx2.RequestError)
            and request is not None
            and LOGIN_REQUEST in request.extensions
        ):
            asked = secrets.hide(mask_url(str(request.url.copy_with(query=None))))
            return ConnectError(
                f"the login of {url} cannot continue: {asked} gives no answer",
                why=text or type(leaf).__name__,
            )
        if isinstance(leaf, httpx2.TimeoutException):
            return ConnectError(
                f"{url} gave no answer in time",
                why=type(leaf).__name__,
                fix="Check that the server is up; --timeout gives it longer.",
            )
        if isinstance(leaf, httpx2.ConnectError):
            return _unreachable(url, leaf, secrets)
        if isinstance(leaf, httpx2.RemoteProtocolError | httpx2.ReadError | httpx2.WriteError):
            return ConnectError(
                f"{url} broke off the connection in the middle of an answer",
                why=text or type(leaf).__name__,
                fix="Check the server's log, and connect again.",
            )
        if isinstance(leaf, ConnectionResetError):
            return ConnectError(
                f"{url} broke off the connection", fix="Check the server's log, and connect again."
            )
        if isinstance(leaf, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            return ConnectError(f"{url} is not an address that can be reached", why=text)
        if isinstance(leaf, httpx2.HTTPStatusError) and last is None:
            last = ResponseInfo(leaf.response.status_code, url)
    if last is not None and (last.status >= 300 or "html" in last.content_type):
        return http_status_error(last, spec, written, secrets)
    if (
        last is not None
        and last.content_type
        and not last.content_type.startswith(("application/json", "text/event-stream"))
    ):
        return ConnectError(
            f"{url} answers {clean_line(last.content_type, 60)}, not MCP", why=text, fix=_CHECK_PATH
        )
    return ConnectError(
        f"the connection to {url} broke"
        if connected
        else f"{url} does not answer as an MCP server",
        why=_answer(error) or text or type(error).__name__,
        fix=None if connected else _CHECK_PATH,
    )


def http_status_error(
    response: ResponseInfo, spec: ServerSpec, written: ServerSpec, secrets: Secrets
) -> ConnectError:
    """The error for an unsuccessful HTTP status, or for a web page."""
    url, status = secrets.hide(mask_url(spec.url or "")), response.status
    words = f"It says: {response.text}" if response.text else None
    if status in (400, 403, 421) and re.search(_HOST_REFUSED, response.text):
        host = clean_line(urlsplit(spec.url or "").netloc.rpartition("@")[2], 100)
        return ConnectError(
            f"{status}: {url} does not take requests for this host name",
            why=words,
            fix="Servers on the MCP SDK answer only to names that they allow, by default those of "
            f"their own machine. Allow {host!r} there (Python: "
            "TransportSecuritySettings(allowed_hosts=[...]) in transport_security; "
            "TypeScript: allowedHosts), or call the server by a name that it allows.",
        )
    if status in (401, 403, 407):
        return _unauthorized(response, url, written, secrets)
    if "html" in response.content_type and (
        status < 300 or (status < 400 and not response.location)
    ):
        same = response.url.rstrip("/") == (spec.url or "").rstrip("/")
        moved = "" if same else f" (after a redirect to {secrets.hide(mask_url(response.url))})"
        why = f"{status}, {clean_line(response.content_type, 60)}"
        return ConnectError(f"{url} answers a web page, not MCP{moved}", why=why, fix=_CHECK_PATH)
    if 300 <= status < 400:
        return ConnectError(
            f"{url} redirects elsewhere ({status}), and MCP requests do not follow",
            why=f"To {secrets.hide(mask_url(response.location))}" if response.location else None,
            fix="Use the address it redirects to, if you trust it.",
        )
    if status == 404:
        return ConnectError(
            f"404: there is no MCP endpoint at {url}",
            why=words,
            fix="Check the path: MCP endpoints usually end in /mcp (streamable HTTP) or /sse.",
        )
    if status in (405, 406, 415):
        here, other, path = (
            ("event streams", "streamable HTTP", "/mcp")
            if spec.sse
            else ("streamable HTTP", "an SSE endpoint", "/sse")
        )
        return ConnectError(
            f"{status}: {url} does not take MCP requests over {here}",
            why=words,
            fix=f"If it is {other}, its path usually ends in {path}.",
        )
    if status == 429:
        return ConnectError(
            f"429: {url} asks to send fewer requests",
            why=words,
            fix="Wait a little, and try again.",
        )
    if status >= 500:
        return ConnectError(
            f"{status}: the server at {url} failed",
            why=words,
            fix="Try again in a while, and check the server's log if it is yours.",
        )
    return ConnectError(
        f"{status}: {url} refused the request",
        why=words or clean_line(response.content_type, 60) or None,
    )


def _unauthorized(
    response: ResponseInfo, url: str, written: ServerSpec, secrets: Secrets
) -> ConnectError:
    keys = {
        name: value
        for name, value in written.headers.items()
        if name.lower() not in _PUBLIC_HEADERS
    }
    holder = next(
        (name for name in keys if name.lower() == "authorization"), next(iter(keys), None)
    )
    challenge = (
        f"It asks for: {secrets.hide(clean_line(response.challenge, 200))}"
        if response.challenge
        else None
    )
    challenge = challenge or (f"It says: {response.text}" if response.text else None)
    if holder is None:
        header = (
            "Give them as a header: --header 'Authorization=Bearer $NAME_OF_YOUR_KEY', or "
            "`headers` in the mcp_config."
        )
        oauth = not response.challenge or "bearer" in response.challenge.lower()
        login = response.status == 401 and oauth and keeps_secrets(response.url)
        what = f"{response.status}: {url} wants credentials, and none were sent"
        if not login:
            return ConnectError(what, why=challenge, fix=header)
        fix = (
            f"Log in with `hudtui env login {shlex.quote(url)}`, or {header[0].lower()}{header[1:]}"
        )
        return LoginRequiredError(what, why=challenge, fix=fix)
    variables = variable_names(keys[holder])
    source = f" (from {', '.join(variables)})" if variables else ""
    verb = "is not allowed" if response.status == 403 else "was refused"
    return ConnectError(
        f"{response.status}: the key in the header {holder}{source} {verb} by {url}",
        why=challenge,
        fix=f"Check {variables[0]}: is it the right key for this server, and still valid?"
        if variables
        else f"Check the value of {holder}.",
    )


def _unreachable(url: str, error: BaseException, secrets: Secrets) -> ConnectError:
    why = secrets.hide(clean_line(str(error), 300))
    causes = [error, *_causes(error)]
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        fix = "Check the address; for a certificate of your own set SSL_CERT_FILE."
        return ConnectError(
            f"the certificate or encryption of {url} is not in order", why=why, fix=fix
        )
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return ConnectError(
            f"the host of {url} is unknown", why=why, fix="Check its spelling, and the network."
        )
    return ConnectError(
        f"nothing answers at {url}", why=why, fix="Check that the server is running, and the port."
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exceptions that an exception was raised from, the nearest first."""
    seen = {error}
    while (cause := error.__cause__ or error.__context__) is not None and cause not in seen:
        seen.add(cause)
        error = cause
        yield cause


def _answer(error: BaseException) -> str | None:
    """The server's answer to a handshake that failed; None where there was none."""
    for leaf in leaf_errors(error):
        if _SDK_UNKNOWN_VERSION in str(leaf):
            version = clean_line(str(leaf).rpartition(":")[2], 40)
            return f"It speaks version {version} of MCP, which hudtui does not know."
        message = getattr(leaf, "message", None)
        if isinstance(message, str) and message and message != _SDK_CLOSED:
            return f"It answered: {clean_line(message, 300)}"
        if type(leaf).__name__ == "ValidationError":
            return f"Its answer is malformed: {clean_line(str(leaf), 300)}"
    return None


def _stderr(
    process: ServerProcess | None, secrets: Secrets, called: str = "standard error"
) -> str | None:
    text = secrets.hide(clean(process.errors())) if process is not None else ""
    return f"The end of its {called}:\n{text}" if text else None


def _stray(process: ServerProcess | None, secrets: Secrets) -> str | None:
    if process is None or not process.stray:
        return None
    return (
        "It writes other text to standard output: "
        f"{secrets.hide(clean_line(process.last_stray, 160))}"
    )


def _name(spec: ServerSpec, secrets: Secrets) -> str:
    return repr(secrets.hide(clean_line(spec.name if spec.name != "command" else spec.where, 100)))
