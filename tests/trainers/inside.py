"""Run by test_rehearsal inside the training environment: what only torch and TRL can answer. Prints
one JSON object."""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from pathlib import Path
from typing import Any

import torch
import trl
from peft import PeftModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.token_server import token_server

from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.gym.config import load_config
from hudtui.core.training.chat_tokens import ChatTokens
from hudtui.core.training.recipe import read_recipe
from hudtui.trainers import grpo, tiny
from hudtui.trainers.rollout import EpisodeRunner
from hudtui.trainers.tokens import chat_tokens_for


def templates(tokenizer: Any) -> dict[str, Any]:
    """What becomes of the chat templates of well-known models, which TRL brings along."""
    found: dict[str, Any] = {}
    for name in ("qwen2_5", "qwen3", "llama3_1", "glm4moe"):
        other = copy.deepcopy(tokenizer)
        other.chat_template = (
            Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja"
        ).read_text()
        try:
            scribe, warning = chat_tokens_for(other, thinking=True)
        except InputError as error:
            found[name] = error.what
        else:
            found[name] = [
                bool(warning),
                scribe.keeps_thoughts(),
                other.decode(scribe.answer("OBS", ended=False)),
            ]
    return found


def at_a_server(trainer: Any, prompts: list[list[int]]) -> dict[str, Any]:
    """The same prompts through TRL's own client of a vLLM server and through ours: what is asked,
    and what comes back."""
    import httpx2
    from trl.generation.vllm_client import VLLMClient
    from trl.generation.vllm_generation import VLLMGeneration

    def sample(prompt: list[int]) -> tuple[list[int], list[float | None]]:
        return [len(prompt), 7, 8], [-0.125 * len(prompt), float("nan"), -1.5]

    with token_server(sample) as server:
        # vLLM, and requests, are needed to make these two; to talk to a server they are not.
        client = VLLMClient.__new__(VLLMClient)
        client._post = lambda url, json: httpx2.post(url, json=json, trust_env=False).json()
        client.base_url, client.model = server.url, "tiny"
        theirs = VLLMGeneration.__new__(VLLMGeneration)
        theirs.mode, theirs.accelerator, theirs.vllm_client = "server", trainer.accelerator, client
        theirs.temperature, theirs.top_p, theirs.top_k, theirs.min_p = 0.7, 0.9, 5, None
        theirs.repetition_penalty, theirs.max_completion_length, theirs.logprobs = 1.1, 12, 0
        theirs.structured_outputs_regex, theirs.generation_kwargs = None, {"seed": 3}
        expected = []
        for prompt in prompts:
            _, (ids,), (logprobs,), _ = theirs.generate(
                prompts=[prompt], images=None, num_generations=1
            )
            expected.append((ids, [one[0] for one in logprobs]))
        asked = list(server.asked)
        server.asked.clear()
        trainer.vllm_generation = theirs

        async def ours() -> list[Any]:
            replies = grpo.replies_of(trainer, server.url)
            async with replies.serving(len(prompts)):
                return [await replies.reply(prompt) for prompt in prompts]

        found = asyncio.run(ours())
        return {
            "same request": server.asked == asked,
            "same replies": found == expected,
            "replies": found,
        }


def handed_over(trainer: Any, prompt: list[int], folder: Path) -> dict[str, Any]:
    """What a server on a CPU is told: the adapter of each step under a name of its own, whose files
    are there by then."""
    from hudtui.trainers import handover

    with token_server(lambda _: ([7], [-0.5])) as server:
        handover.attach(trainer, server.url, folder)
        told, whole = [], []
        for step in (0, 0, 1):
            trainer.state.global_step = step
            trainer.vllm_generation.sync_weights()
            told += server.adapters
            whole += [
                (Path(body["lora_path"]) / "adapter_model.safetensors").is_file()
                for _, body in server.adapters[:1]
            ]
            server.adapters.clear()

        async def ask() -> None:
            replies = grpo.replies_of(trainer, server.url, cpu=True)
            async with replies.serving(1):
                await replies.reply(prompt)

        asyncio.run(ask())
        server.refuses.add("adapter")
        trainer.state.global_step = 2
        try:
            trainer.vllm_generation.sync_weights()
        except HudtuiError as error:
            refused = "; ".join(error.lines())
        first, asked = trainer.vllm_generation.model, server.asked[-1]["model"]
        server.refuses.clear()
        handover.attach(
            trainer, server.url, folder
        )  # as a trainer that continues beside the same server
        trainer.state.global_step = 1
        trainer.vllm_generation.sync_weights()
        told = [[what, body["lora_name"].rpartition("-")[0]] for what, body in told]
        left = sorted(path.name.rpartition("-")[0] for path in folder.iterdir())
        other = {"asked": asked == first, "again": [first, trainer.vllm_generation.model]}
        return {"told": told, "whole": whole, "left": left, "refused": refused, **other}


def main(run: Path) -> dict[str, Any]:
    recipe = read_recipe((run / "files/recipe.json").read_text(), name="recipe")
    config = load_config(next((run / "files/config").iterdir()))
    from types import SimpleNamespace

    settings = grpo.load_settings(Path.cwd())
    arguments = SimpleNamespace(
        recipe=str(run / "files/recipe.json"),
        config=str(next((run / "files/config").iterdir())),
        tasks=str(next((run / "files/tasks").iterdir())),
    )
    _, _, tasks = grpo.read_all(arguments, settings)  # type: ignore[arg-type]
    model, tokenizer = grpo.load_model(recipe, config, tasks)
    again, _ = grpo.load_model(recipe, config, tasks)
    same = all(
        torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True)
    )

    # The adapter that was saved belongs to this model, loads, and changes what it says.
    prompt = torch.tensor([ChatTokens(tokenizer).open([{"role": "user", "content": "x"}]).ids])
    with torch.no_grad():
        before = model(prompt).logits
        adapted = PeftModel.from_pretrained(again, str(run / "out/model"))
        after = adapted(prompt).logits
        merged = adapted.merge_and_unload()(prompt).logits

    # What is expected of TRL's private method: token lists in, one reply a prompt out, ended by the
    # end mark or cut off.
    scribe, warning = chat_tokens_for(tokenizer, thinking=True)
    players = EpisodeRunner(config, scribe, lambda _: None, max_tokens=8, max_seq_len=99)  # type: ignore[arg-type, return-value]
    from transformers import TrainerCallback

    trainer = grpo.make_trainer(
        recipe, model, tokenizer, players, tasks, None, TrainerCallback(), run / "out" / "again"
    )
    prompts = [
        scribe.open([{"role": "user", "content": text}]).ids
        for text in ("a", "a much longer question than that", "b")
    ]
    replies, logprobs = grpo.generate_turn(trainer, prompts)
    server = at_a_server(trainer, prompts)
    return {
        "handed over": handed_over(trainer, prompts[0], run / "out" / "handover"),
        "templates": templates(tokenizer),
        "same_seed_same_model": same,
        "adapter_changes": float((after - before).abs().max()),
        "merged_differs": float((after - merged).abs().max()),
        "replies": [len(reply) for reply in replies],
        "ends": [reply.index(scribe.end) if scribe.end in reply else None for reply in replies],
        "all_int": all(type(token) is int for reply in replies for token in reply),
        "logprobs": logprobs,
        "warning": warning,
        "server": server,
        "unicode": tokenizer.decode(
            tokenizer("naïve 数 🙂", add_special_tokens=False)["input_ids"]
        ),
        "replies_of_config": list(tiny.example_replies(config)),
    }


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(Path(sys.argv[1]))))
