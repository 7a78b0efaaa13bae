"""The images of an episode: their numbers, descriptions and bytes.

The type and size in a record are not trusted.
"""

from __future__ import annotations

import base64
import binascii
from itertools import count
from pathlib import Path

from hudtui.core.environment.images import SUFFIXES, describe_bytes, image_type
from hudtui.core.errors import InputError, Location
from hudtui.core.files import write_atomic
from hudtui.core.results.foreign import content_images
from hudtui.core.results.values import Transcript, TranscriptImage
from hudtui.core.text import clean_line, plural


def images_by_turn(transcript: Transcript) -> dict[int, list[tuple[int, TranscriptImage]]]:
    """Return the images of an episode with their numbers, from 1, by the turn that shows them.

    Turn 0 is the opening.
    """
    opening = transcript.images or tuple(
        image for message in transcript.opening for image in content_images(message.get("content"))
    )
    by_turn: dict[int, list[tuple[int, TranscriptImage]]] = {}
    numbers = count(1)
    for turn, images in ((0, opening), *((turn.number, turn.images) for turn in transcript.turns)):
        if images:
            by_turn[turn] = [(next(numbers), image) for image in images]
    return by_turn


def image_named(transcript: Transcript, number: int) -> bytes:
    """Return the bytes of an image by its number.

    Raises:
        InputError: There is no such image, or the record does not contain it.
    """
    images = dict(pair for pairs in images_by_turn(transcript).values() for pair in pairs)
    if number not in images:
        raise InputError(
            f"this episode has no image {number}",
            why=f"It has {plural(len(images), 'image')}." if images else "It has no images.",
        )
    return image_data(images[number])


def write_image(
    transcript: Transcript, number: int, path: Path | None = None, *, replace: bool = False
) -> tuple[Path, str]:
    """Write an image to a file, and return the file and a description of the image.

    Images are counted from 1. By default the file is `episode-EPISODE-image-NUMBER` in the current
    folder, with an extension according to the image's bytes.

    Raises:
        InputError: There is no such image, the record does not contain it, or the file exists or
            cannot be written.
    """
    data = image_named(transcript, number)
    kind = image_type(data)
    target = path or Path(
        f"episode-{transcript.entry.number}-image-{number}{SUFFIXES.get(kind or '', '.bin')}"
    )
    if target.exists() and not replace:
        raise InputError(
            "this file exists already",
            fix="Choose another name, or replace it (--force).",
            where=Location(str(target)),
        )
    write_atomic(target, data)
    return target, describe_bytes(data, "no type")


def image_data(image: TranscriptImage) -> bytes:
    """Return the bytes of an image.

    Raises:
        InputError: The record does not contain the image, or the image is not valid base64.
    """
    if image.data is None or not image.kind:
        what = "it was too large" if image.kind else f"it is at {clean_line(image.data or '', 200)}"
        raise InputError(
            "the record does not contain this image", why=f"{what[:1].upper()}{what[1:]}."
        )
    try:
        return base64.b64decode(image.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError("this image is damaged", why=str(error)) from None


def describe_image(image: TranscriptImage) -> str:
    """Return the type and size of an image, and whether it was too large to be kept.

    Such as `image/png, 640x480, 12.3 kB`, or `image/png, 9000.0 kB, not kept`.
    """
    kind = clean_line(image.kind, 60)
    if not image.kind:
        return clean_line(image.data or "", 200)
    if image.data is None:
        return f"{kind}, {image.size / 1000:.1f} kB, not kept"
    try:
        return describe_bytes(image_data(image), kind)
    except InputError:
        return f"{kind}, damaged"
