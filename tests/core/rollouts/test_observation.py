import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.environment.values import ContentBlock, ToolResult
from hudtui.core.rollouts.observation import (
    IMAGE_LIMIT,
    KEPT_IMAGE,
    MAX_IMAGES,
    RESULT_LIMIT,
    Observation,
    evaluation_value,
    images_of,
    join,
    observe,
    recorded,
    shorten,
    unshown,
)
from hudtui.core.rollouts.values import KeptImage


def text(value):
    return ContentBlock("text", text=value)


def image(data="QUJD"):
    return ContentBlock("image", data=data, mime_type="image/jpeg")


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (ToolResult((text("a"), text("b"))), "a\nb"),
        (ToolResult((text("no"),), is_error=True), "error: no"),
        (ToolResult(), "(no output)"),
        (ToolResult(is_error=True), "error: (no output)"),
        (ToolResult(structured={"x": "é"}), '{"x": "é"}'),
        (ToolResult((text("a"),), structured={"x": 1}), "a"),
        (ToolResult((ContentBlock("resource", text="inside", uri="file:///x"),)), "inside"),
        (
            ToolResult((ContentBlock("resource_link", uri="file:///x"),)),
            "[resource_link: file:///x]",
        ),
        (
            ToolResult((ContentBlock("audio", data="QUJD", mime_type="audio/mpeg"),)),
            "[audio/mpeg, 3 bytes, not shown]",
        ),
        (ToolResult((ContentBlock("hologram"),)), "[hologram, not shown]"),
    ],
)
def test_what_is_shown(result, shown):
    assert observe(result) == Observation(shown)


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(100)).decode()


def test_images_are_kept_by_what_they_are_and_within_bounds():
    def said(data, kind="text/html"):
        return ContentBlock("image", data=data, mime_type=kind)

    (found,) = images_of(
        ToolResult((said(PNG), said("PHN2Zy8+"), said("%%%"), said(""), ContentBlock("image"))),
        10_000,
    )
    assert found == KeptImage("image/png", 108, PNG), (
        "what is no image stays out, whatever the server calls it"
    )
    first, second = images_of(ToolResult((said(PNG), said(PNG))), len(PNG) + 1)
    assert first.data == PNG and second == KeptImage("image/png", 108, None), (
        "the second one has no room"
    )
    assert len(images_of(ToolResult((said(PNG),) * (MAX_IMAGES + 2)), 10_000)) == MAX_IMAGES
    large = PNG + PNG * (KEPT_IMAGE // len(PNG))
    (noted,) = images_of(ToolResult((said(large),)), 10 * KEPT_IMAGE)
    assert noted.data is None and noted.size > KEPT_IMAGE // 2


def test_images_are_bounded_in_size_and_number():
    many = observe(ToolResult((image(),) * (MAX_IMAGES + 2)), images=True)
    assert len(many.images) == MAX_IMAGES
    assert many.text.count("[image/jpeg, 3 bytes, not shown]") == 2
    huge = observe(ToolResult((image("A" * (IMAGE_LIMIT + 4)),)), images=True)
    assert huge.images == () and "not shown" in huge.text
    assert observe(ToolResult((image(),)), images=True).content() == [
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QUJD"}}
    ]


@given(st.text(), st.integers(0, 50))
def test_bounded_text_keeps_both_ends(value, limit):
    short = shorten(value, limit)
    if len(value) <= limit:
        assert short == value
    else:
        head, tail = limit - limit // 4, limit // 4
        assert short.startswith(value[:head]) and short.endswith(value[len(value) - tail :])
        assert f"[... {len(value) - limit} characters left out ...]" in short


def test_a_prompt_is_never_cut():
    prompt = "p" * 100
    assert join(
        [Observation("x" * 50), Observation("", ("url",))], lead=prompt, limit=10
    ).text.startswith(prompt + "\n\nxxxxxxxx\n[...")
    assert join([], lead=prompt) == Observation(prompt)
    assert join([Observation("", ("url",))], lead="").images == ("url",)


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (ToolResult((text("ignored"),), structured={"reward": 1}), {"reward": 1}),
        (ToolResult((text('{"grade": 0.5}'),)), {"grade": 0.5}),
        (ToolResult((text("[1, 2]"),)), "[1, 2]"),
        (ToolResult((text("fine"),)), "fine"),
        (ToolResult((text("[" * 100_000),)), shorten("[" * 100_000)),
    ],
)
def test_what_is_kept_of_an_evaluation(result, value):
    assert evaluation_value(result) == value


def test_structured_content_beyond_bounds_is_replaced_by_a_note():
    deep = value = []
    for _ in range(5000):
        value.append([])
        value = value[0]
    assert recorded(deep) == "[structured content that is nested too deeply]"
    assert recorded({"x": "y" * RESULT_LIMIT}).startswith("[structured content of 64")
    assert recorded({"x": 1}) == {"x": 1}
    assert recorded(None) is None


ANSWER = {"tiles": [2, {"next": "four"}], "over": False}


@pytest.mark.parametrize(
    ("text", "structured", "shows", "shown", "hidden"),
    [
        ("two 2, four", ANSWER, "text", "two 2, four", False),
        ("four", ANSWER, "text", "four", True),
        ("four 16", ANSWER, "structured", json.dumps(ANSWER), True),
        ("four 2", ANSWER, "structured", json.dumps(ANSWER), False),
        ("four", ANSWER, "both", f"four\n{json.dumps(ANSWER)}", False),
        (json.dumps(ANSWER), ANSWER, "both", json.dumps(ANSWER), False),
        ("only text", None, "structured", "only text", False),
        ("only text", None, "both", "only text", False),
        ("hello", {"result": "hello"}, "structured", '{"result": "hello"}', False),
    ],
)
def test_text_and_structured_content(text, structured, shows, shown, hidden):
    result = ToolResult((ContentBlock("text", text=text),), structured=structured)
    assert observe(result, shows=shows).text == shown
    assert unshown(result, shows) is hidden


def test_an_error_keeps_its_words_and_an_image_its_place():
    failed = ToolResult((ContentBlock("text", text="no"),), is_error=True, structured={"a": 1})
    assert observe(failed, shows="structured").text == "error: no"
    assert not unshown(failed, "text")
    deep = {"a": 1}
    for _ in range(20_000):
        deep = {"a": deep}
    result = ToolResult((ContentBlock("text", text="x"),), structured=deep)
    assert not unshown(result, "text")
    assert "nested too deeply" in observe(result, shows="structured").text
    picture = ToolResult((image(b"x"),), structured={"a": 1})
    assert observe(picture, images=True, shows="structured").text == '{"a": 1}'
    assert len(observe(picture, images=True, shows="structured").images) == 1
