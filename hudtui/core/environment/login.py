"""Logins at servers over HTTP, by the SDK's OAuth client with limits around it.

The SDK does discovery, registration, PKCE, and the exchange and renewal of tokens. This module adds
what it leaves to its user: tokens are kept with the metadata that a renewal needs, requests do not
wait for each other, no address but https (or one of this computer) is asked or shown, and a token
goes to the server that it was issued for and to no other.

Importing this module imports the SDK: do it in a thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shlex
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from typing import Any, TypeVar
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx2
from mcp.client.auth import (
    OAuthClientProvider,
    OAuthFlowError,
    OAuthRegistrationError,
    OAuthTokenError,
)
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
    extract_scope_from_www_auth,
    is_valid_client_metadata_url,
    union_scopes,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel

from hudtui.core.environment.errors import LOGIN_REQUEST, LoginRequiredError
from hudtui.core.environment.login_file import (
    LOGIN_LIMIT,
    ClientCredentials,
    KeptLogin,
    LoginOptions,
    login_lock,
    login_path,
    read_login,
    server_name,
    write_login,
)
from hudtui.core.environment.login_redirect import LoginRedirect
from hudtui.core.environment.servers import Secrets
from hudtui.core.errors import ConnectError, HudtuiError
from hudtui.core.http import is_http_url, is_loopback, origin_of
from hudtui.core.masking import mask_url
from hudtui.core.text import clean_line

Model = TypeVar("Model", bound=BaseModel)

_REQUEST_LIMIT = 30.0
"""Seconds for one request to an authorization server."""
_EARLY = 20.0
"""Seconds before its end from which a token counts as expired."""
_EXPIRED = 1.0
"""A time of expiry in the past: the SDK then renews the token before it sends a request."""
_SECRET_METHODS = ("client_secret_basic", "client_secret_post")

# The SDK logs what authorization servers answer, and parts of that are tokens.
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL + 1)
_log = logging.getLogger("hudtui.environment")


class ServerLogin(httpx2.Auth):
    """The login at one server, for the requests of one connection.

    The `auth` of an `httpx2` client.
    A request carries the kept token. Where that has expired, or is not accepted, a provider of the
    SDK renews it; where the user has asked for a login, a provider makes one.

    Args:
        server: The server's address.
        login: The login that is kept, or that the user asks for.
        secrets: Takes note of the tokens.
    """

    def __init__(self, server: str, login: KeptLogin | LoginOptions, secrets: Secrets) -> None:
        self._server = server
        self._secrets = secrets
        self._wanted = login if isinstance(login, LoginOptions) else None
        self._kept = login if isinstance(login, KeptLogin) else None
        self._stamp = _stamp(server)
        self._turn = asyncio.Lock()
        if self._kept is not None:
            secrets.add(*self._kept.secrets)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token; renew it or log in at most once before and once after."""
        if origin_of(str(request.url)) != origin_of(self._server):
            yield request
            return
        response: httpx2.Response | None = None
        for _ in range(2):
            async with AsyncExitStack() as held:
                steps = await self._steps(request, response, held)
                outgoing = await anext(steps, None) if steps is not None else None
                while steps is not None and outgoing is not None:
                    answer = yield outgoing
                    outgoing = await _next_request(steps, answer)
            self._add_token(request)
            response = yield request
            if not _wants_login(response):
                return
        assert response is not None
        raise self._not_accepted(response)

    async def _steps(
        self, request: httpx2.Request, response: httpx2.Response | None, held: AsyncExitStack
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response] | None:
        """Requests that come before `request` is sent (again); None if there are none."""
        fresh = not self._must_renew and self._stamp == _stamp(self._server)
        if response is None and (fresh or self._wanted is not None):
            return None
        await held.enter_async_context(self._turn)
        sent = request.headers.get("Authorization")
        if response is not None and self._token is not None and sent != f"Bearer {self._token}":
            return None  # another request of this connection has renewed it meanwhile
        await held.enter_async_context(login_lock(self._server))
        before = self._token
        await self._load()
        if self._token != before and not self._must_renew:
            return None  # another process has renewed it meanwhile
        if response is None:
            return self._drive(request, None, self._renewing()) if self._must_renew else None
        if self._wanted is not None:
            return self._drive(request, response, await self._logging_in(self._wanted, held))
        assert self._kept is not None
        if response.status_code == 401 and self._kept.renews:
            return self._drive(request, None, self._renewing())
        raise self._not_accepted(response)

    async def _drive(
        self,
        request: httpx2.Request,
        response: httpx2.Response | None,
        provider: OAuthClientProvider,
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Pass on a provider's own requests, until it would send `request`; keep its tokens.

        Args:
            request: The request to the server.
            response: Its answer, where it was sent already.
            provider: A provider that has sent nothing yet.
        """
        storage = provider.context.storage
        assert isinstance(storage, _TokenStorage)
        flow = provider.async_auth_flow(request)
        try:
            outgoing: httpx2.Request | None = await anext(flow)
            while outgoing is not None:
                if outgoing is not request:
                    self._check(outgoing, provider.context, storage.credentials)
                    answer = await self._as_expected(outgoing, (yield outgoing), provider.context)
                elif response is not None:
                    answer, response = response, None
                else:
                    break
                outgoing = await _next_request(flow, answer)
        except HudtuiError:
            raise
        except Exception as error:  # whatever an answer of another's server leads to
            raise self._failed(error, provider.context) from None
        finally:
            await flow.aclose()
        if storage.made is not None:
            await self._keep(storage.made, provider.context)

    # -- providers
    # ----------------------------------------------------------------------------------

    def _renewing(self) -> OAuthClientProvider:
        """A provider that begins with renewing the kept token, where that was issued."""
        kept = self._kept
        assert kept is not None
        tokens = OAuthToken.model_validate(kept.tokens)
        storage = _TokenStorage(tokens, _model(OAuthClientInformationFull, kept.client))
        made = OAuthClientProvider(self._server, _client_metadata(), storage)
        context = made.context
        context.token_expiry_time = _EXPIRED
        context.oauth_metadata = _model(OAuthMetadata, kept.authorization_server)
        context.protected_resource_metadata = _model(ProtectedResourceMetadata, kept.resource)
        return made

    async def _logging_in(self, wanted: LoginOptions, held: AsyncExitStack) -> OAuthClientProvider:
        """A provider that logs in as the user wants it."""
        credentials = wanted.credentials
        redirect = await held.enter_async_context(LoginRedirect(wanted.port))
        storage = _TokenStorage(credentials=credentials)
        if credentials is not None:
            storage.client = OAuthClientInformationFull(
                client_id=credentials.client_id, client_secret=credentials.secret
            )
        document = wanted.document if is_valid_client_metadata_url(wanted.document) else None
        address = ""

        async def show(shown: str) -> None:
            nonlocal address
            self._require_safe(shown)
            self._check_issuer(made.context, credentials)
            _choose_method(made.context)
            address = _with_scope(shown, wanted.scope, made.context)
            redirect.expect(parse_qs(urlsplit(address).query)["state"][-1])

        async def come_back() -> AuthorizationCodeResult:
            await self._visit(wanted, address, redirect, made.context)
            return AuthorizationCodeResult(
                code=redirect.code, state=redirect.state, iss=redirect.issuer
            )

        made = OAuthClientProvider(
            self._server,
            _client_metadata(redirect.uri),
            storage,
            show,
            come_back,
            client_metadata_url=document if credentials is None else None,
        )
        return made

    async def _visit(
        self, wanted: LoginOptions, address: str, redirect: LoginRedirect, context: OAuthContext
    ) -> None:
        """Have the user open an address, until the browser is back with a code."""
        assert wanted.visit is not None
        issuer = clean_line(mask_url(self._issuer(context)), 200)
        try:
            async with asyncio.timeout(LOGIN_LIMIT):
                finished = await wanted.visit(self._shown, address, redirect)
        except TimeoutError:
            raise ConnectError(
                f"there was no answer from {issuer} within {LOGIN_LIMIT / 60:.0f} minutes",
                fix="Begin again, and open the address.",
            ) from None
        if not finished:
            raise ConnectError(f"the login at {self._shown} was cancelled")
        if redirect.refused:
            raise ConnectError(f"{issuer} refuses the login", why=f"It says: {redirect.refused}")

    # -- the kept login
    # -----------------------------------------------------------------------------

    @property
    def _token(self) -> str | None:
        token = self._kept.tokens.get("access_token") if self._kept is not None else None
        return token if isinstance(token, str) else None

    @property
    def _must_renew(self) -> bool:
        """True if the token has expired, and a refresh token can take its place."""
        kept = self._kept
        if kept is None or kept.expires_at is None or not kept.tokens.get("refresh_token"):
            return False
        return kept.expires_at - _EARLY <= time.time()

    async def _load(self) -> None:
        """Take the kept login, where another process or connection has written one."""
        stamp = _stamp(self._server)
        if self._wanted is not None or stamp == self._stamp:
            return
        login = await asyncio.to_thread(_readable_login, self._server)
        self._stamp = stamp
        if login is not None:
            self._kept = login
            self._secrets.add(*login.secrets)

    async def _keep(self, tokens: OAuthToken, context: OAuthContext) -> None:
        login = KeptLogin(
            server_name(self._server),
            _json(tokens) or {},
            context.token_expiry_time,
            _json(context.client_info),
            self._issuer(context),
            _json(context.oauth_metadata),
            _json(context.protected_resource_metadata),
            time.time(),
        )
        self._kept, self._wanted = login, None
        self._secrets.add(*login.secrets)
        await asyncio.to_thread(write_login, login)
        self._stamp = _stamp(self._server)

    def _add_token(self, request: httpx2.Request) -> None:
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"
        else:
            request.headers.pop("Authorization", None)

    # -- checks and errors
    # --------------------------------------------------------------------------

    @property
    def _shown(self) -> str:
        return self._secrets.hide(mask_url(self._server))

    def _issuer(self, context: OAuthContext) -> str:
        """The authorization server: without metadata it is the server itself, as in older MCP."""
        if context.oauth_metadata is not None:
            return str(context.oauth_metadata.issuer)
        return self._origin

    @property
    def _origin(self) -> str:
        parts = urlsplit(self._server)
        return f"{parts.scheme}://{parts.netloc}"

    async def _as_expected(
        self, request: httpx2.Request, response: httpx2.Response, context: OAuthContext
    ) -> httpx2.Response:
        """Metadata with the issuer that the SDK expects of a server of MCP 2025-03-26.

        Such a server is its own authorization server, and may name one of its paths as the issuer.
        The SDK accepts only the origin.
        """
        legacy = request.url.path == "/.well-known/oauth-authorization-server"
        if not legacy or context.auth_server_url is not None or response.status_code != 200:
            return response
        try:
            metadata = json.loads(await response.aread())
            issuer = metadata["issuer"]
        except (ValueError, RecursionError, LookupError, TypeError):
            return response
        if not isinstance(issuer, str) or origin_of(issuer) != origin_of(self._server):
            return response
        return httpx2.Response(200, json={**metadata, "issuer": self._origin}, request=request)

    def _check(
        self, request: httpx2.Request, context: OAuthContext, credentials: ClientCredentials | None
    ) -> None:
        """Check where a request of a login goes, and limit its time."""
        self._require_safe(str(request.url))
        if request.method == "POST":
            self._check_issuer(context, credentials)
        request.extensions = {
            **request.extensions,
            LOGIN_REQUEST: True,
            "timeout": httpx2.Timeout(_REQUEST_LIMIT).as_dict(),
        }

    def _check_issuer(self, context: OAuthContext, credentials: ClientCredentials | None) -> None:
        """Raise unless the user's client is registered at the authorization server in use."""
        if credentials is None or credentials.issuer is None:
            return
        issuer = self._issuer(context)
        if credentials.issuer.rstrip("/") == issuer.rstrip("/"):
            return
        used, registered = (clean_line(mask_url(one), 200) for one in (issuer, credentials.issuer))
        raise ConnectError(
            f"{self._shown} leads its login to another authorization server than the server where "
            "the client is registered",
            why=f"To {used}, not {registered}. The client's credentials were not sent.",
            fix=f"If the client is registered there: --issuer {used}",
        )

    def _require_safe(self, address: str) -> None:
        """Raise unless an address is https, or of this computer as the server is."""
        local = is_loopback(address) and is_loopback(self._server)
        encrypted = local or address.lower().startswith("https://")
        if is_http_url(address) and encrypted and not urlsplit(address).username:
            return
        raise ConnectError(
            f"{self._shown} leads its login to an address that hudtui does not use",
            why=f"To {clean_line(mask_url(address), 200)}: only https is safe.",
        )

    def _not_accepted(self, response: httpx2.Response) -> LoginRequiredError:
        asked = clean_line(extract_scope_from_www_auth(response) or "", 200)
        scope = asked
        if response.status_code == 403:
            problem = "does not cover this"
            granted = self._kept.tokens.get("scope") if self._kept is not None else None
            scope = union_scopes(granted, asked) or ""
        else:
            problem = "has expired, or is not accepted"
        option = f" --scope {shlex.quote(scope)}" if scope else ""
        return LoginRequiredError(
            f"{response.status_code}: the login at {self._shown} {problem}",
            why=f"It asks for the scopes: {asked}" if asked else None,
            fix=f"Log in again: hudtui env login {shlex.quote(self._shown)}{option}",
            scope=scope,
        )

    def _failed(self, error: Exception, context: OAuthContext) -> ConnectError:
        """The error of a failed login.

        Texts of the SDK may quote tokens: only OAuth codes are used.
        """
        issuer = clean_line(mask_url(self._issuer(context)), 200)
        why = _oauth_error(str(error))
        if isinstance(error, OAuthRegistrationError):
            return ConnectError(
                f"{issuer} does not register hudtui as a client",
                why=why,
                fix=(
                    "Register a client there by hand, and name it: --client-id ID (see `hudtui env "
                    "login --help`)."
                ),
            )
        if isinstance(error, OAuthTokenError):
            return ConnectError(f"{issuer} gives no token", why=why or "Its answer is no token.")
        _log.info("a login at %s failed: %s", self._shown, type(error).__name__)
        words = clean_line(str(error), 300) if type(error) is OAuthFlowError else ""
        return ConnectError(
            f"the login at {self._shown} failed",
            why=why or words or "The answers of its authorization server make no sense.",
        )


class _TokenStorage:
    """Tokens and the client for one provider of the SDK; `ServerLogin` writes the file."""

    def __init__(
        self,
        tokens: OAuthToken | None = None,
        client: OAuthClientInformationFull | None = None,
        credentials: ClientCredentials | None = None,
    ) -> None:
        self.client = client
        self.credentials = credentials
        self.made: OAuthToken | None = None
        """The tokens that the provider got."""
        self._tokens = tokens

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.made = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def login_for(server: str, wanted: LoginOptions | None, secrets: Secrets) -> ServerLogin | None:
    """The login for the requests to a server; None if none is kept and the user wants none.

    Reads a file: call it in a thread.
    """
    login = wanted or _readable_login(server)
    if login is None or not (server.startswith("https://") or is_loopback(server)):
        return None
    return ServerLogin(server, login, secrets)


def _readable_login(server: str) -> KeptLogin | None:
    """The login that is kept, or None, also where the SDK cannot read its parts."""
    login = read_login(server)
    if login is None:
        return None
    try:
        OAuthToken.model_validate(login.tokens)
        _model(OAuthMetadata, login.authorization_server)
        _model(ProtectedResourceMetadata, login.resource)
        _model(OAuthClientInformationFull, login.client)
    except ValueError:
        _log.warning("the login that is kept for %s cannot be read", mask_url(server))
        return None
    return login


async def _next_request(
    flow: AsyncGenerator[httpx2.Request, httpx2.Response], answer: httpx2.Response
) -> httpx2.Request | None:
    try:
        return await flow.asend(answer)
    except StopAsyncIteration:
        return None


def _client_metadata(redirect: str = "http://127.0.0.1/callback") -> OAuthClientMetadata:
    return OAuthClientMetadata(client_name="hudtui", redirect_uris=[AnyUrl(redirect)])


def _choose_method(context: OAuthContext) -> None:
    """Have the client's secret sent, where neither the user nor the registration says how."""
    client, metadata = context.client_info, context.oauth_metadata
    if client is None or not client.client_secret or client.token_endpoint_auth_method:
        return
    accepted = metadata.token_endpoint_auth_methods_supported if metadata is not None else None
    for method in _SECRET_METHODS:
        if accepted is None or method in accepted:
            client.token_endpoint_auth_method = method
            return


def _with_scope(address: str, scope: str | None, context: OAuthContext) -> str:
    """The address of a login with the scopes that the user asks for besides the server's."""
    if not scope:
        return address
    wanted = union_scopes(context.client_metadata.scope, scope) or ""
    context.client_metadata.scope = wanted  # of the token, where its answer names none
    parts = urlsplit(address)
    fields = {**dict(parse_qsl(parts.query)), "scope": wanted}
    if "offline_access" in wanted.split():
        fields["prompt"] = "consent"
    return parts._replace(query=urlencode(fields)).geturl()


def _wants_login(response: httpx2.Response) -> bool:
    challenge = response.headers.get("www-authenticate", "")
    if response.status_code == 401:
        return not challenge or "bearer" in challenge.lower()
    error = extract_field_from_www_auth(response, "error")
    return response.status_code == 403 and error == "insufficient_scope"


def _oauth_error(text: str) -> str | None:
    """The error of an authorization server, from a message of the SDK that holds its JSON."""
    match = re.search(r"\{.*\}", text, re.DOTALL)
    try:
        data = json.loads(match[0]) if match else None
    except (ValueError, RecursionError):
        return None
    code = data.get("error") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(code, str):
        return None
    about = data.get("error_description")
    words = f"{code}: {about}" if isinstance(about, str) else code
    return f"It says: {clean_line(words, 300)}"


def _stamp(server: str) -> tuple[int, int] | None:
    """The time and the inode of a login's file, which change when it is written."""
    try:
        stat = login_path(server).stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino


def _json(model: BaseModel | None) -> dict[str, Any] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _model(kind: type[Model], data: Mapping[str, Any] | None) -> Model | None:
    return None if data is None else kind.model_validate(dict(data))
