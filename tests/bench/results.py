"""What it costs to open, index and search large results.

    python tests/bench/results.py [--episodes 100000] [--gigabytes 5] [--folder DIR]

A file with so many episodes of so many bytes is written to a temporary folder, and removed at the
end. In a process of its own each, after the file was read once: the first group, the whole index,
one transcript, and a search for a text that the last episode has alone. Floors, on the same file in
the same run: reading its bytes in blocks; `grep -c` of its line ends for the index; and
`grep -c -i -F` of the text for the search. A second pass measures records of version 1, which must
be parsed as a whole. Memory is the most that the process has held (resident set), the interpreter
included.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TEXT = "The last episode alone meets a zebra."
GROUP = 8


def write(path: Path, episodes: int, size: int, *, old: bool) -> None:
    """Write episodes whose conversations differ, as hudtui writes them; `old`: as it wrote them
    before."""
    from hudtui.core.rollouts.trace import episode_to_json
    from hudtui.core.rollouts.values import Episode, Scores, Turn

    dice = random.Random(1)
    words = [
        f"{dice.choice('bcdfgklmnprst')}{dice.choice('aeiou')}{dice.choice('bdglmnrst')}{number}"
        for number in range(900)
    ]
    turns = 10
    letters = max((size // episodes - 4_000) // (turns * 4), 20)
    texts = [" ".join(dice.choices(words, k=letters // 5 + 1))[:letters] for _ in range(400)]
    with path.open("wb", 8 << 20) as file:
        for number in range(episodes):
            said = [dice.choice(texts) for _ in range(turns * 2)]
            if number == episodes - 1:
                said[-1] = TEXT
            made = [
                Turn(
                    said[n],
                    {"tool": "left()", "done": False},
                    {"tool": "move", "arguments": {"direction": "left"}},
                    said[-n - 1],
                    False,
                )
                for n in range(turns)
            ]
            messages = [{"role": "user", "content": "Go."}]
            for turn in made:
                messages += [
                    {"role": "assistant", "content": turn.reply},
                    {"role": "user", "content": turn.observation},
                ]
            reward = dice.random()
            episode = Episode(
                f"task-{number // GROUP % 1250}", tuple(messages), tuple(made),
                Scores(reward, 1.0, 1.0, reward, True), "done", seconds={"total": 1.5},
                info={"rollout": number % GROUP, "step": number // GROUP // 8, "split": "train"},
            )  # fmt: skip
            record = episode_to_json(episode)
            if old:
                record = {
                    key: value
                    for key, value in record.items()
                    if key not in ("version", "turn_count")
                }
                record |= {key: record.pop(key) for key in ("seconds", "info")}
            file.write(
                json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            )


def memory() -> float:
    """Most MB that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def processor() -> float:
    """Seconds of processor time that this process has taken, in all its threads."""
    return time.process_time()


def measure(path: Path, what: str) -> dict[str, float]:
    """Measure one thing. Runs in a process of its own; imports count."""
    begun = time.perf_counter()
    from hudtui.core.results.find import results_at
    from hudtui.core.results.index import ResultIndex

    index = ResultIndex(results_at(path))
    if what == "first":
        index.advance(0.05)
        group = index.groups()[0]
        assert len(index.members(group)) == GROUP
        shown = time.perf_counter() - begun
        begun = time.perf_counter()
        transcript = index.read(index.entries[0])
        assert len(transcript.turns) == 10
        return {"seconds": shown, "transcript": time.perf_counter() - begun, "memory": memory()}
    longest = 0.0
    while True:
        piece = time.perf_counter()
        progress = index.advance(0.1)
        longest = max(longest, time.perf_counter() - piece)
        if progress.complete:
            break
    done = time.perf_counter() - begun
    if what == "index":
        return {
            "processor": processor(),
            "seconds": done,
            "episodes": progress.entries,
            "groups": len(index.groups()),
            "longest": longest,
            "memory": memory(),
        }
    return {**search(index), "memory": memory()}


def search(index: object) -> dict[str, float]:
    """Search an index that is complete."""
    import asyncio

    from hudtui.core.results.index import ResultIndex
    from hudtui.core.results.search import search as find

    assert isinstance(index, ResultIndex)

    async def run() -> int:
        found = 0
        async for piece in find(index, TEXT.lower()):
            found = piece.found
        return found

    begun, before = time.perf_counter(), processor()
    assert asyncio.run(run()) == 1
    return {"seconds": time.perf_counter() - begun, "processor": processor() - before}


def read_all(path: Path) -> float:
    """The floor of all: read the bytes in blocks."""
    begun, block = time.perf_counter(), bytearray(1 << 20)
    with path.open("rb", 0) as file:
        while file.readinto(block):
            pass
    return time.perf_counter() - begun


def grep(path: Path, *options: str) -> float:
    """Count lines with grep."""
    begun = time.perf_counter()
    done = subprocess.run(
        ["grep", "-c", *options, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    assert int(done.stdout) >= 1, done
    return time.perf_counter() - begun


def ask(path: Path, what: str) -> dict[str, float]:
    """Measure in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--measure", what, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def main() -> None:
    """Write the file, measure, print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--episodes", type=int, default=100_000)
    options.add_argument("--gigabytes", type=float, default=5.0)
    options.add_argument(
        "--folder", type=Path, help="folder for the file; by default the one for temporary files"
    )
    options.add_argument("--measure", help=argparse.SUPPRESS)
    options.add_argument("path", nargs="?", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.measure:
        print(json.dumps(measure(given.path, given.measure)))
        return
    with tempfile.TemporaryDirectory(prefix="results-", dir=given.folder) as folder:
        for old in (False, True):
            path = Path(folder) / "traces.jsonl"
            write(path, given.episodes, int(given.gigabytes * 1e9), old=old)
            size = path.stat().st_size
            read_all(path)
            bytes_ = min(read_all(path) for _ in range(3))
            about = f"records of version {1 if old else 2}; reading the bytes {bytes_:.2f} s"
            print(
                f"{given.episodes:,} episodes, {size / 1e9:.2f} GB, {about}; load "
                f"{os.getloadavg()[0]:.1f}"
            )
            first, memory_ = ask(path, "first"), "{:.0f} MB".format
            told = f"{memory_(first['memory'])}; one transcript {1000 * first['transcript']:.1f} ms"
            print(f"  first group  {first['seconds']:.3f} s with imports, {told}")
            floor, index = grep(path, ""), ask(path, "index")
            told = (
                f"longest piece {index['longest']:.2f} s, {index['groups']:,} groups, "
                f"{memory_(index['memory'])}"
            )
            print(f"  index        {against(index, floor)}, {told}")
            floor, found = grep(path, "-i", "-F", TEXT.lower()), ask(path, "search")
            print(f"  search       {against(found, floor)}, {memory_(found['memory'])}")


def against(found: dict[str, float], floor: float) -> str:
    """Say what something took, and how that compares with grep."""
    return (
        f"{found['seconds']:.2f} s (processor {found['processor']:.2f} s), "
        f"{found['seconds'] / floor:.2f} of grep ({floor:.2f} s)"
    )


if __name__ == "__main__":
    main()
