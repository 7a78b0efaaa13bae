"""Report that the checks of `lint` share: the configuration, and the findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from hudtui.core.environment.values import Tool
from hudtui.core.gym.lint.findings import MAPPINGS, Finding, FindingLog, Fix, Severity, TextEdit
from hudtui.core.gym.schema_examples import ToolSchema, literal
from hudtui.core.gym.values import ActionMapping, GymConfig, Parameter
from hudtui.core.text import clean_line, confident_match, did_you_mean
from hudtui.core.yaml_doc import NotWritable, YamlDocument, YamlPath, yaml_key, yaml_value

_MOST_IN_PROMPT = 100

PROMPT: YamlPath = ("system_prompt",)


class LintReport:
    """A configuration under inspection, and what was found."""

    def __init__(
        self, document: YamlDocument, config: GymConfig, tools: Mapping[str, Tool] | None
    ) -> None:
        self.document = document
        self.config = config
        self.tools = tools
        log = FindingLog(document)
        self.findings = log.findings
        self.add = log.add
        self._in_prompt = 0
        self._lines = document.text.split("\n")
        self._schemas: dict[str, ToolSchema] = {}

    def schema(self, tool: str) -> ToolSchema | None:
        """The schema of a tool, where it is known."""
        if tool not in self._schemas:
            described = self.tools.get(tool) if self.tools is not None else None
            if described is None or described.input_schema is None:
                return None
            self._schemas[tool] = ToolSchema(described.input_schema)
        return self._schemas[tool]

    def add_in_prompt(
        self,
        code: str,
        severity: Severity,
        message: str,
        start: int,
        length: int,
        *,
        mapping: str | None = None,
        fix: Fix | None = None,
        guess: Fix | None = None,
    ) -> None:
        """Report something about a stretch of the prompt, given by its offset in the prompt's text.

        At most a hundred times.
        """
        self._in_prompt += 1
        if self._in_prompt > _MOST_IN_PROMPT:
            return
        line, column = self.document.inside(PROMPT, start)
        end = (
            column + length
            if self._source(line, column, length)
            == self.config.system_prompt[start : start + length]
            else None
        )
        self.findings.append(
            Finding(
                code,
                severity,
                clean_line(message, 400),
                line,
                column,
                end,
                mapping,
                None,
                fix,
                guess,
            )
        )

    def in_prompt(self, title: str, starts: Iterable[int], length: int, text: str) -> Fix | None:
        """The fix that replaces stretches of the prompt.

        None where the prompt's text is not written out as it is.
        """
        edits = []
        for start in sorted(set(starts)):
            line, column = self.document.inside(PROMPT, start)
            if (
                self._source(line, column, length)
                != self.config.system_prompt[start : start + length]
            ):
                return None
            edits.append(TextEdit(line, column, line, column + length, text))
        return Fix(title, tuple(edits))

    def value(self, title: str, path: YamlPath, data: Any) -> Fix | None:
        """The fix that replaces the value at a path, where it is a scalar on one line."""
        mark = self.document.value_mark(path)
        if (
            mark.line != mark.end_line
            or self.document.at(path) is None
            or isinstance(self.document.at(path), dict | list)
        ):
            return None
        try:
            text = self._in_style(data, self._source(mark.line, mark.column, 1))
        except NotWritable:
            return None
        return Fix(title, (TextEdit(mark.line, mark.column, mark.end_line, mark.end_column, text),))

    def key(self, title: str, path: YamlPath, name: str) -> Fix | None:
        """The fix that renames the key at a path."""
        mark = self.document.mark(path)
        if mark.line != mark.end_line or not isinstance(self.document.at(path[:-1]), dict):
            return None
        try:
            text = yaml_key(name)
        except NotWritable:
            return None
        return Fix(title, (TextEdit(mark.line, mark.column, mark.end_line, mark.end_column, text),))

    def _in_style(self, data: Any, first: str) -> str:
        """Return a value as YAML, in the quotes of the value that it replaces.

        It has no quotes if that has none.
        """
        if not isinstance(data, str) or first == '"':
            return yaml_value(data)
        if first == "'" and data.isprintable() and "'" not in data:
            return f"'{data}'"
        return yaml_key(data)

    def parameters(self) -> list[tuple[ActionMapping, str, Parameter, YamlPath]]:
        """Return every parameter of every valid mapping, with its path."""
        return [
            (mapping, name, parameter, (MAPPINGS, mapping.name, name))
            for mapping in self.config.mappings.values()
            for name, parameter in mapping.parameters.items()
        ]

    def _source(self, line: int, column: int, length: int) -> str:
        return (
            self._lines[line - 1][column - 1 : column - 1 + length]
            if 0 < line <= len(self._lines)
            else ""
        )


def suggest(
    word: str, known: Collection[str], change: Callable[[str], Fix | None], otherwise: str = ""
) -> tuple[str, Fix | None, Fix | None]:
    """Return suggestions for a word that is not known.

    Args:
        word: What the configuration says.
        known: What could have been meant.
        change: Makes the change that puts a known word in the place of `word`.
        otherwise: The hint where no known word is near.

    Returns:
        The end of a message; the change when the known word is certain, and the change when it is a
        guess.
    """
    sure = confident_match(word, known)
    near = did_you_mean(word, known) if sure is None else sure
    if near is None:
        return otherwise, None, None
    made = change(near)
    return (
        f"; did you mean `{near}`?",
        made if sure is not None else None,
        made if sure is None else None,
    )


def shown(data: Any) -> str:
    """A value as messages show it: JSON, cut when it is long."""
    return clean_line(literal(data), 60)
