"""Fields of a draft as words: those of a command's options, and those of a draft file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hudtui.core.environment.values import Analysis
from hudtui.core.errors import InputError, Location
from hudtui.core.tasks.agent import SHARES
from hudtui.core.tasks.call_words import read_call, read_part, read_step
from hudtui.core.tasks.solution import FIELD as SOLUTION

_Reader = Callable[[str, Analysis, str], dict[str, Any]]
_READERS: Mapping[str, _Reader] = {
    "setup_tool": read_call,
    "evaluate": read_part,
    "evaluate_tool": read_call,
    SOLUTION: read_step,
}
"""Fields of a task that may be words in a draft, and what reads one of their items."""


@dataclass(frozen=True)
class DraftWords:
    """Fields of a draft as a command line gives them."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields that are values already."""
    words: Mapping[str, list[str]] = field(default_factory=dict)
    """The words of other fields, by option: `--setup`."""
    variables: list[str] = field(default_factory=list)
    """`NAME=VALUES`."""
    share: bool = False
    """The agent may call the setup tools."""

    @property
    def is_given(self) -> bool:
        """True if any field was given."""
        return bool(self.fields or any(self.words.values()) or self.variables or self.share)

    def over(self, data: Mapping[str, Any], analysis: Analysis) -> dict[str, Any]:
        """Return a draft as data, with these fields in place of its own.

        Raises:
            InputError: Words of a call, an expectation or a variable cannot be read.
        """
        made = {**spelled_out(data, analysis), **self.fields}
        for option, texts in self.words.items():
            name = OPTIONS[option]
            if texts:
                made[name] = [_READERS[name](text, analysis, option) for text in texts]
        if self.variables:
            made["variables"] = {**(data.get("variables") or {}), **self._variables()}
        if self.share:
            agent = data.get("agent_config") or {}
            made["agent_config"] = {**agent, SHARES: True}
        return made

    def _variables(self) -> dict[str, str]:
        named = {}
        for text in self.variables:
            name, equals, values = text.partition("=")
            if not equals:
                raise InputError(f"{text!r} is not NAME=VALUES", where=Location("--var"))
            named[name.strip()] = values
        return named


OPTIONS: Mapping[str, str] = {
    "--setup": "setup_tool",
    "--expect": "evaluate",
    "--evaluator": "evaluate_tool",
    "--solution": SOLUTION,
}
"""Options of a command, and the field that each fills."""


def spelled_out(data: Mapping[str, Any], analysis: Analysis) -> dict[str, Any]:
    """Return a draft in which calls, expectations and steps that are written as words are data.

    Raises:
        InputError: Words cannot be read.
    """
    made = dict(data)
    for name, read in _READERS.items():
        value = made.get(name)
        if isinstance(value, str):
            made[name] = [read(value, analysis, name)]
        elif isinstance(value, list):
            made[name] = [
                read(item, analysis, f"{name}[{number}]") if isinstance(item, str) else item
                for number, item in enumerate(value)
            ]
    return made
