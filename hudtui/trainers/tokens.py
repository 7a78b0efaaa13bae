"""The chat template that a training uses.

The model's own, or TRL's where the model's drops earlier thoughts.
"""

from __future__ import annotations

from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.gym.dialects.known import AUTO, DIALECTS
from hudtui.core.training.chat_tokens import ChatTokens
from hudtui.core.training.tool_tokens import ToolTokens

_CHANGES = "the model's chat template changes earlier turns of a conversation with tool calls"


def chat_tokens_for(
    tokenizer: Any, *, thinking: bool, dialect: str = "text"
) -> tuple[ChatTokens, str | None]:
    """Return a `ChatTokens` whose template renders earlier turns unchanged, and a warning.

    There is a warning if the template was replaced, otherwise None.

    In the dialect `native` the template is given the tools, and must render generated tool episodes
    token by token as they are trained; in `auto` it is where it can be.

    The tokenizer's template is replaced by TRL's training template where it drops earlier thoughts;
    without `thinking` none is replaced.

    Raises:
        InputError: The template cannot be used, and TRL has no training template for this model.
    """
    if DIALECTS[dialect].schemas == "apart":
        try:
            return _tool_tokens(tokenizer, thinking)
        except InputError:
            if dialect != AUTO:
                raise
    scribe = ChatTokens(tokenizer)
    if not thinking or scribe.keeps_thoughts():
        return scribe, None
    from trl.chat_template_utils import get_training_chat_template

    try:
        template = get_training_chat_template(tokenizer)
    except ValueError:
        template = None
    if template is not None:
        tokenizer.chat_template = template
        scribe = ChatTokens(tokenizer)
        if scribe.keeps_thoughts():
            return (
                scribe,
                "the model's chat template drops earlier thoughts; a training template replaces "
                "it, here and beside the adapter",
            )
    raise InputError(
        "the model's chat template drops earlier thoughts: what is trained is not what would be "
        "asked later",
        fix=(
            "Set parser.use_thinking to false in the configuration, or choose another model, such "
            "as one of Qwen2.5-Instruct."
        ),
    )


def _tool_tokens(tokenizer: Any, thinking: bool) -> tuple[ChatTokens, str | None]:
    """`chat_tokens_for` of a model that is given tools."""
    from trl.chat_template_utils import get_training_chat_template

    scribe = ToolTokens(tokenizer)
    if scribe.keeps_prefixes(thinking=thinking):
        return scribe, None
    own = tokenizer.chat_template
    try:
        template = get_training_chat_template(tokenizer)
    except ValueError:
        template = None
    if template is not None:
        tokenizer.chat_template = template
        scribe = ToolTokens(tokenizer)
        if scribe.keeps_prefixes(thinking=thinking):
            return (
                scribe,
                f"{_CHANGES}; a training template replaces it, here and beside the adapter",
            )
        tokenizer.chat_template = own
    raise InputError(
        f"{_CHANGES}: what is trained is not what would be asked later",
        fix="Set parser.dialect to text or hermes (--dialect), or choose another model.",
    )
