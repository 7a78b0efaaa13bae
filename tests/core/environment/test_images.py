from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest

from hudtui.core.environment.images import describe_image, image_dimensions, image_type, save_bytes
from hudtui.core.environment.values import ContentBlock
from hudtui.core.errors import InputError

PNG = (
    b"\x89PNG\r\n\x1a\n"
    + struct.pack(">I4sII", 13, b"IHDR", 640, 480)
    + b"\x08\x02\x00\x00\x00"
    + b"0" * 100
)
GIF = b"GIF89a" + struct.pack("<HH", 3, 5) + b"rest"
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc2\x00\x0b\x08" + struct.pack(">HH", 20, 30) + b"rest"


def _block(data: bytes, kind: str = "image/png") -> ContentBlock:
    return ContentBlock("image", data=base64.b64encode(data).decode(), mime_type=kind)


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (PNG, (640, 480)),
        (GIF, (3, 5)),
        (JPEG, (30, 20)),
        (b"", None),
        (PNG[:20], None),
        (b"\xff\xd8\xff\xe0\x00\x00", None),
    ],
)
def test_dimensions(data: bytes, size: tuple[int, int] | None) -> None:
    assert image_dimensions(data) == size


def test_an_image_in_one_line() -> None:
    assert describe_image(_block(PNG)) == "image/png, 640x480, 0.1 kB"
    assert describe_image(_block(PNG, "text/html")) == "image/png, 640x480, 0.1 kB", (
        "what the server calls it does not count"
    )
    assert (
        describe_image(_block(b"<svg/>", "image/svg+xml\x1b[2J"))
        == "image/svg+xml, of no known format, 0.0 kB"
    )
    assert (
        describe_image(ContentBlock("image", data="%%%")) == "image, the server's image is damaged"
    )


def test_saved_once_under_a_name_of_its_content(tmp_path: Path) -> None:
    first = save_bytes(PNG, tmp_path / "images")
    assert first.read_bytes() == PNG and first.suffix == ".png"
    assert save_bytes(PNG, tmp_path / "images") == first
    assert save_bytes(GIF, tmp_path / "images").suffix == ".gif"


@pytest.mark.parametrize(
    "data", [b"", b"<svg onload='alert(1)'/>", b"#!/bin/sh\n", b"RIFF....WAVE"]
)
def test_what_is_no_image_is_not_saved_to_be_opened(tmp_path: Path, data: bytes) -> None:
    assert image_type(data) is None
    with pytest.raises(InputError, match="no PNG, JPEG, GIF or WebP"):
        save_bytes(data, tmp_path)
    assert not list(tmp_path.iterdir())
