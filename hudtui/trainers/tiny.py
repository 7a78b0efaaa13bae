"""A language model for rehearsals and tests.

Small enough for any CPU, and built in code instead of downloaded.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hudtui.core.environment.values import Tool
from hudtui.core.errors import InputError
from hudtui.core.gym.action_tools import action_tools
from hudtui.core.gym.dialects.known import DIALECTS
from hudtui.core.gym.editing.preview import example_call, prompt_examples
from hudtui.core.gym.interpreter import reply_in
from hudtui.core.gym.values import GymConfig
from hudtui.core.tasks.task import Task
from hudtui.core.training.chat_tokens import ChatTokens

_NOISE = string.digits * 4 + string.ascii_letters + string.punctuation + " " * 60 + "\n" * 20

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TEMPLATE = (
    "{% if tools %}<|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "{% for call in message['tool_calls'] or [] %}<tool_call>\n"
    "{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}\n"
    "</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tokenizer(texts: Iterable[str]) -> Any:
    """Return a byte-level BPE tokenizer trained on `texts`. It encodes any text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=768,
        special_tokens=list(_SPECIAL),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(list(texts), trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=_SPECIAL[0], eos_token=_SPECIAL[2]
    )
    wrapped.chat_template = _TEMPLATE
    return wrapped


def build_model(tokenizer: Any, *, seed: int = 0, context: int = 4096) -> Any:
    """Return a randomly initialised model for `tokenizer`. The same seed gives the same weights."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2ForCausalLM(config)


def example_replies(config: GymConfig) -> tuple[str, ...]:
    """Return replies that use each action of the configuration."""
    given = prompt_examples(config)
    calls = [text for texts in given.values() for text in texts]
    calls += [
        example_call(mapping, None)
        for name, mapping in config.mappings.items()
        if name not in given
    ]
    calls = [call for call in dict.fromkeys(calls) if call != "done()"]
    if not calls:
        raise InputError("the configuration has no actions that could be tried")
    return tuple(reply_in(config, call) for call in calls)


@dataclass(frozen=True)
class Opening:
    """What stands before each task, with the tools as far as the configuration knows them."""

    messages: tuple[dict[str, str], ...]
    tools: tuple[dict[str, Any], ...]
    """Where the dialect keeps them apart from the messages."""

    @property
    def texts(self) -> tuple[str, ...]:
        return (*map(json.dumps, self.tools), *(message["content"] for message in self.messages))


def opening_of(config: GymConfig) -> Opening:
    """Return what stands before each task of a configuration."""
    dialect = DIALECTS[config.parser.dialect]
    tools = action_tools(config, {one.tool: Tool(one.tool) for one in config.mappings.values()})
    messages = config.opening(dialect.teach(tools, config.parser.use_thinking))
    return Opening(messages, tuple(dialect.functions(tools)))


def openings(
    scribe: ChatTokens, config: GymConfig, tasks: Sequence[Task], *, seed: int = 0
) -> list[list[int]]:
    """Return the tokens of conversations whose next message is a reply.

    Each is the system prompt, the examples and the prompt of a task, followed by noise in place of
    the environment's answers; with the tools where the dialect tells of them.
    """
    choice = random.Random(seed)
    dialect, opening = DIALECTS[config.parser.dialect], opening_of(config)
    heard = {"role": "tool", "tool_call_id": "call00000"} if opening.tools else {"role": "user"}
    found = []
    for number in range(24):
        task = tasks[number % len(tasks)]
        noise = "".join(choice.choice(_NOISE) for _ in range(choice.randrange(160)))
        asked = {"role": "user", "content": f"{task.prompt}\n\n{noise}"}
        transcript = scribe.open([*opening.messages, asked], opening.tools)
        if number % 2:
            answer = {**heard, "content": dialect.answer(noise)}
            transcript.hear(scribe.answers([answer], ended=False))
        found.append(transcript.ids)
    return found


def imitate(
    model: Any,
    tokenizer: Any,
    before: Sequence[Sequence[int]],
    replies: Sequence[str],
    *,
    steps: int,
    seed: int = 0,
    whole: bool = False,
) -> float:
    """Train the model to answer with one of `replies`, so that a rehearsal makes real tool calls.

    Returns the last loss.

    `before` has the tokens of the conversations before a reply, of which the ends are used. Each of
    the `steps` is a batch of eight replies. With `whole` it is one of four, behind whole
    conversations: the longer a reply, the more it takes to find one's place in it. The seed decides
    which replies follow which conversations.
    """
    import torch

    choice = random.Random(seed)
    most, count = (None, 4) if whole else (-192, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    endings = [
        [*tokenizer(reply, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        for reply in replies
    ]
    last = float("inf")
    model.train()
    for _ in range(steps):
        rows = [(list(choice.choice(before))[most:], choice.choice(endings)) for _ in range(count)]
        length = max(len(opening) + len(ending) for opening, ending in rows)
        ids, labels = [], []
        for opening, ending in rows:
            fill = [tokenizer.pad_token_id] * (length - len(opening) - len(ending))
            ids.append(opening + ending + fill)
            labels.append([-100] * len(opening) + ending + [-100] * len(fill))
        loss = model(input_ids=torch.tensor(ids), labels=torch.tensor(labels)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        last = float(loss.detach())
    return last
