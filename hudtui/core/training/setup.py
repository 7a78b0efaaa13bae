"""Parts of the plans of all engines.

The Python environment on the machine, and the variables of a stage. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from hudtui.core.training.package_data import resource_bytes
from hudtui.core.training.plan import WHEELS, JobSpec, PlanFile, Site, Stage
from hudtui.core.training.shape import shape_by_name
from hudtui.core.trust import RUN_VARIABLE

PYTHON = "3.12"
REHEARSE = "rehearse"
"""Name of the lock of rehearsals on a CPU."""


def environment_folder(environments: str, lock: str = REHEARSE) -> str:
    """Return the folder of the Python environment that a lock describes.

    By default that of rehearsals on a CPU.
    """
    digest = hashlib.sha256(resource_bytes(f"requirements/{lock}.txt")).hexdigest()[:8]
    return f"{environments}/{lock}-{digest}"


def python_environment(
    spec: JobSpec,
    site: Site,
    lock: str,
    options: Sequence[str],
    *,
    also: Sequence[str] = (),
    max_seconds: float = 3600,
) -> tuple[str, list[Stage], list[PlanFile]]:
    """Return the Python of a run on its machine, and the stages and files that make it.

    There are none if the run names a Python.

    The environment has what `lock` lists. `options` are further ones of `bootstrap.py`, and `also`
    the locks that they name.
    """
    if spec.trainer_python is not None:
        return spec.trainer_python, [], []
    files = [PlanFile("bootstrap.py", resource="pod/bootstrap.py")]
    files += [
        PlanFile(f"files/{name}.txt", resource=f"requirements/{name}.txt")
        for name in (lock, "uv", *also)
    ]
    venv = environment_folder(site.environments, lock)
    argv = (
        *(*site.python, site.path("bootstrap.py"), "--venv", venv),
        *("--lock", site.path(f"files/{lock}.txt"), "--uv", site.path("files/uv.txt"), *options),
        *(("--package", site.package) if site.package else ("--wheel", site.path(WHEELS))),
    )
    made = Stage(
        "bootstrap",
        argv,
        cwd=site.workspace or "",
        env={"PYTHONUNBUFFERED": "1"},
        max_seconds=max_seconds,
    )
    return f"{venv}/bin/python", [made], files


def gpu_options(
    spec: JobSpec, model: str, *, disk: float, driver: int, vram: Iterable[float]
) -> list[str]:
    """Return options of `bootstrap.py` for a machine with GPUs.

    `disk` in GiB without the model, `vram` in GiB of each GPU.
    """
    shape = spec.shape or shape_by_name(model)
    weights = 2.2e-9 * shape.parameters if shape is not None else 20.0
    asked = ["--python", PYTHON, "--disk", f"{disk + weights + 10:.0f}", "--driver", str(driver)]
    return [*asked, "--vram", ",".join(f"{gib:.0f}" for gib in vram)]


def trainer_variables(
    spec: JobSpec, site: Site, *, code: bool, **more: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables of a training's stages, and the secrets that they do not replace.

    The secrets are names.

    `code`: the code of the configuration's own reward travels with the run.
    """
    # PYTHONSAFEPATH: a folder called hudtui must not stand in for the program.
    env = {**spec.variables, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1", **more}
    if spec.platform:
        env["HUDTUI_PLATFORM"] = spec.platform
    if code:
        env[RUN_VARIABLE] = site.path(
            "files"
        )  # the user agreed to this code when the run was started
    return env, tuple(name for name in spec.secrets if name not in env)
