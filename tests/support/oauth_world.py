"""An MCP server that wants a login, and its authorization server, in this process; each test
changes what it needs."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from support.servers import Handler, reply


@dataclass
class Seen:
    """A request to one of the servers."""

    method: str
    path: str
    headers: dict[str, str]
    body: str


@dataclass
class OAuthWorld:
    """`world = await OAuthWorld.start(odd_http)`; `world.url` is the MCP server, `world.issuer` the
    authorization server."""

    url: str = ""
    issuer: str = ""
    seen: list[Seen] = field(default_factory=list)
    """Requests to the MCP server, in their order."""
    asked: list[Seen] = field(default_factory=list)
    """Requests to the authorization server, in their order."""
    answers: dict[str, bytes] = field(default_factory=dict)
    """Path -> an answer in place of the usual one, at either server."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """What the authorization server's metadata say otherwise."""
    lifetime: int | None = 3600
    """Seconds of an access token."""
    refreshes: bool = True
    """Whether refresh tokens are given and taken."""
    scopes: tuple[str, ...] = ()
    """The scopes that a call of a tool needs."""
    says: str = "said"
    """What the tool answers; TOKEN stands for the token that came."""
    valid: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Access tokens that count, and their scopes."""
    _made: int = 0
    _challenge: str = ""
    _wanted: tuple[str, ...] = ()

    @classmethod
    async def start(cls, odd_http: Callable[[Handler], Awaitable[str]]) -> OAuthWorld:
        world = cls()
        world.url = f"{await odd_http(world._serve)}/mcp"
        world.issuer = await odd_http(world._authorize)
        return world

    @property
    def tokens(self) -> list[str]:
        """The values of `Authorization` that the MCP server got."""
        return [
            seen.headers["authorization"] for seen in self.seen if "authorization" in seen.headers
        ]

    def grants(self) -> list[str]:
        """The grants of the token requests."""
        return [parse_qs(one.body)["grant_type"][0] for one in self.asked if one.path == "/token"]

    async def browse(self, address: str) -> None:
        """Open the address of a login as a browser does, and follow it back."""
        where = await self.visit(address)
        await self.visit(where)

    @staticmethod
    async def visit(address: str) -> str:
        """Get an address; returns where it redirects to."""
        parts = urlsplit(address)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(
            f"GET {parts.path}?{parts.query} HTTP/1.1\r\nhost: {parts.netloc}\r\nconnection: "
            "close\r\n\r\n".encode()
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        writer.close()
        return next(
            (
                line.partition(": ")[2]
                for line in head.split("\r\n")
                if line.lower().startswith("location:")
            ),
            "",
        )

    async def _serve(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.seen.append(Seen(method, path, headers, body.decode()))
        if path in self.answers:
            writer.write(self.answers[path])
        elif path == "/.well-known/oauth-protected-resource/mcp":
            writer.write(
                reply(
                    "200 OK",
                    json.dumps({"resource": self.url, "authorization_servers": [self.issuer]}),
                )
            )
        elif path != "/mcp":
            writer.write(reply("404 Not Found"))
        else:
            await self._mcp(method, headers, body, writer)

    async def _mcp(
        self, method: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.valid:
            place = self.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
            writer.write(
                reply("401 Unauthorized", www_authenticate=f'Bearer resource_metadata="{place}"')
            )
            return
        if method != "POST":
            writer.write(reply("405 Method Not Allowed"))
            return
        message = json.loads(body)
        if "id" not in message:
            writer.write(reply("202 Accepted"))
            return
        if message["method"] == "tools/call" and not set(self.scopes) <= set(self.valid[token]):
            challenge = f'Bearer error="insufficient_scope", scope="{" ".join(self.scopes)}"'
            writer.write(reply("403 Forbidden", www_authenticate=challenge))
            return
        info = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "w", "version": "1"},
        }
        tools = {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}
        usual = {
            "initialize": info,
            "tools/list": tools,
            "tools/call": {
                "content": [{"type": "text", "text": self.says.replace("TOKEN", token)}]
            },
        }
        writer.write(
            reply(
                "200 OK",
                json.dumps(
                    {
                        "jsonrpc": "2.0",
                        "id": message["id"],
                        "result": usual.get(message["method"], {}),
                    }
                ),
            )
        )

    async def _authorize(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.asked.append(Seen(method, path, headers, body.decode()))
        parts = urlsplit(path)
        if parts.path in self.answers:
            writer.write(self.answers[parts.path])
        elif parts.path == "/.well-known/oauth-authorization-server":
            metadata = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "registration_endpoint": f"{self.issuer}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                **self.metadata,
            }
            writer.write(reply("200 OK", json.dumps(metadata)))
        elif parts.path == "/register":
            given = json.loads(body)
            made = {
                "client_id": "registered",
                "client_secret": "registered-secret",
                "redirect_uris": given["redirect_uris"],
            }
            writer.write(reply("201 Created", json.dumps(made)))
        elif parts.path == "/authorize":
            fields = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self._challenge, self._wanted = (
                fields["code_challenge"],
                tuple(fields.get("scope", "").split()),
            )
            answer = urlencode({"code": "the-code", "state": fields["state"]})
            back = f"{fields['redirect_uri']}?{answer}"
            writer.write(reply("302 Found", location=back))
        elif parts.path == "/token":
            writer.write(
                self._token({name: values[0] for name, values in parse_qs(body.decode()).items()})
            )
        else:
            writer.write(reply("404 Not Found"))

    def _token(self, fields: dict[str, str]) -> bytes:
        refused = reply("400 Bad Request", json.dumps({"error": "invalid_grant"}))
        if fields["grant_type"] == "authorization_code":
            digest = (
                base64.urlsafe_b64encode(hashlib.sha256(fields["code_verifier"].encode()).digest())
                .decode()
                .rstrip("=")
            )
            if fields["code"] != "the-code" or digest != self._challenge:
                return refused
        elif fields["grant_type"] == "refresh_token" and not (
            self.refreshes and fields["refresh_token"] == f"refresh-token-{self._made}"
        ):
            return refused
        self._made += 1
        token = f"access-token-{self._made}"
        self.valid = {token: self._wanted}
        made: dict[str, Any] = {"access_token": token, "token_type": "Bearer"}
        if self.lifetime is not None:
            made["expires_in"] = self.lifetime
        if self.refreshes:
            made["refresh_token"] = f"refresh-token-{self._made}"
        return reply("200 OK", json.dumps(made))
