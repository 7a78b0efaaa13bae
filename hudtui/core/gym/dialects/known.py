"""The dialects that a configuration can name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hudtui.core.extensions import DIALECTS as OTHERS
from hudtui.core.extensions import beside
from hudtui.core.gym.dialects.dialect import Dialect
from hudtui.core.gym.dialects.harmony import (
    read_harmony,
    spoken_harmony,
    teach_harmony,
    think_harmony,
    write_harmony,
)
from hudtui.core.gym.dialects.marked import (
    answer_hermes,
    read_hermes,
    read_json,
    spoken_hermes,
    spoken_json,
    teach_hermes,
    teach_json,
    write_hermes,
    write_json,
)
from hudtui.core.gym.dialects.native import (
    read_any,
    read_native,
    read_text,
    spoken_any,
    spoken_native,
)
from hudtui.core.gym.reply import Call, as_thought, spell_call, spoken

DEFAULT: Final = "text"
AUTO: Final = "auto"
PARALLEL: Final = ("first", "all", "refuse")
"""What is played of a reply with several calls, in dialects that have such replies."""


def _write_text(name: str, arguments: Mapping[str, Any]) -> str:
    return f"<tool>{spell_call(name, arguments)}</tool>"


_TEXT = Dialect(
    name=DEFAULT,
    title="a call in tags, <tool>move(x=1)</tool>",
    read=read_text,
    write=_write_text,
    well_formed="a closed <tool> tag, and a thought where one is expected",
    spoken=spoken,
    think=as_thought,
)
_HERMES = Dialect(
    name="hermes",
    title='an object in tags, <tool_call>{"name": ..., "arguments": ...}</tool_call>',
    read=read_hermes,
    write=write_hermes,
    well_formed="a closed <tool_call> tag, and a thought where one is expected",
    spoken=spoken_hermes,
    think=as_thought,
    schemas="prompt",
    teach=teach_hermes,
    answer=answer_hermes,
    several=True,
)
_JSON = Dialect(
    name="json",
    title='a JSON object {"name": ..., "arguments": ...}, in a fence or alone',
    read=read_json,
    write=write_json,
    well_formed="a whole object in a closed fence or alone, and a thought where one is expected",
    spoken=spoken_json,
    think=as_thought,
    schemas="prompt",
    teach=teach_json,
    several=True,
)
_NATIVE = Dialect(
    name="native",
    title="the tool calls of the endpoint, or of the model's chat template",
    read=read_native,
    write=write_hermes,
    well_formed="a call with all its marks, or a reply without any call, which ends the episode",
    spoken=spoken_native,
    think=as_thought,
    schemas="apart",
    several=True,
)
_HARMONY = Dialect(
    name="harmony",
    title="a message in the channel commentary, to=functions.NAME",
    read=read_harmony,
    write=write_harmony,
    well_formed="a message that <|call|> or the reply's end closes, and a thought where one is "
    "expected",
    spoken=spoken_harmony,
    think=think_harmony,
    schemas="prompt",
    teach=teach_harmony,
    several=True,
)
_AUTO = Dialect(
    name=AUTO,
    title="the dialect of the first call's mark in each reply",
    read=read_any,
    write=_write_text,
    well_formed="what the dialect of the reply needs",
    spoken=spoken_any,
    think=as_thought,
    schemas="apart",
    several=True,
)

_OWN = {dialect.name: dialect for dialect in (_TEXT, _NATIVE, _HERMES, _JSON, _HARMONY, _AUTO)}
DIALECTS: Mapping[str, Dialect] = beside(_OWN, OTHERS)
"""All dialects by name, in the order in which they are shown."""


def other_dialect(text: str, own: str) -> str | None:
    """Return the dialect in which a reply makes a call, where its own one finds none.

    None where no dialect finds one.
    """
    for dialect in (_TEXT, _HERMES, _HARMONY, _JSON, _NATIVE):
        if dialect.name == own:
            continue
        if any(isinstance(call, Call) for call in dialect.read(text, False).calls):
            return dialect.name
    return None
