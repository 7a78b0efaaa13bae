"""Run by test_rehearsal inside the training environment: what only torch and TRL can answer. Prints one JSON object."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import torch
import trl
from peft import PeftModel

from hudtui.core.errors import InputError
from hudtui.core.gym.config import load_config
from hudtui.core.training.recipe import read_recipe
from hudtui.trainers import grpo, tiny
from hudtui.trainers.rollout import EpisodeRunner
from hudtui.trainers.tokens import ChatTokens, chat_tokens_for


def templates(tokenizer: Any) -> dict[str, Any]:
    """What becomes of the chat templates of well-known models, which TRL brings along."""
    found: dict[str, Any] = {}
    for name in ("qwen2_5", "qwen3", "llama3_1", "glm4moe"):
        other = copy.deepcopy(tokenizer)
        other.chat_template = (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text()
        try:
            scribe, warning = chat_tokens_for(other, thinking=True)
        except InputError as error:
            found[name] = error.what
        else:
            found[name] = [bool(warning), scribe.keeps_thoughts(), other.decode(scribe.answer("OBS", ended=False))]
    return found


def main(run: Path) -> dict[str, Any]:
    recipe = read_recipe((run / "files/recipe.json").read_text(), name="recipe")
    config = load_config(next((run / "files/config").iterdir()))
    from types import SimpleNamespace

    settings = grpo.load_settings(Path.cwd(), grpo.choose_platform(Path.cwd()))
    arguments = SimpleNamespace(
        recipe=str(run / "files/recipe.json"),
        config=str(next((run / "files/config").iterdir())),
        tasks=str(next((run / "files/tasks").iterdir())),
    )
    _, _, tasks = grpo.read_all(arguments, settings)  # type: ignore[arg-type]
    model, tokenizer = grpo.load_model(recipe, config, tasks)
    again, _ = grpo.load_model(recipe, config, tasks)
    same = all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))

    # The adapter that was saved belongs to this model, loads, and changes what it says.
    prompt = torch.tensor([ChatTokens(tokenizer).open([{"role": "user", "content": "x"}]).ids])
    with torch.no_grad():
        before = model(prompt).logits
        adapted = PeftModel.from_pretrained(again, str(run / "out/model"))
        after = adapted(prompt).logits
        merged = adapted.merge_and_unload()(prompt).logits

    # What is expected of TRL's private method: token lists in, one reply a prompt out, ended by the end mark or cut off.
    scribe, warning = chat_tokens_for(tokenizer, thinking=True)
    players = EpisodeRunner(config, scribe, lambda _: None, max_tokens=8, max_seq_len=99)  # type: ignore[arg-type, return-value]
    from transformers import TrainerCallback

    trainer = grpo.make_trainer(recipe, model, tokenizer, players, tasks, None, TrainerCallback(), run / "out" / "again")
    prompts = [scribe.open([{"role": "user", "content": text}]).ids for text in ("a", "a much longer question than that", "b")]
    replies, logprobs = grpo.generate_turn(trainer, prompts)
    return {
        "templates": templates(tokenizer),
        "same_seed_same_model": same,
        "adapter_changes": float((after - before).abs().max()),
        "merged_differs": float((after - merged).abs().max()),
        "replies": [len(reply) for reply in replies],
        "ends": [reply.index(scribe.end) if scribe.end in reply else None for reply in replies],
        "all_int": all(type(token) is int for reply in replies for token in reply),
        "logprobs": logprobs,
        "warning": warning,
        "unicode": tokenizer.decode(tokenizer("naïve 数 🙂", add_special_tokens=False)["input_ids"]),
        "replies_of_config": list(tiny.example_replies(config)),
    }


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(Path(sys.argv[1]))))
