"""The real `prime` command line 0.18.0 against the simulator: every recorded case and every
recorded error, as a table.

Run by hand; the suite runs the same cases one by one (tests/conformance/test_prime_cli.py).

    .venv/bin/python tests/real/prime.py [--venv FOLDER] [--newest] [--smoke]

The command line is installed into an environment of its own, from requirements/prime-cli.txt with
its hashes, or with --newest in the newest version that the index has; --venv keeps it for the next
time. --smoke plays two cases and an error with the command line that `scripts/bootstrap dev` has
fetched.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "conformance")]

import test_prime_cli as conformance  # noqa: E402

CASES = ("availability-list", "pods-list-json")
ERRORS = tuple(conformance.ERRORS)[:1]
"""What --smoke plays."""


def main() -> int:
    """Install, play every case, print the table; returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--venv", type=Path, help="keep the environment of the command line there")
    parser.add_argument(
        "--newest", action="store_true", help="the newest version, whatever the lock says"
    )
    parser.add_argument("--smoke", action="store_true", help="three cases; nothing is installed")
    parser.add_argument("--out", type=Path, help="with --smoke: its folder")
    given = parser.parse_args()
    if given.smoke:
        given.out.mkdir()
        return 1 if play(given.out, CASES, ERRORS) else 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hudtui-prime-") as name:
        conformance.PRIME = install(given.venv or Path(name) / "venv", newest=given.newest)
        version = subprocess.run(
            [conformance.PRIME, "--version"], capture_output=True, text=True, check=True
        ).stdout.split()[-1]
        print(f"prime {version}, installed in {time.monotonic() - began:.0f} s")
        began = time.monotonic()
        bad = play(Path(name), tuple(conformance.CASES), tuple(conformance.ERRORS))
    cases = len(conformance.CASES) + len(conformance.ERRORS)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"{cases - bad} of {cases} as recorded, in {time.monotonic() - began:.0f} s; largest "
        f"process {memory:.0f} MB"
    )
    return 1 if bad else 0


def play(folder: Path, cases: Sequence[str], errors: Sequence[str]) -> int:
    """Play cases and errors, and print a row for each; returns how many are not as recorded."""
    bad = 0
    with conformance.prime_command() as prime:
        print(f"{'case':32} {'requests':>8} {'exit':>4} {'seconds':>7}  result")
        for case in cases:
            outcome = conformance.run_case(prime, case, folder / case)
            bad += row(case, outcome, conformance.differences(case, outcome))
        for error in errors:
            outcome = conformance.run_error(prime, error, folder / f"error-{error}")
            bad += row(f"error {error}", outcome, conformance.error_differences(error, outcome))
    return bad


def install(venv: Path, *, newest: bool) -> Path:
    """The command in an environment of its own."""
    if not (venv / "bin" / "prime").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        lock = (
            ["prime"]
            if newest
            else ["--require-hashes", "-r", str(ROOT / "requirements" / "prime-cli.txt")]
        )
        subprocess.run(
            [venv / "bin" / "python", "-m", "pip", "install", "--quiet", *lock], check=True
        )
    return (venv / "bin" / "prime").absolute()


def row(name: str, outcome: conformance.Outcome, found: list[str]) -> int:
    """A line of the table; returns 1 if something is not as recorded."""
    print(
        f"{name:32} {len(outcome.requests):8} {outcome.rc:4} {outcome.seconds:7.1f}  "
        f"{'; '.join(found) or 'as recorded'}",
        flush=True,
    )
    return bool(found)


if __name__ == "__main__":
    raise SystemExit(main())
