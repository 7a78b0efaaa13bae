"""Run by test_spec inside the training environment: TRL plays a `HudtuiSpec` for three steps.
Prints one JSON object."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import trl
from transformers import Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from hudtui.trainers.spec import HudtuiSpec
from hudtui.trainers.tiny import build_tokenizer

TURNS = 3


def direction(number: int, turn: int) -> str:
    return random.Random(f"{number}/{turn}").choice(["left", "right", "up", "down"])


def main(folder: Path) -> dict[str, Any]:
    spec = HudtuiSpec("c.yaml", "tasks.json", folder=folder, system_prompt="Play.")
    tokenizer = build_tokenizer([(folder / "c.yaml").read_text()])
    tokenizer.chat_template = (
        Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja"
    ).read_text()
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )

    class Scripted(GRPOTrainer):  # type: ignore[misc]
        """TRL's own loop of tools, environments and rewards, around replies from a script."""

        def _generate_single_turn(
            self, prompt_ids: list[list[int]], *rest: Any, **more: Any
        ) -> tuple[list[list[int]], None]:
            said = []
            for number, ids in enumerate(prompt_ids):
                turn = tokenizer.decode(ids).count("<tool_response>")
                call = json.dumps(
                    {"name": "move", "arguments": {"direction": direction(number, turn)}}
                )
                text = f"<tool_call>\n{call}\n</tool_call>" if turn < TURNS else "Enough."
                said.append(tokenizer(text + "<|im_end|>")["input_ids"])
            return said, None

    seen: list[dict[str, Any]] = []

    def reward(environments: Any = None, task_id: Any = None, **more: Any) -> list[float | None]:
        rewards = spec.reward_funcs(environments=environments, **more)
        seen.append({"tasks": list(task_id), "rewards": rewards})
        return rewards

    arguments = GRPOConfig(
        output_dir=str(folder / "out"),
        max_steps=3,
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=1200,
        report_to=[],
        use_cpu=True,
        logging_steps=1,
        save_strategy="no",
    )
    trainer = Scripted(
        model=Qwen2ForCausalLM(config),
        processing_class=tokenizer,
        args=arguments,
        train_dataset=spec.train_dataset,
        environment_factory=spec.environment_factory,
        reward_funcs=reward,
    )
    trainer.train()
    spec.close()
    logged = [line for line in trainer.state.log_history if "tools/call_frequency" in line]
    return {
        "step": trainer.state.global_step,
        "seen": seen,
        "calls": [line["tools/call_frequency"] for line in logged],
        "failures": [line["tools/failure_frequency"] for line in logged],
    }


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(Path(sys.argv[1]))))
