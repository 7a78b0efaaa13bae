"""Is a fault of an environment ever a score? Episodes over environments that fail, and over healthy
odd ones, are counted.

    python tests/faults/environments.py [--seed 1] [--episodes 2000] [--healthy 2000]

Every fault of every transport (stdio, streamable HTTP, SSE, OpenEnv) comes at setup, play and
evaluation, in an order that the seed decides, between the healthy ones. No episode with a fault may
be scored or be in a mean, no healthy one may be left out, 99 % of the causes have to be right, and
a fault has to be known within two seconds. Prints what is not so; the exit status is 1 then. A
machine under load is late by itself: `--at-once 2` helps.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1])
)  # for `support`, also where this runs as a program

from support import faulty_world as world


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--episodes", type=int, default=2000, help="episodes with a fault")
    parser.add_argument("--healthy", type=int, default=2000, help="episodes without one")
    parser.add_argument("--at-once", type=int, default=12)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    broken, whole = (
        world.faulted(asked.episodes, chance),
        world.healthy(asked.healthy, chance, asked.episodes),
    )
    cases = [*broken, *whole[1:]]
    chance.shuffle(cases)
    with tempfile.TemporaryDirectory(prefix="hudtui-faults-") as folder:
        report = asyncio.run(world.play([*whole[:1], *cases], Path(folder), at_once=asked.at_once))
    print("\n".join(world.summary(report)))
    right = 1 - len(report.causes()) / max(len(broken), 1)
    return 1 if report.wrong or report.late() or right < 0.99 else 0


if __name__ == "__main__":
    sys.exit(main())
