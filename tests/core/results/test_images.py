"""The images of an episode, of hudtui's traces and of others."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest
from support.pictures import png
from support.recorded import own_episode, verifiers_conversation, write_lines, write_own

from hudtui.core.errors import InputError
from hudtui.core.results.find import results_at
from hudtui.core.results.images import describe_image, image_data, images_by_turn, write_image
from hudtui.core.results.index import ResultIndex
from hudtui.core.results.values import Transcript, TranscriptImage
from hudtui.core.rollouts.values import Episode, KeptImage

PNG = png()
RAW = base64.b64decode(PNG)


def with_images(episode: Episode, *images: KeptImage) -> Episode:
    turns = tuple(replace(turn, images=images) for turn in episode.turns)
    return replace(episode, turns=turns, images=images[:1])


def read(path: Path) -> Transcript:
    index = ResultIndex(results_at(path))
    index.advance(5)
    return index.read(index.entries[0])


def test_images_are_counted_through_the_episode(tmp_path: Path) -> None:
    episode = with_images(
        own_episode(replies=["left()", "up()"]),
        KeptImage("text/html", 1, PNG),
        KeptImage("image/gif", 9_000_000),
    )
    found = images_by_turn(read(write_own(tmp_path / "traces.jsonl", episode)))
    assert {turn: [number for number, _ in images] for turn, images in found.items()} == {
        0: [1],
        1: [2, 3],
        2: [4, 5],
    }
    told = [describe_image(image) for _, image in found[1]]
    assert told == [f"image/png, 24x16, {len(RAW) / 1000:.1f} kB", "image/gif, 9000.0 kB, not kept"]
    assert image_data(found[1][0][1]) == RAW


def test_images_of_other_frameworks_stand_in_the_messages(tmp_path: Path) -> None:
    def said(url: str) -> list[dict[str, object]]:
        return [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": url}}]

    record = verifiers_conversation(
        {"role": "user", "content": said(f"data:image/png;base64,{PNG}")},
        {"role": "assistant", "content": "?"},
        {"role": "user", "content": said("https://example.com/\x1b[2Ja.png")},
    )
    found = images_by_turn(read(write_lines(tmp_path / "traces.jsonl", record)))
    assert image_data(found[0][0][1]) == RAW
    ((number, address),) = found[1]
    assert number == 2 and "\x1b" not in describe_image(address)
    with pytest.raises(InputError, match="does not contain this image"):
        image_data(address)


def test_an_image_is_written_under_the_ending_of_its_own_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    transcript = read(
        write_own(
            tmp_path / "traces.jsonl", with_images(own_episode(), KeptImage("image/gif", 1, PNG))
        )
    )
    path, told = write_image(transcript, 2)
    assert path.name == "episode-0-image-2.png" and path.read_bytes() == RAW and "24x16" in told
    with pytest.raises(InputError, match="exists already"):
        write_image(transcript, 2)
    assert write_image(transcript, 1, tmp_path / "own.png")[0].read_bytes() == RAW
    with pytest.raises(InputError, match="no image 3"):
        write_image(transcript, 3)


@pytest.mark.parametrize(
    "image",
    [
        TranscriptImage("image/png", "%%%"),
        TranscriptImage("image/png", None, 5),
        TranscriptImage("", "x"),
    ],
)
def test_what_is_damaged_or_not_there_has_words(image: TranscriptImage) -> None:
    assert describe_image(image)
    with pytest.raises(InputError):
        image_data(image)
