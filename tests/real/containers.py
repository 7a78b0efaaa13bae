"""The bundled environment as a container image, from its Dockerfile to another machine, by a real
podman.

Run by hand: it needs root and Debian's `podman`, `runc`, `docker-registry` and `debootstrap`.

    .venv/bin/python tests/real/containers.py [--root FOLDER] [--full] [--smoke]

A Debian root file system takes the place of the base image, so that no registry is asked: --root
names one that is there, else debootstrap makes it. A docker without a daemon stands first on the
PATH. Everything is made below a temporary folder, and gone at the end; processes and containers are
ended by their ids.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from hudtui.core.environment.engine import engine_note, find_engine

ROOT = Path(__file__).parents[2]
HUDTUI = (sys.executable, "-m", "hudtui")
CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=2048:2048"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
"""
STORAGE = '[storage]\ndriver = "overlay"\nrunroot = "{0}/run"\ngraphroot = "{0}/graph"\n'
REGISTRY = (
    "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {0}/registry}}}}\nhttp: {{addr: "
    "'127.0.0.1:{1}'}}\n"
)
DOCKER = (
    "#!/bin/sh\necho 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2\n"
    "exit 1\n"
)
STUBBORN = (
    "FROM text-2048:dev\nVOLUME /data\nENTRYPOINT python3 -P -m hudtui.envs.text_2048; sleep 1000\n"
)
"""An image whose server stays when its client is gone, and which makes a volume."""
SECRET = "a-secret-of-the-user-0123456789"
PODMAN = "#!/bin/sh\necho 4.3.1\n"
"""All that --smoke has of podman: which engine is taken, and what is said of it."""
SUBSET = ("tests/core/environment/test_source.py", "tests/core/gym", "-q")
rows: list[tuple[str, float, str]] = []


def main() -> int:
    """Play every part, print the table; returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--root", type=Path, help="a Debian root file system with python3 and python3-venv"
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="run all of scripts/test on the bare Debian, not a part of it",
    )
    parser.add_argument("--smoke", action="store_true", help="without containers, in seconds")
    parser.add_argument("--out", type=Path, help="with --smoke: its folder")
    given = parser.parse_args()
    if given.smoke:
        given.out.mkdir()
        prepare(given.out, "127.0.0.1:1")
        smoke(given.out)
        return 0
    place = Path(tempfile.mkdtemp(prefix="hudtui-containers-"))
    registry = f"127.0.0.1:{free_port()}"
    prepare(place, registry)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    server = subprocess.Popen(
        ["docker-registry", "serve", str(place / "registry.yml")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    failed = ""
    try:
        for name, step in (
            ("versions", versions),
            ("base image", lambda: base(place, given.root)),
            ("podman build", lambda: build(place)),
            ("env analyze", analyze),
            ("rl init", lambda: init(place)),
            ("env call", call),
            ("eval", lambda: evaluate(place)),
            ("kill -9 of eval", lambda: killed(place)),
            ("push", lambda: push(place, registry)),
            ("pull elsewhere", lambda: elsewhere(place)),
            ("over SSH", lambda: over_ssh(place)),
            (
                "bare: demo",
                lambda: bare(place, "scripts/demo /tmp/demo --headless", r"^mean +0\.857$"),
            ),
            (
                "bare: test",
                lambda: bare(
                    place,
                    " ".join(("scripts/test", *(() if given.full else SUBSET))),
                    r"[0-9] passed",
                ),
            ),
        ):
            row(name, step)
    except (AssertionError, subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
        output = getattr(error, "stderr", None) or b""
        failed = (
            f"{type(error).__name__}: {error} "
            f"{output if isinstance(output, str) else output.decode(errors='replace')}"
        )
    finally:
        tidy(place)
        server.terminate()
        server.wait()
        shutil.rmtree(place, ignore_errors=True)
    print(f"{'step':<16} {'seconds':>7}  what was seen")
    for name, seconds, seen in rows:
        print(f"{name:<16} {seconds:>7.1f}  {seen}")
    print(
        "largest process of hudtui and podman: "
        f"{resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MB"
    )
    if place.exists():
        failed = failed or f"{place} could not be removed"
    if failed:
        print(f"NOT as it should be: {failed}", file=sys.stderr)
    return 1 if failed else 0


def row(name: str, step: Callable[[], str]) -> None:
    """Do a step, and keep its time and what it saw."""
    print(f"... {name}", file=sys.stderr, flush=True)
    began = time.monotonic()
    seen = step()
    rows.append((name, time.monotonic() - began, seen))


def prepare(place: Path, registry: str) -> None:
    """Settings of podman and of the registry, a docker without a daemon, an environment that names
    them."""
    for name in ("bin", "one", "two", "project"):
        (place / name).mkdir()
    for name, text in (
        ("containers.conf", CONTAINERS),
        ("one/storage.conf", STORAGE.format(place / "one")),
        ("two/storage.conf", STORAGE.format(place / "two")),
        ("registries.conf", f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n'),
        ("registry.yml", REGISTRY.format(place, registry.partition(":")[2])),
        ("bin/docker", DOCKER),
    ):
        (place / name).write_text(text)
    (place / "bin" / "docker").chmod(0o755)
    os.environ |= {
        "CONTAINERS_CONF": str(place / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(place / "one" / "storage.conf"),
        "CONTAINERS_REGISTRIES_CONF": str(place / "registries.conf"),
        "PATH": f"{place / 'bin'}:{os.environ['PATH']}",
        "HUDTUI_TRUST": str(place),
        "HUD_API_KEY": SECRET,
    }
    os.environ.pop("HUDTUI_ENGINE", None)
    os.chdir(place / "project")


def versions() -> str:
    """The programs."""
    words = [
        run("podman", "--version").split()[-1],
        run("runc", "--version").split("\n")[0].split()[-1],
    ]
    return f"podman {words[0]}, runc {words[1]}, {run('docker-registry', '--version').strip()}"


def base(place: Path, root: Path | None) -> str:
    """A base image out of a root file system, and no registry: what `FROM scratch` and ADD make."""
    if root is None:
        root = place / "root"
        run(
            "debootstrap",
            "--variant=minbase",
            "--include=python3,python3-venv",
            "bookworm",
            str(root),
        )
    tar = subprocess.Popen(
        ["tar", "--one-file-system", "-C", str(root), "-c", "."], stdout=subprocess.PIPE
    )
    run("podman", "import", "-q", "-", "localhost/bare:latest", stdin=tar.stdout)
    assert tar.wait() == 0
    return run(
        "podman",
        "run",
        "--rm",
        "localhost/bare:latest",
        "sh",
        "-c",
        ". /etc/os-release; echo $PRETTY_NAME",
    ).strip()


def build(place: Path) -> str:
    """The image of the Dockerfile that comes with hudtui."""
    folder = dockerfile()
    run(
        "podman",
        "build",
        "-q",
        "--build-arg",
        "BASE=localhost/bare:latest",
        "-t",
        "text-2048:dev",
        folder,
    )
    (place / "Dockerfile").write_text(STUBBORN)
    run(
        "podman",
        "build",
        "-q",
        "-t",
        "stubborn:dev",
        "-f",
        str(place / "Dockerfile"),
        str(place / "bin"),
    )
    size = int(run("podman", "image", "inspect", "--format", "{{.Size}}", "text-2048:dev"))
    return f"{size / 1e6:.0f} MB"


def note() -> str:
    """What hudtui says of a docker that does not answer, in its own words of today."""
    said = engine_note()
    assert said is not None and find_engine() == "podman", said
    return said


def engine() -> str:
    """The engine that starts images, as `hudtui doctor` has it."""
    facts = json.loads(hudtui("doctor", "--json", code=None))["programs"]
    (images,) = [fact["value"] for fact in facts if fact["name"] == "images"]
    assert images.split()[-1] == "podman", images
    return str(images)


def dockerfile() -> str:
    """The folder of the bundled environment, for which hudtui names the command that builds it."""
    (bundled,) = json.loads(hudtui("env", "list", "--json"))
    refused = json.loads(hudtui("env", "show", bundled["folder"], "--json", code=2))["error"]
    (first, *_) = re.findall("`(.*?)`", refused["fix"])
    assert first == f"podman build -t text-2048:dev {bundled['folder']}", refused
    return str(bundled["folder"])


def smoke(place: Path) -> None:
    """Which engine is taken, with a stand-in of podman and of docker."""
    (place / "bin" / "podman").write_text(PODMAN)
    (place / "bin" / "podman").chmod(0o755)
    print(f"engine: {engine()}\nnote: {note()}\nfolder: {dockerfile()}")


def analyze() -> str:
    """What the image offers; podman is used, and said."""
    found = json.loads(hudtui("env", "analyze", "text-2048:dev", "--json"))
    assert any(note() in one for one in found["warnings"]), found["warnings"]
    assert {tool["name"] for tool in found["tools"] if tool["kind"] != "hidden"} == {
        "move",
        "setup",
        "evaluate",
    }, found["tools"]
    assert note() in hudtui("env", "analyze", "text-2048:dev", "--live", errors=True)
    return f"protocol {found['protocol']}; {engine()}"


def init(place: Path) -> str:
    """A configuration for it."""
    made = json.loads(
        hudtui("rl", "init", "text-2048:dev", "--per-value", "-o", "play.yaml", "--json")
    )
    return f"actions {', '.join(action['name'] for action in made['actions'])}"


def call() -> str:
    """One tool."""
    answer = hudtui("env", "call", "text-2048:dev", "move", '{"direction": "left"}')
    assert "Score" in answer or "score" in answer, answer
    return answer.strip().splitlines()[-1]


def evaluate(place: Path) -> str:
    """Tasks that name docker, with a secret: the engine that answers plays them, and no process has
    the secret in its words."""
    tasks("tasks.json", "text-2048:dev", 8)
    child = subprocess.Popen(
        [
            *HUDTUI,
            "eval",
            "tasks.json",
            "-c",
            "play.yaml",
            "--policy",
            "random",
            "--seed",
            "1",
            "--json",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None and child.stderr is not None
    looks, seen = 0, 0
    while child.poll() is None:
        words = command_lines()
        looks, seen = (
            looks + 1,
            max(seen, sum(b"HUD_API_KEY" in one and b"--name\0hudtui-" in one for one in words)),
        )
        assert not any(SECRET.encode() in one for one in words)
        time.sleep(0.02)
    output, errors = child.stdout.read(), child.stderr.read().decode()
    assert child.returncode == 0, errors
    found = json.loads(output)
    rewards = [one["reward"] for task in found["tasks"] for one in task["episodes"]]
    assert len(rewards) == 8 and all(reward is not None for reward in rewards), found
    assert note() in errors and seen, errors
    (place / "rewards.json").write_text(json.dumps(rewards))
    nothing_left()
    return (
        f"8 episodes, mean reward {sum(rewards) / 8:.3f}; the secret in none of {looks} looks at "
        "all command lines"
    )


def killed(place: Path) -> str:
    """hudtui is killed while its containers run, whose servers stay when their input ends."""
    tasks("stubborn.json", "stubborn:dev", 8)
    child = subprocess.Popen(
        [
            *HUDTUI,
            "eval",
            "stubborn.json",
            "-c",
            "play.yaml",
            "--policy",
            "random",
            "--max-turns",
            "100000",
            "--json",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait(lambda: len(run("podman", "ps", "-q").split()) >= 4, 60)
    child.send_signal(signal.SIGKILL)
    child.wait()
    began = time.monotonic()
    wait(lambda: not run("podman", "ps", "-a", "-q").split(), 60)
    seconds = time.monotonic() - began
    nothing_left()
    return f"4 containers and their volumes were gone after {seconds:.0f} s"


def push(place: Path, registry: str) -> str:
    """A run is refused until the image is pushed; the digest in the lock file is the registry's."""
    lock = Path("hud.lock.yaml")
    lock.write_text("image: text-2048:dev  # built here\n")
    Path("play.json").write_text(
        json.dumps(
            [{**task, "mcp_config": None} for task in json.loads(Path("tasks.json").read_text())]
        )
    )
    rl = (
        "rl",
        "play.json",
        "-c",
        "play.yaml",
        "--engine",
        "rollouts",
        "--policy",
        "random",
        "--host",
        "local",
    )
    before = json.loads(hudtui(*rl, "--dry-run", "--json", code=2))
    assert {check["name"] for check in before["checks"] if check["state"] == "missing"} == {
        "image"
    }, before["checks"]
    pushed = hudtui(
        *rl, "--push-image", f"{registry}/me/", code=2, errors=True
    )  # another machine cannot reach loopback
    assert note() in pushed, pushed
    name = yaml.safe_load(lock.read_text())["image"]
    digest = name.partition("@")[2]
    assert name == f"{registry}/me/text-2048@{digest}" and "# built here" in lock.read_text(), (
        lock.read_text()
    )
    manifest = urllib.request.Request(
        f"http://{registry}/v2/me/text-2048/manifests/{digest}",
        headers={
            "Accept": (
                "application/vnd.oci.image.manifest.v1+json, "
                "application/vnd.docker.distribution.manifest.v2+json"
            )
        },
    )
    with urllib.request.urlopen(manifest) as answer:
        assert answer.status == 200
    return f"{name.partition('/')[2][:40]}... in the lock file and in the registry"


def elsewhere(place: Path) -> str:
    """A machine without the image pulls it by the digest of the lock file, and plays the same
    episodes."""
    os.environ["CONTAINERS_STORAGE_CONF"] = str(place / "two" / "storage.conf")
    try:
        assert not run("podman", "images", "-q").strip()
        found = json.loads(hudtui("env", "analyze", "hud.lock.yaml", "--live", "--json"))
        tasks("there.json", found["image"], 8)
        words = (
            "eval",
            "there.json",
            "-c",
            "play.yaml",
            "--policy",
            "random",
            "--seed",
            "1",
            "--json",
        )
        there = [
            one["reward"]
            for task in json.loads(hudtui(*words))["tasks"]
            for one in task["episodes"]
        ]
        assert there == json.loads((place / "rewards.json").read_text()), there
        nothing_left()
        size = int(run("podman", "image", "inspect", "--format", "{{.Size}}", found["image"]))
    finally:
        os.environ["CONTAINERS_STORAGE_CONF"] = str(place / "one" / "storage.conf")
    return f"{size / 1e6:.0f} MB pulled by digest; 8 of 8 rewards are the same"


def _mount(path: str) -> str:
    """A place of this computer at the same place in the container, whose home is another one."""
    inside = path.replace(str(Path.home()), "/root", 1)
    return f"{path}:{inside}:{'O' if Path(path).is_dir() else 'ro'}"


def host_settings(*, env: str) -> list[str]:
    """Options of podman with which a container reaches the package indexes as this computer does.

    `env` is the option that names a variable.
    """
    told = run("python3", "-m", "pip", "config", "list")
    settings = {
        "/etc/apt",
        "/etc/pip.conf",
        "/etc/xdg/pip",
        "/etc/ssl",
        "/usr/local/share/ca-certificates",
        "/etc/npmrc",
    }
    homes = {str(Path.home() / name) for name in (".config/pip", ".npmrc")}
    local = {
        "/".join(path.split("/")[:3])
        for path in re.findall(r"(?<![:/\w])(?:file://)?(/[\w.-]+/[\w./-]+)", told)
    }
    mounts = [path for path in sorted(settings | homes | local) if Path(path).exists()]
    mounts = [
        path
        for path in mounts
        if not any(path != other and path.startswith(f"{other}/") for other in mounts)
    ]
    passed = [
        name
        for name in os.environ
        if re.search(r"^PIP_|_PROXY$|_proxy$|CERT|CA_BUNDLE|CAINFO", name)
    ]
    words = [flag for path in mounts for flag in ("-v", _mount(path))]
    return words + [flag for name in passed for flag in (env, name)]


def over_ssh(place: Path) -> str:
    """The image of `container/`: a key opens the app in it, and nothing else opens anything."""
    context, keys = place / "context", place / "keys"
    shutil.copytree(ROOT / "container", context / "container")
    words = ("-m", "pip", "wheel", "-q", "--no-deps", "-w", str(context / "dist"), str(ROOT))
    run(sys.executable, *words)
    file = str(context / "container" / "Containerfile")
    build = ("podman", "build", "-q", "--network", "host", *host_settings(env="--env"))
    run(
        *build,
        "--build-arg",
        "BASE=localhost/bare:latest",
        "-t",
        "ssh:dev",
        "-f",
        file,
        str(context),
    )
    keys.mkdir()
    for name in ("mine", "other"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name))
    shutil.copy(place / "mine.pub", keys / "authorized_keys")
    port = str(free_port())
    start = ("podman", "run", "-d", "--network", "host", "-v", f"{keys}:/keys:ro", "ssh:dev")
    container = run(*start, "serve", "-p", port).strip()
    try:
        wait(lambda: listens(int(port)), 30)
        host_key = run("podman", "exec", container, "cat", "/hostkeys/ssh_host_ed25519_key.pub")
        (place / "known").write_text(f"[127.0.0.1]:{port} {host_key}")

        def ssh(
            key: str, user: str, *command: str, **more: Any
        ) -> subprocess.CompletedProcess[str]:
            options = (
                *("-F", "none", "-i", str(place / key), "-o", "IdentitiesOnly=yes"),
                *("-o", f"UserKnownHostsFile={place / 'known'}", "-o", "BatchMode=yes", "-p", port),
            )
            return subprocess.run(
                ["ssh", *options, f"{user}@127.0.0.1", *command],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
                **more,
            )

        told = ssh("mine", "hud", "hudtui --version; locale charmap; hudtui doctor --json")
        version, charmap, report = told.stdout.split("\n", 2)
        assert charmap == "UTF-8" and json.loads(report)["ok"], told.stdout
        for key, user in (("other", "hud"), ("mine", "root")):
            assert "Permission denied (publickey)" in ssh(key, user, "true").stderr, (key, user)
        shown = ssh("mine", "hud", "-tt", "TERM=xterm timeout 20 hudtui", stdin=subprocess.DEVNULL)
        assert "\x1b[?1049h" in shown.stdout and "environment" in shown.stdout, shown.stdout[-3000:]
    finally:
        run("podman", "rm", "-f", "-v", container)
    size = int(run("podman", "image", "inspect", "--format", "{{.Size}}", "ssh:dev"))
    return f"{version} in an image of {size / 1e6:.0f} MB; another key and root are refused"


def listens(port: int) -> bool:
    """Whether a port of loopback is open."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def bare(place: Path, command: str, wanted: str) -> str:
    """A command of the README in a fresh clone on a Debian that has Python, and gets git and a
    compiler."""
    source = place / "hudtui.git"
    if not source.exists():
        run("git", "clone", "--quiet", "--bare", "--no-local", str(ROOT), str(source))
    script = (
        "set -e; apt-get update -qq; export DEBIAN_FRONTEND=noninteractive"
        "; apt-get install -y -qq --no-install-recommends git gcc libc6-dev >/dev/null"
        f"; git clone -q /src /tmp/hudtui; cd /tmp/hudtui; time {command}"
    )
    words = [
        *host_settings(env="-e"),
        "-v",
        f"{source}:/src:ro",
        "localhost/bare:latest",
        "bash",
        "-c",
        script,
    ]
    done = subprocess.run(
        ["podman", "run", "--rm", "--network", "host", *words],
        capture_output=True,
        text=True,
        timeout=7200,
        check=False,
    )
    assert done.returncode == 0 and re.search(wanted, done.stdout + done.stderr, re.MULTILINE), (
        "\n".join(done.stdout.splitlines()[-80:]) + done.stderr[-3000:]
    )
    nothing_left()
    last = [line for line in done.stdout.splitlines() if line.strip()][-1].strip()
    return f"{command}: {last[:70]}; {re.findall(r'real(.*)', done.stderr)[-1].strip()}"


def tasks(name: str, image: str, count: int) -> None:
    """A file of tasks that run an image by docker."""
    arguments = ["run", "--rm", "-i", "-e", "HUD_API_KEY=${HUD_API_KEY}", image]
    made = [
        {
            "id": f"game-{seed}",
            "prompt": "Build a tile of 64.",
            "mcp_config": {"game": {"command": "docker", "args": arguments}},
            "setup_tool": {
                "name": "setup",
                "arguments": {"name": "board", "board_size": 4, "seed": seed},
            },
            "evaluate_tool": {
                "name": "evaluate",
                "arguments": {"name": "max_number", "target": 64},
            },
        }
        for seed in range(count)
    ]
    Path(name).write_text(json.dumps(made))


def hudtui(*words: str, code: int | None = 0, errors: bool = False) -> str:
    """The output of a command, or all that it said."""
    done = subprocess.run(
        [*HUDTUI, *words], capture_output=True, text=True, timeout=300, check=False
    )
    assert code is None or done.returncode == code, (
        words,
        done.returncode,
        done.stdout[-2000:],
        done.stderr[-4000:],
    )
    return done.stdout + done.stderr if errors else done.stdout


def run(*words: str, stdin: Any = subprocess.DEVNULL) -> str:
    """The output of a program that succeeds."""
    return subprocess.run(
        words, stdin=stdin, capture_output=True, text=True, check=True, timeout=900
    ).stdout


def command_lines() -> list[bytes]:
    """Of every process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found


def nothing_left() -> None:
    """No container and no volume."""
    for words in (("ps", "-a", "-q"), ("volume", "ls", "-q")):
        assert not (left := run("podman", *words).split()), (words, left)


def wait(condition: Callable[[], bool], seconds: float) -> None:
    """Until it holds."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"not within {seconds} s"
        time.sleep(0.1)


def tidy(place: Path) -> None:
    """Remove containers that a failure has left, by their ids."""
    for name in ("one", "two"):
        env = {**os.environ, "CONTAINERS_STORAGE_CONF": str(place / name / "storage.conf")}
        left = subprocess.run(
            ["podman", "ps", "-a", "-q"], env=env, capture_output=True, text=True, check=False
        ).stdout.split()
        if left:
            subprocess.run(
                ["podman", "rm", "-f", "-v", *left], env=env, capture_output=True, check=False
            )


def free_port() -> int:
    """A port of loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


if __name__ == "__main__":
    raise SystemExit(main())
