"""The chat template that a training uses.

The model's own, or TRL's where the model's drops earlier thoughts.
"""

from __future__ import annotations

from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.training.chat_tokens import ChatTokens


def chat_tokens_for(tokenizer: Any, *, thinking: bool) -> tuple[ChatTokens, str | None]:
    """Return a `ChatTokens` whose template renders earlier turns unchanged, and a warning.

    There is a warning if the template was replaced, otherwise None.

    The tokenizer's template is replaced by TRL's training template where it drops earlier thoughts;
    without `thinking` none is replaced.

    Raises:
        InputError: The template cannot be used, and TRL has no training template for this model.
    """
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
