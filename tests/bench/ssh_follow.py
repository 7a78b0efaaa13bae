"""How quick following a log over SSH is, beside `tail -F` over OpenSSH's own client, on the same
file at the same time.

    python tests/bench/ssh_follow.py [--rates 1000,10000,50000] [--seconds 5]

A real sshd on loopback; one process writes lines of 130 bytes. One process follows with hudtui's
SshHost and its line feed (decoded, cleaned, folded), another reads `ssh machine tail -F` and only
splits lines; the CPU of the ssh client counts there. CPU is in percent of one core, without
connecting; the sshd's and the remote reader's part is not in it. Lag is the age of the newest line
of each batch when it can be shown.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

from follow import Meter, write

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `support`

from support import sshd


async def follow_ours(port: str, key: str, path: str, total: int) -> None:
    from support.sshd import connect_ssh

    from hudtui.core.remote.known_hosts import KnownHosts
    from hudtui.core.remote.logs import LineSplitter
    from hudtui.core.remote.target import SshTarget

    target = SshTarget(getpass.getuser(), "127.0.0.1", int(port), (Path(key),), agent="")
    async with await connect_ssh(
        target, known_hosts=KnownHosts(Path(path).parent / "pins")
    ) as host:
        meter, feed = Meter(total), LineSplitter()
        stream: Any = host.follow(path)
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                done = feed.feed(chunk).done
                if done and meter.seen(done[-1], len(done)):
                    break
        meter.report()


def follow_tail(port: str, key: str, path: str, total: int) -> None:
    meter = Meter(total)
    options = [
        "-F",
        "none",
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        f"UserKnownHostsFile={Path(path).parent}/known",
    ]
    argv = [
        "ssh",
        *options,
        "-o",
        "LogLevel=ERROR",
        "-p",
        port,
        "-i",
        key,
        "127.0.0.1",
        f"exec tail -n +1 -F {path}",
    ]
    tail = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert tail.stdout is not None
    rest, before = b"", None
    while data := os.read(tail.stdout.fileno(), 1 << 16):
        if before is None:
            before = cpu_of(tail.pid)
        *lines, rest = (rest + data).split(b"\n")
        if lines and meter.seen(lines[-1].decode(), len(lines)):
            break
    spent = cpu_of(tail.pid) - (before or 0.0)
    tail.terminate()
    tail.wait()
    meter.report(spent)


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def me(*words: object) -> list[str]:
    return [sys.executable, __file__, *map(str, words)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rates", default="1000,10000,50000")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sshd.running_server() as server:
        print(
            f"{'lines/s':>8}  {'follower':<12} {'CPU %':>6} {'lag ms':>7} {'most':>7} "
            f"{'RSS MiB':>8} {'lines':>9}"
        )
        for rate in map(int, options.rates.split(",")):
            path = str(Path(folder, f"{rate}.log"))
            Path(path).touch()
            total = int(rate * options.seconds)
            followers = {
                name: subprocess.Popen(
                    me("--as", name, server.port, server.key, path, total), stdout=subprocess.PIPE
                )
                for name in ("hudtui", "ssh tail -F")
            }
            time.sleep(2.5)
            subprocess.run(me("--as", "writer", path, rate, options.seconds), check=True)
            figures = {}
            for name, process in followers.items():
                figures[name] = row = json.loads(process.communicate(timeout=120)[0])
                print(
                    f"{rate:>8}  {name:<12} {row['cpu']:>6.1f} {row['median'] * 1000:>7.0f} "
                    f"{row['most'] * 1000:>7.0f} {row['rss']:>8.0f} {row['lines']:>9}"
                )
            print(
                f"{'':>8}  ratio of CPU "
                f"{figures['hudtui']['cpu'] / max(figures['ssh tail -F']['cpu'], 0.1):.1f}"
            )


if __name__ == "__main__":
    if "--as" in sys.argv:
        role, *words = sys.argv[2:]
        if role == "writer":
            write(words[0], int(words[1]), float(words[2]))
        elif role == "hudtui":
            asyncio.run(follow_ours(words[0], words[1], words[2], int(words[3])))
        else:
            follow_tail(words[0], words[1], words[2], int(words[3]))
    else:
        main()
