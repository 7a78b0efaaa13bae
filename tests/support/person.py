"""A user whose answers a test writes down beforehand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hudtui.core.flows.person import Choice, Severity


@dataclass(frozen=True)
class Question:
    """What a flow has asked."""

    title: str
    lines: tuple[str, ...] = ()
    value: str = ""
    """The suggested answer."""
    secret: bool = False
    danger: bool = False
    choices: tuple[Choice, ...] = ()


class ScriptedPerson:
    """A `Person` that gives its answers in their order, and keeps the questions and what the flow
    says.

    Args:
        answers: True or False to a confirmation, a text or None to the others. `...` takes the
            suggested answer. To a form a dict, whose values take the place of defaults. To a
            question that something else may answer an async function, which gets the text to copy,
            and returns what is typed, or None to wait.
    """

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.questions: list[Question] = []
        self.said: list[str] = []
        self.copied: list[str] = []
        """The texts to copy of the questions."""
        self.severities: list[Severity] = []

    @property
    def titles(self) -> list[str]:
        """The titles of the questions."""
        return [question.title for question in self.questions]

    @property
    def unasked(self) -> list[Any]:
        """The answers that no question has taken."""
        return self._answers

    async def confirm(
        self,
        title: str,
        lines: tuple[str, ...] = (),
        *,
        yes: str = "Yes",
        no: str = "Cancel",
        danger: bool = False,
    ) -> bool:
        answer = self._answer(Question(title, lines, danger=danger))
        assert isinstance(answer, bool), (title, answer)
        return answer

    async def ask(
        self,
        title: str,
        *,
        lines: tuple[str, ...] = (),
        value: str = "",
        placeholder: str = "",
        secret: bool = False,
        accept: str = "OK",
        copy: str = "",
        until: asyncio.Event | None = None,
    ) -> str | None:
        self.copied.append(copy)
        answer = self._answer(Question(title, lines, value, secret))
        if until is not None and callable(answer):
            if (typed := await answer(copy)) is not None:
                return str(typed)
            await until.wait()
            return ""
        assert answer is None or answer is ... or isinstance(answer, str), (title, answer)
        return value if answer is ... else answer

    async def choose(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        lines: tuple[str, ...] = (),
        value: str | None = None,
    ) -> str | None:
        suggested = choices[0].value if value is None and choices else value
        answer = self._answer(Question(title, lines, suggested or "", choices=tuple(choices)))
        answer = suggested if answer is ... else answer
        assert answer is None or answer in [choice.value for choice in choices], (
            title,
            answer,
            choices,
        )
        return None if answer is None else str(answer)

    def say(self, text: str, /, *, severity: Severity = "information") -> None:
        self.said.append(text)
        self.severities.append(severity)

    def _answer(self, question: Question) -> Any:
        self.questions.append(question)
        assert self._answers, f"an unexpected question: {question.title}"
        return self._answers.pop(0)
