"""Install the wheel on every Python that can be found, and use it: `python scripts/matrix.py`.

Pythons are those named by `--python`; by default those of 3.11 to 3.14 on the PATH and in pyenv.
Each gets a fresh environment in a folder outside of the checkout, in which nothing of this one is
seen. There `hudtui --version`, `hudtui doctor` and `hudtui demo --headless` have to succeed.
`--tools` installs it with pipx and with uv, too; they come from the package index. `--quick`, for
CI, installs it with uv alone, in the versions that the lock names, and downloads each package once.
Exits with 1 if something fails, and with 2 if no Python is found.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "requirements"
MINORS = (11, 12, 13, 14)
SCRUBBED = re.compile(r"PYTHON|VIRTUAL_ENV|HUDTUI|XDG_|PIPX_|UV_TOOL|.*_(TOKEN|API_KEY)$")


class FailedError(Exception):
    """A command ended with another status than 0, or said something else."""


def pythons() -> Iterator[str]:
    """Yield one interpreter for each version that can be found."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in MINORS:
        places = [shutil.which(f"python3.{minor}")]
        places += sorted(map(str, versions.glob(f"3.{minor}.*/bin/python")))
        for place in places:
            if place and answers(place):
                yield place
                break


def answers(python: str) -> bool:
    """Return True if an interpreter starts and can make environments; shims of pyenv may not."""
    done = subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True)
    return done.returncode == 0


class World:
    """A place outside of the checkout with a home of its own, in which programs run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {name: one for name, one in os.environ.items() if not SCRUBBED.match(name)}
        home = folder / "home"
        home.mkdir(parents=True)
        for one in (".config/pip", ".config/uv"):  # how the package index is reached
            settings = Path.home() / one
            if settings.exists():
                (home / one).parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(settings, home / one)
        self.env |= {"HOME": str(home), "HUDTUI_SIM": "off"}

    def run(self, *words: str, **env: str) -> str:
        """Return what a program prints."""
        done = subprocess.run(
            words,
            cwd=self.folder,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()[-2000:]
            raise FailedError(f"{' '.join(words)}: exit code {done.returncode}\n{said}")
        return done.stdout

    def use(self, hudtui: str, version: str) -> str:
        """Use an installed hudtui, and return what its demo says last."""
        told = self.run(hudtui, "--version").split()
        if told != ["hudtui", version]:
            raise FailedError(f"{hudtui} --version says {' '.join(told)}, not hudtui {version}")
        self.run(hudtui, "doctor")
        said = self.run(hudtui, "demo", str(self.folder / "demo"), "--headless")
        return " ".join(said.splitlines()[-1].split())


def make_wheel(folder: Path) -> Path:
    """Return a wheel of the checkout."""
    words = ("-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps")
    subprocess.run([sys.executable, *words, "-w", str(folder), str(ROOT)], check=True)
    return next(folder.glob("hudtui-*.whl"))


def with_pip(world: World, python: str, wheel: Path, packages: Path | None) -> tuple[str, Path]:
    """Install with pip, and return the command and the folder of its environment."""
    venv = world.folder / "venv"
    world.run(python, "-m", "venv", str(venv))
    install = (str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--no-cache-dir")
    if packages is None:
        world.run(*install, str(wheel))
    else:
        world.run(*install, "--no-deps", "--no-index", str(wheel))
        for site in venv.glob("lib/python*/site-packages"):
            (site / "beside.pth").write_text(f"{packages}\n")
    return str(venv / "bin" / "hudtui"), venv


def with_pipx(world: World, python: str, wheel: Path) -> tuple[str, Path]:
    """Install with pipx, and return the command and the folder of its environment."""
    tool = tool_program(world, python, "pipx")
    places = {"PIPX_HOME": str(world.folder / "pipx"), "PIPX_BIN_DIR": str(world.folder / "bin")}
    world.run(tool, "install", "--quiet", "--python", python, str(wheel), **places)
    return str(world.folder / "bin" / "hudtui"), world.folder / "pipx"


def with_uv(
    world: World, python: str, wheel: Path, locked: tuple[str, Path] | None = None
) -> tuple[str, Path]:
    """Install with uv, and return the command and the folder of its environment.

    `locked`: a uv, and the folder in which it keeps what it downloads; what it installs is locked.
    """
    if locked is None:
        tool = tool_program(world, python, "uv")
        how, settings = [], {"UV_NO_CACHE": "1", "UV_LINK_MODE": "copy"}
    else:
        tool, cache = locked
        how = ["--constraints", str(LOCKS / "base.txt")]
        settings = {"UV_CACHE_DIR": str(cache), "UV_HTTP_RETRIES": "6"}  # a short outage passes
    settings |= {
        "UV_TOOL_DIR": str(world.folder / "uv"),
        "UV_TOOL_BIN_DIR": str(world.folder / "bin"),
    }
    words = ("tool", "install", "--quiet", "--python", python, *how, str(wheel))
    world.run(tool, *words, **settings)
    return str(world.folder / "bin" / "hudtui"), world.folder / "uv"


def locked_uv(folder: Path) -> str:
    """Return a uv: the one on the PATH, or the locked one in a new environment."""
    if found := shutil.which("uv"):
        return found
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = (str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--require-hashes")
    subprocess.run([*install, "-r", str(LOCKS / "uv.txt")], check=True)
    return str(folder / "bin" / "uv")


def tool_program(world: World, python: str, name: str) -> str:
    """Return an installer of the package index, in an environment of its own."""
    venv = world.folder / f"{name}-itself"
    world.run(python, "-m", "venv", str(venv))
    world.run(str(venv / "bin" / "python"), "-m", "pip", "install", "-q", name)
    return str(venv / "bin" / name)


def size(folder: Path) -> float:
    """Return how much the files of a folder take, in MB."""
    return sum(path.lstat().st_size for path in folder.rglob("*")) / 1e6


def main(words: Sequence[str] | None = None) -> int:
    """Try each installation, print a row for each, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", action="append", help="an interpreter; may be repeated")
    parser.add_argument("--wheel", type=Path, help="an existing wheel instead of a new one")
    parser.add_argument("--tools", action="store_true", help="also pipx and uv")
    parser.add_argument("--quick", action="store_true", help="uv alone, in locked versions")
    parser.add_argument(
        "--packages",
        type=Path,
        help="take the libraries from this folder, of the same Python, instead of the package "
        "index; needs no network",
    )
    asked = parser.parse_args(words)
    found = [os.path.abspath(shutil.which(one) or one) for one in asked.python or pythons()]
    if not found:
        print("no Python of 3.11 to 3.14 is found; name one with --python", file=sys.stderr)
        return 2
    status = 0
    with tempfile.TemporaryDirectory(prefix="hudtui-matrix-") as made:
        wheel = (asked.wheel or make_wheel(Path(made))).resolve()
        version = wheel.name.split("-")[1]
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        ways = {"pip": lambda world, python: with_pip(world, python, wheel, asked.packages)}
        if asked.tools:
            ways["pipx"] = lambda world, python: with_pipx(world, python, wheel)
            ways["uv"] = lambda world, python: with_uv(world, python, wheel)
        if asked.quick:
            locked = locked_uv(Path(made) / "uv-itself"), Path(made) / "downloads"
            ways = {"uv": lambda world, python: with_uv(world, python, wheel, locked)}
        for number, python in enumerate(found):
            for name, install in ways.items():
                row = f"{python} {name}"
                try:
                    world = World(Path(made) / f"{number}-{name}")
                    told = world.run(python, "--version").split()[-1]
                    began = time.monotonic()
                    command, folder = install(world, python)
                    took = time.monotonic() - began
                    said = world.use(command, version)
                    print(
                        f"ok    Python {told:<8} {name:<5} {took:4.0f} s, {size(folder):4.0f} MB: "
                        f"{said}",
                        flush=True,
                    )
                    shutil.rmtree(world.folder)
                except (FailedError, OSError, subprocess.SubprocessError) as error:
                    status = 1
                    print(f"FAIL  {row}: {error}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
