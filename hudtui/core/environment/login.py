"""Logging in at a server over HTTP: the SDK's OAuth client, with the user's consent and with limits around it.

The SDK does discovery, registration, PKCE, the exchange of tokens and step-up. Here is what it leaves to its user: the login is
kept with the metadata that a refresh needs, requests do not wait for each other, no address but https (or one of this computer)
is asked or shown, and a token goes to the server that it was issued for and to no other.

Importing this module imports the SDK: do it in a thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import warnings
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import AsyncExitStack
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
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

from hudtui.core.environment.asking import LOGIN_REQUEST, Answerer, LoginNeeded, LoginOptions, Patience
from hudtui.core.environment.login_file import (
    ClientCredentials,
    KeptLogin,
    login_lock,
    login_path,
    read_login,
    server_name,
    write_login,
)
from hudtui.core.environment.login_redirect import LoginRedirect
from hudtui.core.environment.servers import Secrets, mask_url
from hudtui.core.errors import ConnectError, HudtuiError, InputError
from hudtui.core.http import is_http_url, is_loopback, origin_of
from hudtui.core.text import clean_line

Model = TypeVar("Model", bound=BaseModel)

LOGIN_LIMIT = 300.0
"""Seconds that the user has for a login in the browser."""

_PATIENCE = 30.0
"""Seconds for one request to an authorization server."""
_EARLY = 20.0
"""Seconds before its end from which a token counts as expired."""
_ANYWHERE = "http://127.0.0.1/callback"
_SECRET_METHODS = ("client_secret_basic", "client_secret_post")

# The SDK logs what authorization servers answer, and parts of that are tokens.
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL + 1)
_log = logging.getLogger("hudtui.environment")


class LoginError(ConnectError):
    """A server wants a login, and there is none."""


class ServerLogin(OAuthClientProvider):
    """The login at one server, for the requests of one connection: the `auth` of an `httpx2` client."""

    _options = LoginOptions()
    _answerer: Answerer | None = None

    def attach(
        self, server: str, *, options: LoginOptions, answerer: Answerer | None, patience: Patience, hidden: Secrets
    ) -> ServerLogin:
        """Set what the SDK's constructors do not take; returns the login itself.

        Args:
            server: The server's address.
            options: How to log in.
            answerer: Answers for the user; None where only a kept login counts.
            patience: Its limits stand still while the user is asked.
            hidden: Takes note of the tokens.
        """
        self._server, self._options, self._answerer = server, options, answerer
        self._patience, self._hidden = patience, hidden
        self._credentials = options.credentials
        self._turn = asyncio.Lock()
        self._redirect: LoginRedirect | None = None
        self._address = ""
        self._seen: tuple[int, int] | None = None
        self._own_issuer: str | None = None
        """The issuer that a server which is its own authorization server names."""
        self._had = False
        """There was a token, even if the SDK has dropped it since."""
        self._initialized = True
        return self

    # -- storage, as the SDK wants it -----------------------------------------------------------------------------

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens; `_load` has put them where the SDK looks."""
        return self.context.current_tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client; see `get_tokens`."""
        return self.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep nothing: a client is worth keeping once it has tokens."""

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        metadata, credentials = context.oauth_metadata, self._credentials
        login = KeptLogin(
            server_name(self._server),
            _json(tokens) or {},
            context.token_expiry_time,
            None if credentials is not None else _json(context.client_info),
            self._issuer_now,
            _json(metadata),
            _json(context.protected_resource_metadata),
            credentials,
            time.time(),
        )
        self._had = True
        self._hidden.add(*login.secrets)
        await asyncio.to_thread(write_login, login)
        self._seen = _stamp(self._server)

    async def _initialize(self) -> None:
        self._initialized = True

    async def _load(self) -> None:
        """Take the kept login, where another process or connection has written one."""
        stamp = None if self._options.again and self._seen is None else _stamp(self._server)
        if stamp is None or stamp == self._seen:
            return
        self._seen = stamp
        login = await asyncio.to_thread(read_login, self._server)
        if login is None:
            return
        self._hidden.add(*login.secrets)
        context = self.context
        try:
            tokens = OAuthToken.model_validate(login.tokens)
            metadata = _model(OAuthMetadata, login.authorization_server)
            resource = _model(ProtectedResourceMetadata, login.resource)
            client = _model(OAuthClientInformationFull, login.client)
        except ValueError:
            _log.warning("the login that is kept for %s cannot be read", mask_url(self._server))
            return
        self._had = True
        context.current_tokens, context.token_expiry_time = tokens, login.expires_at
        context.oauth_metadata, context.protected_resource_metadata = metadata, resource
        if resource is not None and resource.authorization_servers:
            context.auth_server_url = str(resource.authorization_servers[0])
        if client is not None and self._credentials is None:
            context.client_info = client

    # -- one request ----------------------------------------------------------------------------------------------

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token; refresh it or log in where that is needed, once each."""
        if origin_of(str(request.url)) != origin_of(self._server):
            yield request
            return
        response: httpx2.Response | None = None
        tried: set[str] = set()
        while True:
            async with AsyncExitStack() as turn:
                steps = await self._next(request, response, tried, turn)
                if steps == "give up":
                    return
                if not isinstance(steps, str):
                    try:
                        outgoing = await anext(steps, None)
                        while outgoing is not None:
                            answer = yield outgoing
                            try:
                                outgoing = await steps.asend(answer)
                            except StopAsyncIteration:
                                outgoing = None
                    finally:
                        await steps.aclose()
            self._add_token(request)
            response = yield request
            if not _wants_login(response):
                return

    async def _next(
        self, request: httpx2.Request, response: httpx2.Response | None, tried: set[str], turn: AsyncExitStack
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response] | str:
        """What comes before the request is sent (again): the requests of a refresh or a login, or nothing."""
        sent = request.headers.get("Authorization")
        if response is None and not self._expired and self._seen == _stamp(self._server) and not self._options.again:
            return "send"  # most requests wait for no other
        await turn.enter_async_context(self._turn)
        if response is None:
            await self._load()
            if not (self._expired and self.context.can_refresh_token()):
                return "send"
        if "login" in tried:
            return "give up"
        with self._patience.paused():
            await turn.enter_async_context(login_lock(self._server))
        await self._load()
        if response is None and not self._expired:
            return "send"  # another connection has refreshed the token meanwhile
        if response is not None and response.status_code == 401 and self._token is not None and f"Bearer {self._token}" != sent:
            return "send"  # another connection has logged in meanwhile
        if "refresh" not in tried and self.context.can_refresh_token() and (response is None or response.status_code == 401):
            tried.add("refresh")
            self.context.token_expiry_time = 1.0
            return self._drive(request, None)
        if response is None:
            return "send"
        tried.add("login")
        return self._drive(request, response) if await self._may_log_in(response, turn) else "give up"

    async def _drive(
        self, request: httpx2.Request, response: httpx2.Response | None
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The SDK's own requests, until it would send `request`; `response` is the answer where that was sent already."""
        flow = super().async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is not request:
                    self._mark(outgoing)
                    answer = await self._as_expected(outgoing, (yield outgoing))
                elif response is not None:
                    answer, response = response, None
                else:
                    return
                outgoing = await flow.asend(answer)
        except HudtuiError:
            raise
        except Exception as error:  # whatever an answer of another's server leads to
            raise self._failed(error) from None
        finally:
            await flow.aclose()

    @property
    def _token(self) -> str | None:
        tokens = self.context.current_tokens
        return tokens.access_token if tokens is not None else None

    @property
    def _expired(self) -> bool:
        end = self.context.token_expiry_time
        return self._token is not None and end is not None and end - _EARLY <= time.time()

    @property
    def _issuer_now(self) -> str:
        """The authorization server as far as it is known: without metadata it is the server itself, as in older MCP."""
        metadata = self.context.oauth_metadata
        if metadata is not None:
            return str(metadata.issuer)
        return self._origin

    @property
    def _origin(self) -> str:
        parts = urlsplit(self._server)
        return f"{parts.scheme}://{parts.netloc}"

    def _add_token(self, request: httpx2.Request) -> None:
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"
        else:
            request.headers.pop("Authorization", None)

    def _mark(self, request: httpx2.Request) -> None:
        """Check where a request of the login goes, and limit it."""
        self._require_safe(str(request.url))
        request.extensions = {
            **request.extensions,
            LOGIN_REQUEST: True,
            "timeout": httpx2.Timeout(_PATIENCE).as_dict(),
        }

    async def _as_expected(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Servers of MCP 2025-03-26 are their own authorization servers, and may name one of their paths as the issuer.

        The SDK accepts only the server's origin there: it gets that.
        """
        known, path = self.context.auth_server_url, request.url.path
        if known is not None or path != "/.well-known/oauth-authorization-server" or response.status_code != 200:
            return response
        try:
            data = json.loads(await response.aread())
            issuer = data["issuer"]
        except (ValueError, RecursionError, LookupError, TypeError):
            return response
        if not isinstance(issuer, str) or origin_of(issuer) != origin_of(self._server):
            return response
        self._own_issuer = issuer
        return httpx2.Response(200, json={**data, "issuer": self._origin}, request=request)

    def _require_safe(self, address: str) -> None:
        """Raise unless an address is https, or of this computer as the server is."""
        plain = is_loopback(address) and is_loopback(self._server)
        if is_http_url(address) and not urlsplit(address).username and (plain or address.lower().startswith("https://")):
            return
        raise LoginError(
            f"{self._shown} leads its login to an address that hudtui does not use",
            why=f"To {clean_line(mask_url(address), 200)}: only https is safe.",
        )

    @property
    def _shown(self) -> str:
        return self._hidden.hide(mask_url(self._server))

    # -- the user -------------------------------------------------------------------------------------------------

    async def _may_log_in(self, response: httpx2.Response, turn: AsyncExitStack) -> bool:
        """Ask the user, and get ready for the browser. False where hudtui never asks: the server's own answer then counts."""
        step_up = response.status_code == 403
        scope = clean_line(extract_scope_from_www_auth(response) or "", 200)
        alone = self._credentials is not None and self._credentials.alone
        if self._answerer is None and not alone:
            if not self._had:
                return False
            raise LoginError(
                f"{response.status_code}: the login at {self._shown} " + ("does not cover this" if step_up else "has expired"),
                why=f"It asks for the scopes: {scope}" if scope else None,
                fix=f"Log in again: hudtui env login {self._shown}",
            )
        if alone:
            return True
        assert self._answerer is not None
        needed = LoginNeeded(self._shown, "scope" if step_up else "expired" if self._had else "none", scope)
        if not await self._ask(self._answerer.may_log_in(needed)):
            raise LoginError(f"{self._shown} wants a login, and you declined", fix=f"hudtui env login {self._shown}")
        client = self.context.client_info
        redirect = await self._listen(client, turn)
        self._redirect = redirect
        self.context.client_metadata.redirect_uris = [AnyUrl(redirect.uri)]
        return True

    async def _ask(self, question: Awaitable[bool]) -> bool:
        """The user's answer; a question that cannot be asked, as at the end of a terminal's input, is declined."""
        with self._patience.paused():
            try:
                return await question
            except HudtuiError:
                raise
            except Exception as error:
                _log.warning("the user could not be asked: %s", type(error).__name__)
                return False

    async def _listen(self, client: OAuthClientInformationFull | None, turn: AsyncExitStack) -> LoginRedirect:
        """Listen for the browser: where the client was registered with a port, at that one."""
        registered = next((urlsplit(str(uri)).port for uri in (client.redirect_uris or ()) if client), None) if client else None
        if registered and not self._options.port and self._credentials is None:
            try:
                return await turn.enter_async_context(LoginRedirect(registered))
            except InputError:
                self.context.client_info = None  # it is registered again, with another port
        return await turn.enter_async_context(LoginRedirect(self._options.port))

    async def show_address(self, address: str) -> None:
        """The SDK has the address that the user is to open."""
        self._require_safe(address)
        assert self._redirect is not None
        self._redirect.expect(parse_qs(urlsplit(address).query)["state"][-1])
        self._address = address

    async def come_back(self) -> AuthorizationCodeResult:
        assert self._answerer is not None and self._redirect is not None
        redirect, shown = self._redirect, clean_line(mask_url(self._issuer_now), 200)
        try:
            async with asyncio.timeout(LOGIN_LIMIT):
                finished = await self._ask(self._answerer.visit(self._shown, self._address, redirect))
        except TimeoutError:
            raise LoginError(
                f"there was no answer from {shown} within {LOGIN_LIMIT / 60:.0f} minutes",
                fix="Begin again, and open the address.",
            ) from None
        if not finished:
            raise LoginError(f"the login at {self._shown} was cancelled")
        if redirect.refused:
            raise LoginError(f"{shown} refuses the login", why=f"It says: {redirect.refused}")
        named = redirect.issuer
        if named is not None and named == self._own_issuer:
            named = self._issuer_now  # as the SDK knows it
        return AuthorizationCodeResult(code=redirect.code, state=redirect.state, iss=named)

    # -- what the SDK asks of its subclasses ----------------------------------------------------------------------

    def _select_authorization_server(self, advertised: list[str]) -> str:
        wanted = self._credentials.issuer if self._credentials is not None else None
        return next((one for one in advertised if wanted is not None and _same_issuer(one, wanted)), advertised[0])

    async def _perform_authorization(self) -> httpx2.Request:
        context, client = self.context, self.context.client_info
        await self._check_issuer()
        if (
            client is not None
            and client.client_secret
            and (self._credentials is not None or not client.token_endpoint_auth_method)
        ):
            known = context.oauth_metadata.token_endpoint_auth_methods_supported if context.oauth_metadata is not None else None
            takes = next((method for method in _SECRET_METHODS if method in (known or _SECRET_METHODS)), None)
            client.token_endpoint_auth_method = takes or client.token_endpoint_auth_method
        if self._options.scope:
            context.client_metadata.scope = union_scopes(context.client_metadata.scope, self._options.scope)
        return await super()._perform_authorization()

    async def _check_issuer(self) -> None:
        """A secret of the user goes only to the authorization server that the user named or agreed to."""
        credentials, issuer = self._credentials, self._issuer_now
        if credentials is None:
            return
        if credentials.issuer is None:
            shown = clean_line(mask_url(issuer), 200)
            if self._answerer is None or not await self._ask(self._answerer.may_send_secret(self._shown, shown)):
                raise LoginError(
                    f"the client's credentials were not sent to {shown}",
                    fix=f"If they are for that authorization server, say so: --issuer {shown}",
                )
            self._credentials = ClientCredentials(**{**vars(credentials), "issuer": issuer})
        elif not _same_issuer(credentials.issuer, issuer):
            raise LoginError(
                f"{self._shown} leads its login to another authorization server than the server where the client is registered",
                why=f"To {clean_line(mask_url(issuer), 200)}, not {clean_line(mask_url(credentials.issuer), 200)}.",
            )

    def _failed(self, error: Exception) -> LoginError:
        """The error of a login that failed; texts of the SDK may quote tokens, so only the code of an OAuth error is taken."""
        issuer = clean_line(mask_url(self._issuer_now), 200)
        why = _oauth_error(str(error))
        if isinstance(error, OAuthRegistrationError):
            return LoginError(
                f"{issuer} does not register hudtui as a client",
                why=why,
                fix="Register a client there by hand, and name it: --client-id ID (see `hudtui env login --help`).",
            )
        if isinstance(error, OAuthTokenError):
            return LoginError(f"{issuer} gives no token", why=why or "Its answer is no token.")
        _log.info("a login at %s failed: %s", self._shown, type(error).__name__)
        words = (
            clean_line(str(error), 300) if type(error).__name__ == "OAuthFlowError" and "tate parameter" not in str(error) else ""
        )
        return LoginError(
            f"the login at {self._shown} failed", why=why or words or "The answers of its authorization server make no sense."
        )


class SecretLogin(ServerLogin, ClientCredentialsOAuthProvider):
    """A client that logs in for itself with a secret."""


class SignedLogin(ServerLogin, PrivateKeyJWTOAuthProvider):
    """A client that logs in for itself with an assertion that it signs."""


def login_for(server: str, *, answerer: Answerer | None, patience: Patience, hidden: Secrets) -> ServerLogin | None:
    """The login for the requests to a server; None where there is none, and no user who could log in.

    Reads a file: call it in a thread.
    """
    options = answerer.options if answerer is not None else LoginOptions()
    kept = read_login(server)
    if answerer is None and kept is None:
        return None
    if not (server.startswith("https://") or is_loopback(server)):
        return None
    if options.credentials is None and kept is not None and kept.credentials is not None and not options.again:
        options = LoginOptions(**{**vars(options), "credentials": kept.credentials})
    made = _made(server, options)
    made.context.storage = made
    if not isinstance(made, SecretLogin | SignedLogin):
        made.context.redirect_handler, made.context.callback_handler = made.show_address, made.come_back
    return made.attach(server, options=options, answerer=answerer, patience=patience, hidden=hidden)


def _made(server: str, options: LoginOptions) -> ServerLogin:
    credentials = options.credentials
    unset: Any = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `issuer` is checked here: the SDK's own check knows no question to the user
        if credentials is not None and credentials.alone:
            name = credentials.client_id
            if credentials.private_key is None:
                made: Any = SecretLogin(server, unset, name, credentials.secret or "")
            else:
                signing = SignedJWTParameters(
                    issuer=name, subject=name, signing_key=credentials.private_key, signing_algorithm=credentials.algorithm
                )
                made = SignedLogin(server, unset, name, signing.create_assertion_provider())
            made.context.client_info = made._fixed_client_info
            return made  # type: ignore[no-any-return]
    document = options.document if credentials is None and is_valid_client_metadata_url(options.document) else None
    metadata = OAuthClientMetadata(client_name="hudtui", redirect_uris=[AnyUrl(_ANYWHERE)])
    login = ServerLogin(server, metadata, unset, client_metadata_url=document)
    if credentials is not None:
        login.context.client_info = OAuthClientInformationFull(client_id=credentials.client_id, client_secret=credentials.secret)
    return login


def _same_issuer(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")


def _wants_login(response: httpx2.Response) -> bool:
    challenge = response.headers.get("www-authenticate", "")
    if response.status_code == 401:
        return not challenge or "bearer" in challenge.lower()
    return response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"


def _oauth_error(text: str) -> str | None:
    """The error that an authorization server answered, from a message that holds its JSON."""
    match = re.search(r"\{.*\}", text, re.DOTALL)
    try:
        data = json.loads(match[0]) if match else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, Mapping) or not isinstance(data.get("error"), str):
        return None
    about = data.get("error_description")
    return f"It says: {clean_line(data['error'] + (f': {about}' if isinstance(about, str) else ''), 300)}"


def _stamp(server: str) -> tuple[int, int] | None:
    """What changes when the login's file is written."""
    try:
        stat = login_path(server).stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino


def _json(model: BaseModel | None) -> dict[str, Any] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _model(kind: type[Model], data: Mapping[str, Any] | None) -> Model | None:
    return None if data is None else kind.model_validate(dict(data))
