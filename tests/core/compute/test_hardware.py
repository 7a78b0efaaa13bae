from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from hudtui.core.compute.hardware import Gpu, inspect, parse_gpus, size
from hudtui.core.errors import MachineError
from hudtui.core.remote.local import LocalHost


async def test_this_machine_is_told_as_it_is() -> None:
    found = await inspect(LocalHost(), python=sys.executable)
    assert found.cpus == len(os.sched_getaffinity(0))
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert found.disk_bytes == shutil.disk_usage(Path.home()).total
    assert (
        found.memory_bytes
        and found.memory_free_bytes
        and found.memory_free_bytes < found.memory_bytes
    )
    assert found.program("tmux") == shutil.which("tmux")
    assert found.to_json()["programs"]["git"] == shutil.which("git")


def _program(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / "nvidia-smi"
    file.write_text(text)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


async def test_gpus_come_from_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(
        tmp_path / "bin",
        "#!/bin/sh\necho '0, NVIDIA H100 80GB HBM3, 81559, 4, 0, 580.65'\necho '1, "
        "\x1b]0;x\x07Odd, [N/A], [N/A], [N/A], 1'\n",
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    found = await inspect(LocalHost(), python=sys.executable)
    assert found.gpus == (
        Gpu(0, "NVIDIA H100 80GB HBM3", 81559, 4, 0, "580.65"),
        Gpu(1, "Odd", None, None, None, "1"),
    )
    assert found.warnings == ()


async def test_a_divided_gpu_is_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(
        tmp_path / "bin",
        "#!/bin/sh\nif [ $1 = -L ]; then cat <<'END'\n"
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-0)\n"
        "  MIG 1g.10gb+me  Device  1: (UUID: MIG-1)\n"
        'END\nelse for gpu in 0 1; do echo "$gpu, NVIDIA H100 80GB HBM3, 81559, 4, 0, 580.65"; '
        "done; fi\n",
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    found = await inspect(LocalHost(), python=sys.executable)
    assert [(gpu.index, gpu.name, gpu.memory_mib) for gpu in found.gpus] == [
        (0, "NVIDIA H100 80GB HBM3", 81559),
        (1, "NVIDIA H100 80GB HBM3 MIG 3g.40gb", 40960),
        (1, "NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", 10240),
    ]
    assert found.warnings == ()


async def test_a_broken_driver_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _program(tmp_path / "bin", "#!/bin/sh\necho 'NVIDIA-SMI has failed: no driver'\nexit 9\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    found = await inspect(LocalHost(), python=sys.executable)
    assert found.gpus == ()
    assert found.warnings == ("The GPU driver does not work: NVIDIA-SMI has failed: no driver",)


async def test_a_python_that_fails_is_an_error_with_its_words(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no such library' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(MachineError) as caught:
        await inspect(LocalHost(), python=str(broken))
    assert caught.value.why == "no such library"


def test_lines_of_another_form_are_left_out() -> None:
    assert parse_gpus("Warning: infoROM is corrupted\n0, A100, 81920, 10, 5, 1\n\n0, short\n") == (
        Gpu(0, "A100", 81920, 10, 5, "1"),
    )


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, "–"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (24 * 2**30, "24.0 GiB"),
        (500 * 2**30, "500 GiB"),
        (2**41, "2.0 TiB"),
        (2**52, "4096 TiB"),
    ],
)
def test_sizes_for_people(count: int | None, shown: str) -> None:
    assert size(count) == shown
