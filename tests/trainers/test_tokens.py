from __future__ import annotations

from typing import Any

import pytest

from hudtui.core.errors import InputError
from hudtui.core.training.chat_tokens import ChatTokens, TokenTranscript
from hudtui.trainers.tokens import chat_tokens_for


def test_the_mask_tells_the_model_from_what_it_was_told() -> None:
    transcript = TokenTranscript([1, 2])
    transcript.say([3, 4], [-0.1, -0.2])
    transcript.hear([5])
    transcript.say([6], [-0.3])
    assert transcript.ids == [1, 2, 3, 4, 5, 6]
    assert transcript.mask == [1, 1, 0, 1]
    assert transcript.logprobs == [-0.1, -0.2, 0.0, -0.3]


def test_without_log_probabilities_there_are_none() -> None:
    transcript = TokenTranscript([1])
    transcript.say([2])
    transcript.hear([3])
    assert transcript.logprobs is None and transcript.mask == [1, 0]


def test_what_stands_between_two_replies_is_what_the_template_puts_there(letters: Any) -> None:
    scribe = ChatTokens(letters)
    messages = [{"role": "user", "content": "go"}]
    transcript = scribe.open(messages)
    transcript.say(
        letters("left()", add_special_tokens=False)["input_ids"] + [letters.eos_token_id]
    )
    transcript.hear(scribe.answer("moved", ended=True))
    whole = [
        *messages,
        {"role": "assistant", "content": "left()"},
        {"role": "user", "content": "moved"},
    ]
    assert letters.decode(transcript.ids) == letters.apply_chat_template(
        whole, tokenize=False, add_generation_prompt=True
    )
    assert scribe.text(transcript.completion[:7]) == "left()"


def test_a_reply_that_was_cut_off_is_ended_by_us_and_not_in_its_name(letters: Any) -> None:
    scribe = ChatTokens(letters)
    cut = scribe.answer("moved", ended=False)
    assert cut[0] == letters.eos_token_id
    assert cut[1:] == scribe.answer("moved", ended=True)


def test_a_thought_that_the_template_opens_belongs_to_the_reply(make_letters: Any) -> None:
    scribe = ChatTokens(make_letters(opens="<think>\n"))
    ids = scribe.tokenizer("hm</think><tool>left()</tool>", add_special_tokens=False)["input_ids"]
    assert scribe.text(ids) == "<think>\nhm</think><tool>left()</tool>"
    closed = ChatTokens(make_letters(opens="<think>\n\n</think>\n\n"))
    assert closed.text(ids) == "hm</think><tool>left()</tool>", (
        "a thought that the template closes is not the reply's"
    )


def test_no_chat_template_is_refused(letters: Any) -> None:
    letters.chat_template = None
    with pytest.raises(InputError, match="no chat template"):
        ChatTokens(letters)


def test_a_template_that_fails_is_named(letters: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise TypeError("content must be a list")

    monkeypatch.setattr(letters, "apply_chat_template", fail)
    with pytest.raises(InputError, match="cannot show a conversation") as caught:
        ChatTokens(letters)
    assert caught.value.why == "content must be a list"


def test_a_template_that_drops_thoughts_is_seen(make_letters: Any, letters: Any) -> None:
    assert ChatTokens(letters).keeps_thoughts()
    dropping = make_letters(drops_thoughts=True)
    assert not ChatTokens(dropping).keeps_thoughts()
    chat_tokens_for(dropping, thinking=False)  # without thoughts there is nothing to drop
    assert chat_tokens_for(letters, thinking=True)[1] is None
