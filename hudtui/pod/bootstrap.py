#!/usr/bin/env python3
"""Makes a Python environment on a machine: standard library only, Python 3.8 and newer, one file.

    bootstrap.py --venv DIR --lock FILE [--python 3.12] [--first FILE] [--cuda FILE] [--wheel DIR |
    --package DIR]
                 [--uv FILE] [--disk GIB] [--driver MAJOR] [--vram GIB,GIB]

A lock is a list of exact versions with hashes. Installed are the wheels that the locks list, and
the wheel of hudtui that the user's computer sent. The tools for that are the machine's own: its uv,
or its Python with the pip that comes with it. A machine without uv gets the version that `--uv`
locks, beside the environment. Where no Python of the machine fits, uv fetches one, and checks it
against the hash that this version of uv has in it.

A second start with the same files finds the work done and ends at once. What a machine lacks is
said in words before anything is downloaded.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from typing import Iterator, List, NoReturn, Optional

MARK = ".hudtui"
USABLE = ("3.12", "3.11", "3.13")  # versions of Python that the locks are made for


def say(text: str) -> None:
    """A line of the log."""
    print(text, flush=True)


def give_up(what: str, fix: str = "") -> NoReturn:
    """Exit with a sentence instead of a traceback."""
    say("error: " + what)
    if fix:
        say("  " + fix)
    sys.exit(5)


def run(argv: List[str], env: Optional["dict[str, str]"] = None) -> bool:
    """Run a command, its output into the log; returns whether it succeeded."""
    say("+ " + " ".join(argv))
    try:
        return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL).returncode == 0
    except OSError as error:
        say("%s: %s" % (argv[0], error.strerror))
        return False


_OF_INSTALLERS = (
    r" [+~-] |\s*Using cached |Looking in |WARNING: Location |"
    r"Installing collected |Successfully installed |Requirement already"
)


class InstallProgress:
    """Turns what pip and uv write while they install into lines of the log.

    How many packages are here, and the large files.

    Attributes:
        wanted: How many packages the lock lists.
    """

    def __init__(self, wanted: int) -> None:
        self.wanted, self.found = wanted, 0

    def line(self, text: str) -> Optional[str]:
        """The line of the log; None where it would say nothing new."""
        if text.startswith("Ignoring "):  # a package for other machines
            self.wanted -= 1
            return None
        if text.startswith(("Collecting ", "Processing ")):  # of pip, one a package
            self.found += 1
            return "%d of %d packages" % (self.found, self.wanted) if self.found % 10 == 0 else None
        if re.match(_OF_INSTALLERS, text):
            return None
        size = re.match(r"\s*Downloading (\S+) \(([0-9.]+) ([kM]B)\)", text)
        if size:
            large = size.group(3) == "MB" and float(size.group(2)) >= 20
            return (
                "downloading %s (%s MB)"
                % (size.group(1).rsplit("/", 1)[-1].split("-", 1)[0], size.group(2))
                if large
                else None
            )
        return text


def install(argv: List[str], wanted: int) -> "tuple[bool, List[str]]":
    """Run an installer for `wanted` packages, its progress into the log.

    Returns whether it succeeded, and wrong hashes.
    Those are the packages whose hash was another one than the lock lists.
    """
    say("+ " + " ".join(argv))
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        say("%s: %s" % (argv[0], error.strerror))
        return False, []
    assert process.stdout is not None
    wrong: List[str] = []
    warned, progress = False, InstallProgress(wanted)
    for line in process.stdout:
        text = line.decode("utf-8", "replace").rstrip()
        shown = progress.line(text)
        if shown is not None:
            say(shown)
        warned = warned or "DO NOT MATCH THE HASHES" in text  # of pip, which names them below
        found = re.search(r"Hash mismatch for `([^`]+)`", text) or (
            warned and re.match(r"\s+(\S+==\S+) from ", text)
        )
        if found:
            wrong.append(found.group(1))
    return process.wait() == 0, wrong


# --- checks ---------------------------------------------------------------------------------------


def check_disk(folder: str, wanted: float) -> None:
    """Give up unless `wanted` GiB are free on the disk of `folder`."""
    place = os.path.abspath(folder)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    free = shutil.disk_usage(place).free / 2**30
    if free < wanted:
        give_up(
            "%.1f GiB are free on the disk of %s; this run needs about %.0f"
            % (free, place, wanted),
            "Take a machine with a larger disk, or make room.",
        )
    say("disk: %.0f GiB free, about %.0f needed" % (free, wanted))


def check_gpus(wanted: int, least: List[float]) -> None:
    """Give up unless the NVIDIA driver is new enough and the GPUs have their memory.

    Each GPU of the plan has at least its GiB.
    """
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            query, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
    except OSError:
        give_up(
            "there is no NVIDIA driver here: nvidia-smi is not found",
            "Take a machine with a CUDA image.",
        )
    text = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode != 0:
        give_up("the NVIDIA driver does not answer: " + text[-300:])
    for line in text.splitlines():
        say("gpu: " + line)
    version = text.splitlines()[0].rpartition(",")[2].strip() if text else ""
    major = version.partition(".")[0]
    if not major.isdigit() or int(major) < wanted:
        give_up(
            "the NVIDIA driver is %s; this version of PyTorch needs %d or newer"
            % (version or "unknown", wanted),
            "Take a machine with a newer image.",
        )
    sizes = [line.rsplit(",", 2)[1].split() for line in text.splitlines() if line.count(",") >= 2]
    if len(sizes) < len(least):
        give_up(
            "this machine has %d of the %d GPUs that the plan is for" % (len(sizes), len(least)),
            "Plan again, with --gpus.",
        )
    for number, gib in enumerate(least):
        mib = (
            int(sizes[number][0]) if sizes[number] and sizes[number][0].isdigit() else None
        )  # some share the computer's memory
        if mib is not None and mib < gib * 1024:
            give_up(
                "GPU %d has %.0f GiB; what it has to hold takes %.0f at least"
                % (number, mib / 1024, gib),
                "Take larger GPUs, more of them, or a smaller model.",
            )


# --- installers -----------------------------------------------------------------------------------


def find_uv(tools: str, lock: Optional[str]) -> Optional[str]:
    """Return the path of the machine's own uv, of an earlier start's, or of the locked version.

    None: It cannot be installed.
    """
    folder = os.path.join(tools, "uv-venv")
    own = os.path.join(folder, "bin", "uv")
    for place in (
        shutil.which("uv"),
        own,
        os.path.expanduser("~/.local/bin/uv"),
        os.path.expanduser("~/.cargo/bin/uv"),
    ):
        if place and os.access(place, os.X_OK):
            return place
    if lock is None:
        return None
    say("this machine has no uv: installing the one of %s" % lock)
    os.makedirs(tools, exist_ok=True)
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *_locked(lock)]
    if _quietly([sys.executable, "-m", "pip", "--version"]):
        made = run([sys.executable, *pip, "--upgrade", "--target", folder])
    else:
        made = run([sys.executable, "-m", "venv", folder]) and run(
            [os.path.join(folder, "bin", "python"), *pip]
        )
    if made and os.access(own, os.X_OK):
        return own
    say("uv cannot be installed; the Python of this machine and its pip are used")
    return None


class Environment:
    """An environment that is being made."""

    def __init__(self, folder: str, uv: Optional[str]) -> None:
        self.folder = folder
        self.uv = uv
        self.python = os.path.join(folder, "bin", "python")

    def make(self, version: str) -> None:
        """Make an empty environment with that Python."""
        if self.uv and (self._make(version) or self._make(version, its_certificates=True)):
            return
        if self.uv:
            say("uv cannot make one; the Python of this machine is tried, with pip")
            self.uv = None
        shutil.rmtree(self.folder, ignore_errors=True)
        named = [shutil.which("python" + one) for one in (version, *USABLE)]
        found = [(python, _version(python)) for python in [*named, sys.executable] if python]
        python = next((python for python, has in found if has in USABLE), None)
        if python is None:
            give_up(
                "uv is of no help, and the Python of this machine is %s; the environment needs "
                "3.11 to 3.13" % (found[-1][1] or "unknown"),
                "Install uv or Python %s there, or let the machine reach the network." % version,
            )
        if not run([python, "-m", "venv", self.folder]):
            give_up(
                "%s could not make an environment" % python,
                "On Debian and Ubuntu: apt-get install python3-venv",
            )

    def _make(self, version: str, its_certificates: bool = False) -> bool:
        """Make it with uv, with that Python or a usable Python of this machine.

        Returns whether that worked.
        """
        if its_certificates:
            say("trying again with the certificates of this machine")
            os.environ.update(
                UV_SYSTEM_CERTS="1", UV_NATIVE_TLS="1"
            )  # the newer and the older name
        for one in (version, *[other for other in USABLE if other != version]):
            shutil.rmtree(self.folder, ignore_errors=True)
            known = ["--no-python-downloads"] if one != version else []
            if run([str(self.uv), "venv", "--quiet", "--python", one, *known, self.folder]):
                return True
        return False

    def install(self, lock: str) -> bool:
        """Install what a lock lists, and nothing else; returns whether that worked."""
        wanted = _count(lock)
        say("installing the %d packages of %s" % (wanted, os.path.basename(lock)))
        if self.uv:
            done, _ = install(
                [
                    self.uv,
                    "pip",
                    "install",
                    "--no-progress",
                    "--python",
                    self.python,
                    *_locked(lock),
                ],
                wanted,
            )
            if done:
                return True
            say("uv could not install them; trying pip, which has settings of its own")
        if not self._has_pip():
            return False
        done, wrong = install([*self._pip, *_locked(lock)], wanted)
        if wrong:
            give_up(
                "%s has another hash than %s names, and was not installed"
                % (", ".join(wrong), os.path.basename(lock)),
                "The package index that this machine uses serves another file: look at its "
                "settings (PIP_INDEX_URL, pip.conf).",
            )
        return done

    def try_first(self, lock: str) -> None:
        """Install what a lock lists where pip finds it.

        Otherwise say that the next lock brings the default build.
        """
        say("trying %s first" % os.path.basename(lock))
        done = None
        if self._has_pip():
            done = subprocess.run(
                [*self._pip, "--quiet", *_locked(lock)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        if done is None or done.returncode != 0:
            said = (
                done.stdout.decode("utf-8", "replace").strip().splitlines()
                if done
                else ["there is no pip"]
            )
            say(
                "  not available here (%s)"
                % (said[-1].replace("ERROR: ", "") if said else "pip does not say why")
            )
            say("  falling back to the default build, which the next lock lists")

    @property
    def _pip(self) -> List[str]:
        return [
            self.python,
            "-m",
            "pip",
            "install",
            "--progress-bar",
            "off",
            "--disable-pip-version-check",
        ]

    def _has_pip(self) -> bool:
        """True if there is a pip; if needed, the pip of this Python is unpacked."""
        return any(
            _quietly([self.python, "-m", *words])
            for words in (("pip", "--version"), ("ensurepip", "--default-pip"))
        )

    def ask(self, code: str) -> str:
        """Output of a line of Python there."""
        done = subprocess.run(
            [self.python, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        return done.stdout.decode("utf-8", "replace").strip()

    def link(self, package: str) -> None:
        """Make the hudtui of this machine importable there: the very same files."""
        site = self.ask("import sysconfig; print(sysconfig.get_path('purelib'))")
        target = os.path.join(site, "hudtui")
        if os.path.islink(target):
            os.unlink(target)
        os.symlink(os.path.abspath(package), target)

    def add_wheel(self, folder: str) -> None:
        """Install the one wheel in a folder, without what it asks for: that is in the lock."""
        found = sorted(glob.glob(os.path.join(folder, "*.whl")))
        if len(found) != 1:
            give_up(
                "there should be one wheel of hudtui in %s; there are %d" % (folder, len(found))
            )
        command = (
            [self.uv, "pip", "install", "--python", self.python]
            if self.uv
            else [self.python, "-m", "pip", "install"]
        )
        if not run([*command, "--quiet", "--no-deps", "--force-reinstall", found[0]]):
            give_up("the wheel of hudtui could not be installed")


def _count(lock: str) -> int:
    with open(lock, encoding="utf-8") as file:
        return sum("==" in line and not line.startswith((" ", "#")) for line in file)


def _locked(lock: str) -> List[str]:
    # Wheels alone: to build a package, an installer fetches tools that no lock names.
    return ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", lock]


def _quietly(argv: List[str]) -> bool:
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return done.returncode == 0


def _version(python: str) -> str:
    """The version of a Python.

    Empty if it does not start, such as a shim of a version that is not chosen.
    """
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [python, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
    except OSError:
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


@contextlib.contextmanager
def alone(folder: str) -> Iterator[None]:
    """One bootstrap of a folder at a time."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + ".lock", "w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another run makes this environment; waiting for it")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def digest(paths: List[str], words: List[str]) -> str:
    """A hash of everything that was asked for."""
    found = hashlib.sha256(repr(words).encode())
    for path in paths:
        with open(path, "rb") as stream:
            found.update(stream.read())
    return found.hexdigest()


def main(words: Optional[List[str]] = None) -> int:
    """The command line; see the text at the top of the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--venv", required=True)
    parser.add_argument("--lock", required=True)
    parser.add_argument("--python", default="3.12")
    parser.add_argument("--first", help="a lock that is tried before; it may fail")
    parser.add_argument(
        "--cuda", help="a lock that PyTorch needs as well where it is built for CUDA"
    )
    parser.add_argument("--wheel")
    parser.add_argument("--package")
    parser.add_argument(
        "--uv", help="a lock of uv, which is put beside the environment of a machine that has none"
    )
    parser.add_argument("--disk", type=float, default=0.0)
    parser.add_argument("--driver", type=int, default=0)
    parser.add_argument(
        "--vram",
        type=lambda text: [float(gib) for gib in text.split(",")],
        default=[],
        help="GiB of each GPU",
    )
    given = parser.parse_args(words)
    began = time.time()
    folder = os.path.abspath(given.venv)
    tools = os.path.join(os.path.dirname(folder), "tools")
    locks = [path for path in (given.lock, given.first, given.cuda) if path]
    for path in [*locks, *([given.uv] if given.uv else [])]:
        if not os.path.isfile(path):
            give_up("there is no file %s" % path)
    if given.driver:
        check_gpus(given.driver, given.vram)
    wanted = digest(locks, [given.python])
    mark = os.path.join(folder, MARK)
    with alone(folder):
        environment = Environment(folder, None)
        if _read(mark) == wanted and os.access(environment.python, os.X_OK):
            environment.uv = find_uv(tools, given.uv) if given.wheel else None
            finish(environment, given)
            say("the environment %s is ready, as it was left" % folder)
            return 0
        if given.disk:
            check_disk(folder, given.disk)
        environment.uv = find_uv(tools, given.uv)
        say("making %s with Python %s" % (folder, given.python))
        environment.make(given.python)
        if given.first:
            environment.try_first(given.first)
        if not environment.install(given.lock):
            give_up("the packages could not be installed; the lines above say why")
        build = (
            environment.ask("import importlib.metadata as m; print(m.version('torch'))")
            if given.cuda
            else ""
        )
        if (
            given.cuda
            and not build.endswith("+cpu")
            and sys.platform == "linux"
            and not environment.install(given.cuda)
        ):
            give_up("the CUDA libraries of PyTorch could not be installed; the lines above say why")
        finish(environment, given)
        with open(mark, "w") as stream:
            stream.write(wanted)
    say("the environment %s is ready after %.0f s" % (folder, time.time() - began))
    return 0


def _read(path: str) -> Optional[str]:
    try:
        with open(path) as stream:
            return stream.read().strip()
    except OSError:
        return None


def finish(environment: Environment, given: argparse.Namespace) -> None:
    """Install hudtui itself, at every start: it may be newer than the environment."""
    if given.wheel:
        environment.add_wheel(given.wheel)
    if given.package:
        environment.link(given.package)


if __name__ == "__main__":
    sys.exit(main())
