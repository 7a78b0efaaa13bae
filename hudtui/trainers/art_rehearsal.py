"""What stands for a GPU in a rehearsal with ART.

A model that makes random calls, and a backend that trains nothing. Everything else is real:
environments, episodes, trajectories, groups, judges, and ART's own records.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import art
from art.utils.output_dirs import get_model_dir
from openai.types.chat import ChatCompletion

_ENDS = 0.02
"""Chance that the random model says that it is done."""


class RehearsalChat:
    """Calls one of the tools with random arguments of the right types."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> ChatCompletion:
        """Return a random call; see `Chat.complete`."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if not tools or self._random.random() < _ENDS:
            message["content"] = "I am done."
        else:
            function = self._random.choice(list(tools))["function"]
            arguments = json.dumps(self._arguments(function["parameters"]))
            call = {"id": f"call_{uuid.uuid4().hex[:12]}", "type": "function"}
            message["tool_calls"] = [
                {**call, "function": {"name": function["name"], "arguments": arguments}}
            ]
        reason = "tool_calls" if "tool_calls" in message else "stop"
        return ChatCompletion.model_validate(
            {
                "id": "rehearsal",
                "object": "chat.completion",
                "created": 0,
                "model": "rehearsal",
                "choices": [{"index": 0, "finish_reason": reason, "message": message}],
            }
        )

    def _arguments(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = schema.get("required") or list(properties)
        return {name: self._value(properties.get(name) or {}) for name in required}

    def _value(self, schema: Mapping[str, Any]) -> Any:
        choices = schema.get("enum")
        if choices:
            return self._random.choice(list(choices))
        kind = schema.get("type")
        if kind in ("integer", "number"):
            low, high = schema.get("minimum", 0), schema.get("maximum", 10)
            return self._random.randint(int(low), max(int(low), int(high)))
        values: dict[Any, Any] = {"boolean": self._random.random() < 0.5, "array": [], "object": {}}
        return values.get(kind, "text")


class RehearsalBackend:
    """A backend of ART that counts steps and trains nothing.

    Its methods are those that ART calls.
    """

    def __init__(self, endpoint: tuple[str, str] | None = None) -> None:
        self._endpoint = endpoint
        self._state: Path | None = None

    async def register(self, model: Any) -> None:
        """Take a model, with its earlier steps."""
        folder = Path(get_model_dir(model, model.base_path))
        folder.mkdir(parents=True, exist_ok=True)
        self._state = folder / "rehearsal.json"

    async def close(self) -> None:
        """Nothing is open."""

    async def _get_step(self, model: Any) -> int:
        try:
            assert self._state is not None
            return int(json.loads(self._state.read_text(encoding="utf-8"))["step"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    async def _delete_checkpoint_files(self, model: Any, steps_to_keep: list[int]) -> None:
        """There are none."""

    async def _prepare_backend_for_training(self, model: Any, config: Any) -> tuple[str, str]:
        base, _ = self._endpoint or ("http://127.0.0.1:9/v1", "")
        return base, "none"

    def _model_inference_name(self, model: Any, step: int | None = None) -> str:
        return self._endpoint[1] if self._endpoint else str(model.name)

    async def train(
        self, model: Any, trajectory_groups: Sequence[art.TrajectoryGroup], **settings: Any
    ) -> art.TrainResult:
        """Count a step."""
        step = await self._get_step(model) + 1
        assert self._state is not None
        self._state.write_text(json.dumps({"step": step}) + "\n", encoding="utf-8")
        return art.TrainResult(step=step, metrics={})
