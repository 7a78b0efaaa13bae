"""Episodes with tokens from a real vLLM server, compared with the model itself.

    .venv-train/bin/python tests/real/server_replies.py FOLDER_OF_THE_MODEL http://127.0.0.1:8000

The server serves the same folder, with `--logprobs-mode processed_logprobs --max-logprobs -1` as in
a plan of hudtui. Printed are the tokens of each episode, and how far the server's log probabilities
are from those that transformers computes in 32 bits.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from hudtui.core.environment.client import connect
from hudtui.core.gym.config import load_config
from hudtui.core.tasks.task import Task, ToolCall
from hudtui.trainers.replies import ServerReplies
from hudtui.trainers.rollout import EpisodeRunner
from hudtui.trainers.tokens import chat_tokens_for

SAMPLING = {
    "max_tokens": 16,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}
CONFIG = Path(__file__).parents[2] / "configs" / "2048.yaml"


def task(number: int) -> Task:
    return Task(
        f"board-{number}",
        "Play.",
        {"game": {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}},
        setup=(ToolCall("setup", {"name": "board", "seed": number, "board_size": 3}),),
        evaluate=(ToolCall("evaluate", {"name": "max_number", "target": 16}),),
    )


def main(folder: str, url: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    scribe, _ = chat_tokens_for(tokenizer, thinking=False)
    runner = EpisodeRunner(
        load_config(CONFIG),
        scribe,
        lambda servers: connect(servers, timeout=60),
        max_tokens=16,
        max_seq_len=2048,
        max_turns=3,
    )
    began = time.perf_counter()
    tasks = [task(number % 3) for number in range(6)]
    played = asyncio.run(
        runner.play(tasks, ServerReplies(url, SAMPLING, end=tokenizer.eos_token_id))
    )
    print(f"{len(played)} episodes in {time.perf_counter() - began:.1f} s")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for one in played:
        assert one.logprobs is not None and one.episode.ok, one.episode.error
        ids = one.prompt_ids + one.completion_ids
        with torch.no_grad():
            known = torch.log_softmax(model(torch.tensor([ids])).logits[0], -1)
        first = len(one.prompt_ids) - 1
        found = list(enumerate(zip(one.completion_ids, one.mask, one.logprobs, strict=True)))
        apart = [
            abs(known[first + at, token].item() - (value or 0.0))
            for at, (token, own, value) in found
            if own
        ]
        assert len(one.completion_ids) == len(one.mask) == len(one.logprobs)
        print(
            f"prompt {len(ids) - len(found)} tokens, completion {len(found)}, of the model "
            f"{len(apart)}; reward {one.reward}; log probabilities apart "
            f"{sum(apart) / len(apart):.3f} on average, {max(apart):.3f} at most"
        )


if __name__ == "__main__":
    main(*sys.argv[1:3])
