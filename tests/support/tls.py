"""TLS on the loopback address: an authority of its own, and a relay that ends TLS in front of a
plain server."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

Signed = tuple[x509.Certificate, EllipticCurvePrivateKey]


def certificate(name: str, by: Signed | None = None) -> Signed:
    """A certificate for 127.0.0.1 by an authority, or an authority's own."""
    key = generate_private_key(SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by[0].subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(by[1] if by else key, hashes.SHA256())
    )
    return made, key


def write(signed: Signed, folder: Path, name: str) -> tuple[Path, Path]:
    """Write a certificate and its key; gives both files."""
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    paths[0].write_bytes(signed[0].public_bytes(Encoding.PEM))
    paths[1].write_bytes(signed[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return paths


@contextlib.asynccontextmanager
async def relayed(place: str, files: tuple[Path, Path]) -> AsyncIterator[str]:
    """Serve what is at HOST:PORT over TLS; gives HOST:PORT of the relay."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    host, _, port = place.rpartition(":")

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ssl.SSLError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, inner[1]), pump(inner[0], writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
