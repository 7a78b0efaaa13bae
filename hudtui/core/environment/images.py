"""Images in a tool's answer.

Described by type and size, and saved so that they can be opened outside the terminal.
The type of an image is what its bytes say, whatever the server calls it.
"""

from __future__ import annotations

import base64
import binascii
import struct
from pathlib import Path

from hudtui.core.environment.values import ContentBlock
from hudtui.core.errors import InputError
from hudtui.core.files import write_atomic
from hudtui.core.text import clean_line

SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
"""Types of images that are known, and how names of their files end."""


def image_bytes(block: ContentBlock) -> bytes:
    """The bytes of an image block.

    Raises:
        InputError: The server sent no valid base64.
    """
    try:
        return base64.b64decode(block.data or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError("the server's image is damaged", why=str(error)) from None


def image_type(data: bytes) -> str | None:
    """Return the type of a PNG, JPEG, GIF or WebP image by how its bytes begin.

    None for anything else.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def describe_image(block: ContentBlock) -> str:
    """One line.

    `image/png, 640x480, 12.3 kB`; the dimensions only where the format starts with them.
    """
    stated = clean_line(block.mime_type or block.type, 60)
    try:
        return describe_bytes(image_bytes(block), stated)
    except InputError as error:
        return f"{stated}, {error.what}"


def describe_bytes(data: bytes, stated: str) -> str:
    """The same of an image's bytes; `said` is what its sender calls its type."""
    kind, size = image_type(data), image_dimensions(data)
    parts = [
        kind or f"{stated}, of no known format",
        f"{size[0]}x{size[1]}" if size else "",
        f"{len(data) / 1000:.1f} kB",
    ]
    return ", ".join(part for part in parts if part)


def image_dimensions(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels of a PNG, GIF or JPEG; None for other formats."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        return struct.unpack(">II", data[16:24])
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return struct.unpack("<HH", data[6:10])
    if data.startswith(b"\xff\xd8"):
        at = 2
        while at + 9 <= len(data) and data[at] == 0xFF:
            marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
            if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
                height, width = struct.unpack(">HH", data[at + 5 : at + 9])
                return width, height
            at += 2 + length
    return None


def save_bytes(data: bytes, folder: Path) -> Path:
    """Write an image into `folder`, under a name made from its content, and return the path.

    Raises:
        InputError: It is of another type than PNG, JPEG, GIF and WebP, or the folder cannot be
            written to.
    """
    import hashlib

    kind = image_type(data)
    if kind is None:
        raise InputError(
            "this is no PNG, JPEG, GIF or WebP image",
            why="Other files are not opened: what they do when opened is not known.",
        )
    path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}{SUFFIXES[kind]}"
    if not path.exists():
        write_atomic(path, data)
    return path
