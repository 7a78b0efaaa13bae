"""Observations.

The part of a tool's answer that an agent sees, its text shortened, its images where the policy
takes images.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hudtui.core.environment.images import image_bytes, image_type
from hudtui.core.environment.values import ContentBlock, ToolResult
from hudtui.core.errors import InputError
from hudtui.core.rollouts.values import KeptImage

OBSERVATION_LIMIT = 16_000
"""Characters of one observation. A longer one keeps its beginning and its end, with a note of how
much was cut out."""

IMAGE_LIMIT = 8 * 1024 * 1024
"""Characters of base64 that an image may have to be shown; a larger one is replaced by a note."""

RESULT_LIMIT = 64_000
"""Bytes of JSON that structured content may have to be kept in a record."""

MAX_IMAGES = 8
"""Images of one observation that are shown; the others are replaced by notes."""

KEPT_IMAGE = 2 * 1024 * 1024
"""Characters of base64 that an image may have to be kept in a record; of a larger one the record
holds type and size."""

KEPT_IMAGES = 8 * 1024 * 1024
"""Characters of base64 that the images of an episode may have together to be kept."""

_WORD = re.compile(r"\w+")
_FLAGS = frozenset("01")
_MOST_LEAVES = 5_000
_TOO_DEEP = "[structured content that is nested too deeply]"
_TAIL_SHARE = 4  # a quarter of what is kept comes from the end


@dataclass(frozen=True)
class Observation:
    """Text, and data URLs of the images that go with it."""

    text: str
    images: tuple[str, ...] = ()

    def content(self) -> str | list[dict[str, Any]]:
        """The content of the chat message that shows it.

        Plain text, or a list of parts when there are images.
        """
        if not self.images:
            return self.text
        parts: list[dict[str, Any]] = [{"type": "text", "text": self.text}] if self.text else []
        return [*parts, *({"type": "image_url", "image_url": {"url": url}} for url in self.images)]


def observe(
    result: ToolResult,
    *,
    images: bool = False,
    limit: int = OBSERVATION_LIMIT,
    shows: str = "text",
) -> Observation:
    """Return the part of `result` that the agent sees.

    Without `images` a note stands in for each. `limit` is the number of characters of text that are
    kept; `shows` is one of `OBSERVATIONS`.
    """
    structured = result.structured is not None and shows != "text" and not result.is_error
    if structured and result.repeats_text and shows == "both":
        structured = False
    texts: list[str] = []
    urls: list[str] = []
    for block in result.blocks:
        if (
            block.type == "image"
            and images
            and len(urls) < MAX_IMAGES
            and len(block.data or "") <= IMAGE_LIMIT
        ):
            urls.append(f"data:{block.mime_type or 'image/png'};base64,{block.data or ''}")
        elif block.text is not None:
            if not (structured and shows == "structured"):
                texts.append(block.text)
        else:
            texts.append(_note(block))
    if structured or (not result.blocks and result.structured is not None):
        texts.append(_as_json(result.structured))
    text = "\n".join(texts)
    if not text and not urls:
        text = "(no output)"
    if result.is_error:
        text = f"error: {text}"
    return Observation(shorten(text, limit), tuple(urls))


def unshown(result: ToolResult, shows: str) -> bool:
    """Return whether an answer differs in substance from what the agent is shown of it.

    It does if its text lacks half or more of the words and numbers of its structured content; or,
    where that is shown, if that lacks half or more of the numbers of its text. 0 and 1 do not
    count: they stand for flags and empty places.
    """
    text, structured = result.text, result.structured
    if shows == "both" or structured is None or not text or result.is_error or result.repeats_text:
        return False
    in_text = _words(text)
    in_structure = _words("\n".join(map(str, _leaves(structured))))
    if shows == "text":
        hidden, shown = in_structure, in_text
    else:
        hidden, shown = {word for word in in_text if word.isdigit()}, in_structure
    return bool(hidden) and 2 * len(hidden - shown) >= len(hidden)


def _words(text: str) -> set[str]:
    """The words and numbers at the beginning of a text, without flags."""
    return {*_WORD.findall(text[:RESULT_LIMIT].lower())} - _FLAGS


def _as_json(structured: Any) -> str:
    try:
        return json.dumps(structured, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return _TOO_DEEP


def _leaves(value: Any) -> Iterator[Any]:
    """The texts and numbers in a JSON value, however deep; at most some thousand."""
    rest = [value]
    for _ in range(_MOST_LEAVES):
        if not rest:
            return
        one = rest.pop()
        if isinstance(one, Mapping):
            rest += one.values()
        elif isinstance(one, list | tuple):
            rest += one
        elif isinstance(one, str | int | float) and not isinstance(one, bool):
            yield one


def images_of(result: ToolResult, room: int) -> tuple[KeptImage, ...]:
    """The images of `result` for the record.

    At most `MAX_IMAGES`, and none whose bytes are no known image.

    `room` is the number of characters of base64 that are left for them. An image that does not fit
    is kept without its data.
    """
    kept: list[KeptImage] = []
    for block in result.blocks:
        if block.type != "image" or block.data is None or len(kept) == MAX_IMAGES:
            continue
        try:
            data = image_bytes(block)
        except InputError:
            continue
        kind = image_type(data)
        if kind is not None:
            fits = len(block.data) <= min(room, KEPT_IMAGE)
            kept.append(KeptImage(kind, len(data), block.data if fits else None))
            room -= len(block.data) if fits else 0
    return tuple(kept)


def join(
    observations: Iterable[Observation], *, lead: str = "", limit: int = OBSERVATION_LIMIT
) -> Observation:
    """Several observations as one, behind a text that is kept whole.

    A task's prompt with what its setup answered.
    """
    shown = tuple(observations)
    text = shorten(
        "\n\n".join(observation.text for observation in shown if observation.text), limit
    )
    return Observation(
        "\n\n".join(part for part in (lead, text) if part),
        tuple(url for one in shown for url in one.images),
    )


def shorten(text: str, limit: int = OBSERVATION_LIMIT) -> str:
    """Return `text`, cut in the middle to about `limit` characters, with a note of that.

    The note says how much was cut out.
    """
    if len(text) <= limit:
        return text
    tail = limit // _TAIL_SHARE
    head = limit - tail
    return (
        f"{text[:head]}\n[... {len(text) - limit} characters left out ...]\n"
        f"{text[len(text) - tail :] if tail else ''}"
    )


def evaluation_value(result: ToolResult) -> Any:
    """Return an evaluate tool's answer for the record.

    It is the structured content, else the JSON object in the text, else the text.
    """
    if isinstance(result.structured, Mapping):
        return recorded(result.structured)
    text = result.text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return shorten(text)
    return recorded(value) if isinstance(value, dict) else shorten(text)


def recorded(structured: Any) -> Any:
    """Structured content for the record.

    One beyond `RESULT_LIMIT` is replaced by a note of its size.
    """
    if structured is None:
        return None
    size = json_size(structured)
    if size is None:
        return _TOO_DEEP
    return structured if size <= RESULT_LIMIT else f"[structured content of {size} bytes]"


def json_size(value: Any) -> int | None:
    """Bytes of `value` as JSON; None when it cannot be written so."""
    from pydantic_core import to_json

    with contextlib.suppress(
        ValueError
    ):  # nested too deeply for this encoder (255), or a lone surrogate
        return len(to_json(value, inf_nan_mode="constants"))
    try:
        return len(json.dumps(value))
    except (ValueError, TypeError, RecursionError):
        return None


def _note(block: ContentBlock) -> str:
    kind = block.mime_type or block.type
    if block.data is not None:
        return f"[{kind}, {len(block.data) * 3 // 4} bytes, not shown]"
    return f"[{block.type}: {block.uri}]" if block.uri else f"[{kind}, not shown]"
