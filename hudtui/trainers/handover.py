"""New weights for a model server on a CPU: the adapter is saved, and the server loads it.

On GPUs TRL sends all weights to the server with NCCL, which needs CUDA. TRL calls this in the same
places, and reads the same settings from it; everything else of a training with a server is
unchanged.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import Any

import httpx2

from hudtui.core.errors import RunError
from hudtui.core.text import clean_line

_SECONDS = 300.0


class AdapterHandover:
    """Stands for TRL's `VLLMGeneration` in a trainer, with a server that takes adapters.

    The server takes them at run time.

    `url` is the server's address, without `/v1`; it has to read the folder, where adapters are
    saved for it.
    """

    def __init__(self, trainer: Any, url: str, folder: Path) -> None:
        self._trainer = trainer
        self._url = url.rstrip("/")
        self._folder = folder.absolute()
        self._mark = secrets.token_hex(3)
        self.repetition_penalty = trainer.repetition_penalty
        self.temperature = trainer.temperature
        self.top_p = trainer.top_p
        self.top_k = trainer.top_k
        self.min_p = trainer.min_p
        self.max_completion_length = trainer.max_completion_length
        self.generation_kwargs: dict[str, Any] = {}
        self.model = ""
        """The server's name of the newest adapter."""

    def sync_weights(self) -> None:
        """Have the server answer with the weights as they are now.

        Raises:
            RunError: The server does not take the adapter.
        """
        # The server keeps what it has computed for a prompt by the adapter's name and path, also
        # when other weights are loaded there. Each step has a name of its own, which no earlier
        # trainer of this server had.
        name = f"step-{self._trainer.state.global_step}-{self._mark}"
        if name == self.model:
            return
        place = self._folder / name
        self._trainer.model.save_pretrained(str(place))
        self._post("load_lora_adapter", {"lora_name": name, "lora_path": str(place)})
        if self.model:
            self._post("unload_lora_adapter", {"lora_name": self.model})
            shutil.rmtree(self._folder / self.model, ignore_errors=True)
        self.model = name

    def _post(self, what: str, body: dict[str, Any]) -> None:
        try:  # a proxy of the environment cannot reach this machine's own server
            answer = httpx2.post(
                f"{self._url}/v1/{what}", json=body, timeout=_SECONDS, trust_env=False
            )
        except httpx2.HTTPError as error:
            why = clean_line(str(error), 300) or type(error).__name__
        else:
            if answer.is_success:
                return
            why = clean_line(answer.text, 300)
        raise RunError(
            f"the model's server did not {what.replace('_', ' ')} {body['lora_name']}", why=why
        )


def attach(trainer: Any, url: str, folder: Path) -> None:
    """Make a trainer without vLLM generate with a server.

    It does so as if it had been made with one.
    """
    trainer.vllm_generation = AdapterHandover(trainer, url, folder)
    trainer.use_vllm = True  # its correction for another model's log probabilities, too
    trainer.vllm_mode = "server"
    trainer._last_loaded_step = -1
