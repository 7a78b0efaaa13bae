"""Check of a chat template for the trainer.

As a program, it reads the template as JSON from standard input. Renders as `transformers` does,
without it. A template is a foreign program: this process has a limit of memory and of time, and
Jinja's sandbox keeps the template from anything but its text.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from hudtui.core.errors import InputError
from hudtui.core.training.chat_tokens import ChatTokens

_MEMORY = 1 << 30
_SECONDS = 2


class _Generation(Extension):
    """The block `{% generation %}`, by which templates mark what a model says."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[Node]:
        """Return what is in the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TemplateTokenizer:
    """The part of a tokenizer that renders conversations.

    `tokens` are the special tokens by the names that templates use, such as `eos_token`.
    """

    eos_token_id = None

    def __init__(self, template: str, tokens: Mapping[str, str]) -> None:
        self.chat_template = template
        self._tokens = dict(tokens)
        self._environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        self._environment.filters["tojson"] = lambda value, **how: json.dumps(
            value, ensure_ascii=False, **how
        )
        self._environment.globals["raise_exception"] = _refuse
        self._environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tokenize: bool = False,
        add_generation_prompt: bool = False,
    ) -> str:
        """Return a conversation as the model reads it."""
        template = self._environment.from_string(self.chat_template)
        return template.render(
            messages=messages,
            add_generation_prompt=add_generation_prompt,
            tools=None,
            **self._tokens,
        )


def _refuse(text: str) -> NoReturn:
    raise TemplateError(text)


def main() -> int:
    """Read the template, and print what the trainer would say about it."""
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    asked = json.load(sys.stdin)
    try:
        scribe = ChatTokens(TemplateTokenizer(asked["template"], asked["tokens"]))
        scribe.check_opening(asked["opening"])
        answer: dict[str, Any] = {"keeps_thoughts": scribe.keeps_thoughts()}
    except InputError as error:
        answer = {"error": error.what, "why": error.why, "fix": error.fix}
    print(json.dumps(answer))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
