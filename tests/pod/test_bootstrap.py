from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hudtui.pod import bootstrap

SCRIPT = Path(__file__).parents[2] / "hudtui" / "pod" / "bootstrap.py"


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def run(*words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock.txt"
    path.write_text("example==1.0 --hash=sha256:00\n")
    return path


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A uv that makes an environment as it would, and writes down what it is asked to install."""
    log = tmp_path / "uv.log"
    body = f"""echo "$@" >>{log}
case "$1" in
venv) eval folder=\\${{$#}}; mkdir -p "$folder/bin" "$folder/site"
    printf '#!/bin/sh\\ncase "$2" in *torch*) echo 2.13.0+cpu;; ' >"$folder/bin/python"
    printf '*purelib*) echo %s/site;; esac\\n' "$folder" >>"$folder/bin/python"
    printf 'case "$*" in *refuse*) exit 1;; esac\\n' >>"$folder/bin/python"
    chmod +x "$folder/bin/python";;
pip) case "$*" in *refuse*) exit 1;; esac;;
esac
"""
    program(tmp_path / "tools", "uv", body)
    return tmp_path / "tools"


def uv_wheel(folder: Path) -> str:
    """A wheel of a uv that only says that it was started; its hash."""
    folder.mkdir()
    path = folder / "uv-9.9.9-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        program = zipfile.ZipInfo("uv-9.9.9.data/scripts/uv")
        program.external_attr = 0o100755 << 16
        wheel.writestr(program, "#!/bin/sh\necho the locked uv\n")
        wheel.writestr(
            "uv-9.9.9.dist-info/METADATA", "Metadata-Version: 2.1\nName: uv\nVersion: 9.9.9\n"
        )
        wheel.writestr(
            "uv-9.9.9.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr("uv-9.9.9.dist-info/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def asked(tmp_path: Path) -> list[str]:
    log = tmp_path / "uv.log"
    return log.read_text().splitlines() if log.exists() else []


def test_an_environment_is_made_once_from_the_lock_alone(
    tmp_path: Path, lock: Path, tools: Path
) -> None:
    package = tmp_path / "src" / "hudtui"
    package.mkdir(parents=True)
    words = ("--venv", str(tmp_path / "envs" / "e"), "--lock", str(lock), "--package", str(package))
    first = run(*words, path=tools)
    assert first.returncode == 0, first.stdout + first.stderr
    made, installed = asked(tmp_path)
    assert made.startswith("venv ") and "--python 3.12" in made and "--seed" not in made
    assert (
        "--require-hashes" in installed
        and "--no-deps" in installed
        and "--only-binary :all:" in installed
        and installed.endswith(str(lock))
    )
    assert (tmp_path / "envs" / "e" / "site" / "hudtui").resolve() == package
    second = run(*words, path=tools)
    assert second.returncode == 0 and "as it was left" in second.stdout
    assert len(asked(tmp_path)) == 2  # nothing was done again
    lock.write_text("example==2.0 --hash=sha256:00\n")
    assert (
        run(*words, path=tools).returncode == 0 and len(asked(tmp_path)) == 4
    )  # another lock, another environment


def test_a_wheel_is_installed_without_its_wishes(tmp_path: Path, lock: Path, tools: Path) -> None:
    wheels = tmp_path / "wheel"
    wheels.mkdir()
    words = ("--venv", str(tmp_path / "e"), "--lock", str(lock), "--wheel", str(wheels))
    none = run(*words, path=tools)
    assert none.returncode == 5 and "there should be one wheel of hudtui" in none.stdout
    (wheels / "hudtui-0.1.0-py3-none-any.whl").touch()
    assert run(*words, path=tools).returncode == 0
    assert "--no-deps" in asked(tmp_path)[-1] and asked(tmp_path)[-1].endswith(".whl")


def test_what_fails_to_install_leaves_no_finished_environment(tmp_path: Path, tools: Path) -> None:
    lock = tmp_path / "refuse.txt"
    lock.write_text("")
    done = run("--venv", str(tmp_path / "e"), "--lock", str(lock), path=tools)
    assert done.returncode == 5 and "could not be installed" in done.stdout
    assert not (tmp_path / "e" / ".hudtui").exists()


def test_a_uv_that_trusts_nobody_is_given_the_certificates_of_the_machine(
    tmp_path: Path, lock: Path, tools: Path
) -> None:
    picky = """[ -n "$UV_SYSTEM_CERTS" ] || { echo "invalid peer certificate"; exit 2; }\n"""
    uv = tools / "uv"
    uv.write_text(uv.read_text().replace("#!/bin/sh\n", "#!/bin/sh\n" + picky))
    done = run("--venv", str(tmp_path / "e"), "--lock", str(lock), path=tools)
    assert done.returncode == 0 and "with the certificates of this machine" in done.stdout, (
        done.stdout
    )
    assert [line.split()[0] for line in asked(tmp_path)] == ["venv", "pip"]


def test_where_uv_fails_the_python_of_the_machine_and_pip_are_tried(
    tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tools, "uv", "exit 2")
    uv_wheel(tmp_path / "wheels")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    nothing, wrong = tmp_path / "nothing.txt", tmp_path / "wrong.txt"
    nothing.write_text("")
    wrong.write_text(f"uv==9.9.9 --hash=sha256:{'0' * 64}\n")
    done = run(
        "--venv", str(tmp_path / "e"), "--first", str(nothing), "--lock", str(wrong), path=tools
    )
    assert "with pip" in done.stdout and (tmp_path / "e" / "bin" / "python").exists()
    assert "falling back" not in done.stdout  # pip has installed the first lock
    assert done.returncode == 5 and not list((tmp_path / "e").glob("lib/*/site-packages/uv-9.9.9*"))
    assert (
        "error: uv==9.9.9 has another hash than wrong.txt names, and was not installed\n  The "
        "package index" in done.stdout
    )


@pytest.mark.parametrize("right", [True, False], ids=["its-hash", "another-hash"])
def test_a_machine_without_uv_gets_the_locked_one_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], right: bool
) -> None:
    digest = uv_wheel(tmp_path / "wheels")
    lock = tmp_path / "uv.txt"
    lock.write_text(f"uv==9.9.9 --hash=sha256:{digest if right else '0' * 64}\n")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    assert shutil.which("uv") is None, "this test is for a machine without uv"
    assert bootstrap.find_uv(str(tmp_path / "tools"), None) is None
    found = bootstrap.find_uv(str(tmp_path / "tools"), str(lock))
    said = "".join(capfd.readouterr())
    if right:
        assert (
            found is not None
            and subprocess.run([found], capture_output=True, text=True).stdout == "the locked uv\n"
        ), said
        assert bootstrap.find_uv(str(tmp_path / "tools"), None) == found, "it stays"
    else:
        assert found is None and "uv cannot be installed" in said
        assert not (tmp_path / "tools" / "uv-venv" / "bin" / "uv").exists()


def test_nothing_comes_from_an_address_of_its_own_and_nothing_is_outside_of_the_locks(
    tmp_path: Path, lock: Path
) -> None:
    assert "://" not in SCRIPT.read_text()
    for words in (("--extra", "x"), ("--extra-index", "https://h.example"), ("--flash-attn",)):
        done = run("--venv", str(tmp_path / "e"), "--lock", str(lock), *words)
        assert done.returncode == 2 and not (tmp_path / "e").exists()


@pytest.mark.parametrize("there", [True, False])
def test_a_build_that_is_tried_first_may_be_missing(
    tmp_path: Path, lock: Path, tools: Path, there: bool
) -> None:
    first = tmp_path / ("cpu.txt" if there else "refuse.txt")
    first.write_text("")
    uv = tools / "uv"
    refuse = (
        'case "$*" in *refuse*) echo "ERROR: No matching distribution found for torch"; exit '
        "1;; esac"
    )
    uv.write_text(uv.read_text().replace('case "$*" in *refuse*) exit 1;; esac', refuse))
    done = run(
        "--venv", str(tmp_path / "e"), "--lock", str(lock), "--first", str(first), path=tools
    )
    assert done.returncode == 0 and "ERROR" not in done.stdout + done.stderr
    assert ("falling back to the default build" in done.stdout) is not there
    assert (
        "not available here (No matching distribution found for torch)" in done.stdout
    ) is not there


def test_a_small_disk_is_told_before_anything_is_made(
    tmp_path: Path, lock: Path, tools: Path
) -> None:
    done = run("--venv", str(tmp_path / "e"), "--lock", str(lock), "--disk", "9999999", path=tools)
    assert done.returncode == 5 and "GiB are free" in done.stdout and "larger disk" in done.stdout
    assert asked(tmp_path) == []


@pytest.mark.parametrize(
    ("smi", "words"),
    [
        (
            "echo 'NVIDIA H100, 81559 MiB, 550.54.15'",
            "the NVIDIA driver is 550.54.15; this version of PyTorch needs 580",
        ),
        ("echo 'no devices were found'; exit 9", "does not answer: no devices were found"),
        ("echo", "the NVIDIA driver is unknown"),
    ],
)
def test_an_old_or_silent_driver_is_told(
    tmp_path: Path, lock: Path, tools: Path, smi: str, words: str
) -> None:
    program(tools, "nvidia-smi", smi)
    done = run("--venv", str(tmp_path / "e"), "--lock", str(lock), "--driver", "580", path=tools)
    assert done.returncode == 5 and words in done.stdout, done.stdout


def test_a_new_driver_is_shown_with_its_gpus(tmp_path: Path, lock: Path, tools: Path) -> None:
    program(tools, "nvidia-smi", "echo 'NVIDIA H100, 81559 MiB, 580.65.06'")
    done = run("--venv", str(tmp_path / "e"), "--lock", str(lock), "--driver", "580", path=tools)
    assert done.returncode == 0 and "gpu: NVIDIA H100, 81559 MiB" in done.stdout


@pytest.mark.parametrize(
    ("vram", "words"),
    [
        ("8,8", "this machine has 1 of the 2 GPUs that the plan is for"),
        ("88", "GPU 0 has 80 GiB; what it has to hold takes 88 at least"),
        ("8", None),
        ("0", None),
    ],
)
def test_gpus_that_will_not_do_are_told_before_anything_is_installed(
    tmp_path: Path, lock: Path, tools: Path, vram: str, words: str | None
) -> None:
    program(tools, "nvidia-smi", "echo 'NVIDIA H100, 81559 MiB, 580.65.06'")
    done = run(
        "--venv",
        str(tmp_path / "e"),
        "--lock",
        str(lock),
        "--driver",
        "580",
        "--vram",
        vram,
        path=tools,
    )
    assert (
        done.returncode == (5 if words else 0) and (words or "gpu: NVIDIA H100") in done.stdout
    ), done.stdout
    assert (tmp_path / "e").exists() is (words is None)


def test_no_driver_is_told(tmp_path: Path, lock: Path) -> None:
    command = [
        sys.executable,
        str(SCRIPT),
        "--venv",
        str(tmp_path / "e"),
        "--lock",
        str(lock),
        "--driver",
        "580",
    ]
    done = subprocess.run(
        command,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert done.returncode == 5 and "nvidia-smi is not found" in done.stdout


def test_a_missing_lock_is_told(tmp_path: Path) -> None:
    done = run("--venv", str(tmp_path / "e"), "--lock", str(tmp_path / "none.txt"))
    assert done.returncode == 5 and "there is no file" in done.stdout


def test_an_installation_says_how_many_packages_it_has_and_names_the_large_ones() -> None:
    progress = bootstrap.InstallProgress(26)
    heard = [
        f"Collecting p{number}==1.0 (from -r lock.txt (line {number}))" for number in range(25)
    ]
    heard[3:3] = [
        "  Downloading torch-2.13.0-cp312-cp312-linux.whl (530.1 MB)",
        "  Downloading six-1.0-py3-none-any.whl (11 kB)",
    ]
    heard[0] = "Processing /wheels/p0-1.0-py3-none-any.whl (from -r lock.txt (line 1))"
    heard[:0] = [
        "Looking in indexes: https://user:****@index.example",
        "Ignoring pywin32: markers 'sys_platform' don't match",
    ]
    heard += [
        "Installing collected packages: p1, p2",
        "ERROR: No matching distribution found for p9",
    ]
    said = [line for line in map(progress.line, heard) if line is not None]
    assert said == [
        "downloading torch (530.1 MB)",
        "10 of 25 packages",
        "20 of 25 packages",
        "ERROR: No matching distribution found for p9",
    ]
    of_uv = ["Resolved 25 packages in 8ms", "Downloading torch (506.1MiB)", " + torch==2.13.0"]
    assert [progress.line(line) for line in of_uv] == [*of_uv[:2], None]
