"""Replies to try a configuration with: found in traces, taken from its prompt, or typical ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hudtui.core.gym.editing.preview import Tools, example_call, prompt_examples
from hudtui.core.gym.interpreter import reply_in
from hudtui.core.gym.values import GymConfig

LONGEST = 100_000
"""Characters of a reply of a trace beyond which it is cut."""

TYPICAL: tuple[tuple[str, str], ...] = (
    ("the end of an episode", "<think>Nothing is left to do.</think>\n<tool>done()</tool>"),
    ("without a think block", "<tool>done()</tool>"),
    ("a tag that is not closed", "<think>I forgot something.</think>\n<tool>done()"),
    ("two calls in one reply", "<think>Twice.</think>\n<tool>done()</tool>\n<tool>done()</tool>"),
    ("no tags at all", "I think I should call done()."),
)
"""Replies as agents write them, with what they show."""
_MOST_MADE_UP = 100
"""Actions that an example is made up for."""


@dataclass(frozen=True, slots=True)
class SampleReply:
    """A reply to try."""

    label: str
    """Origin of the reply."""
    text: str


@dataclass
class Samples:
    """The replies for one configuration.

    The user's own first, then those that are found or made.
    """

    last: str | None = None
    """The reply that the user wrote last."""
    rollouts: tuple[SampleReply, ...] = ()

    def all(self, config: GymConfig | None, tools: Tools) -> tuple[SampleReply, ...]:
        """Return all replies, each text once, in the order in which they are offered."""
        replies: list[SampleReply] = []
        if self.last is not None:
            replies.append(SampleReply("your last one", self.last))
        replies += self.rollouts
        if config is not None:
            replies += _of_config(config, tools)
        replies += (SampleReply(label, text) for label, text in TYPICAL)
        by_text = {reply.text: reply for reply in reversed(replies)}
        return tuple(reply for reply in replies if by_text[reply.text] is reply)


def _of_config(config: GymConfig, tools: Tools) -> Iterator[SampleReply]:
    """Replies that a configuration gives.

    Its examples, those in its prompt, and one for each other action.
    """
    for number, example in enumerate(config.examples, 1):
        yield SampleReply(f"example {number}", example.assistant)
    usages = prompt_examples(config)
    for texts in usages.values():
        for text in texts:
            yield SampleReply("usage in the prompt", reply_in(config, text))
    for name, mapping in list(config.mappings.items())[:_MOST_MADE_UP]:
        if name not in usages:
            call = example_call(mapping, tools)
            yield SampleReply(f"made up for {name}", reply_in(config, call))


def samples_from_replies(
    replies: Iterable[tuple[str, str]], most: int = 8
) -> tuple[SampleReply, ...]:
    """Choose replies from rollouts, as different from each other as possible.

    `replies` has what to call each, and its text, the newest first; `most` of them are taken.
    """
    chosen: dict[str, SampleReply] = {}
    seen: set[str] = set()
    spare: list[SampleReply] = []
    for label, text in replies:
        call = text.partition("<tool>")[2].partition("(")[0].strip()
        sample = SampleReply(label, text[:LONGEST])
        if call not in seen:
            seen.add(call)
            chosen.setdefault(text, sample)
        else:
            spare.append(sample)
        if len(chosen) >= most:
            break
    return _filled(list(chosen.values()), spare, most)


def _filled(
    chosen: list[SampleReply], spare: Sequence[SampleReply], most: int
) -> tuple[SampleReply, ...]:
    known = {sample.text for sample in chosen}
    for sample in spare:
        if len(chosen) >= most:
            break
        if sample.text not in known:
            known.add(sample.text)
            chosen.append(sample)
    return tuple(chosen)
