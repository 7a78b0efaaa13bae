from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from pathlib import Path

import pytest

from hudtui.core.environment.engine import push_image, push_name
from hudtui.core.errors import InputError, MachineError

DIGEST = "sha256:" + "ab" * 32
ENGINE = f"""#!/bin/sh
echo "$@" >>"$0.log"
case "$1" in
tag) [ "$2" = my-env:dev ] || {{ echo "No such image: $2"; exit 1; }};;
push) [ "$2" = --digestfile ] && {{ echo "{DIGEST}" >"$3"; shift 2; }}
    printf 'The push refers to repository\\n\\033[31mlayer: 1/2\\rlayer: 2/2\\n'
    case "$2" in *denied*) echo "denied: requested access to the resource is denied"; exit 1;; esac
    case "$2" in *slow*) echo $$ >"$0.pid"; echo waiting; exec sleep 100;; esac
    case "$0" in *podman) ;; *) echo "1.0: digest: {DIGEST} size: 528";; esac;;
image) echo '["ghcr.io/me/my-env@sha256:{"cd" * 32}"]';;
esac
"""


@pytest.fixture(params=["docker", "podman"])
def engine(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A container engine. What it has noted as an image's digest is not the one that the registry
    has, as with podman."""
    path = tmp_path / str(request.param)
    path.write_text(ENGINE)
    path.chmod(0o755)
    return str(path)


async def pushed(name: str, engine: str, local: str = "my-env:dev") -> tuple[list[str], str | None]:
    lines, image = [], None
    async with aclosing(push_image(local, name, engine=engine)) as steps:
        async for step in steps:
            lines.append(step.text)
            image = step.image or image
    return lines, image


def test_the_name_it_is_pushed_under() -> None:
    assert push_name("my-env:dev", "ghcr.io/me/") == "ghcr.io/me/my-env:dev"
    assert push_name("org/my-env:dev", "localhost:5000/other:2") == "localhost:5000/other:2"
    for wrong in ("", "UPPER/case", "name", "a b/c", "ghcr.io/me/x:y z", "-x/y"):
        with pytest.raises(InputError, match="not a name for an image"):
            push_name("my-env:dev", wrong)


@pytest.mark.parametrize("name", ["ghcr.io/me/my-env:1.0", "localhost:5000/me/my-env"])
async def test_it_is_tagged_and_pushed_and_its_digest_told(engine: str, name: str) -> None:
    lines, image = await pushed(name, engine)
    repository = name if name.endswith("my-env") else name.rpartition(":")[0]
    assert image == f"{repository}@{DIGEST}"
    assert "layer: 2/2" in lines and not any("\x1b" in line for line in lines), (
        "progress, and nothing for the terminal"
    )
    tagged, push = Path(engine + ".log").read_text().splitlines()
    assert (
        tagged == f"tag my-env:dev {name}"
        and push.startswith("push ")
        and push.endswith(f" {name}")
    )


async def test_what_goes_wrong_is_told(engine: str) -> None:
    with pytest.raises(MachineError, match="could not be tagged") as raised:
        await pushed("ghcr.io/me/x:1", engine, local="other:dev")
    assert "No such image" in str(raised.value.why)
    with pytest.raises(MachineError, match="could not be pushed") as raised:
        await pushed("ghcr.io/me/denied:1", engine)
    assert "denied" in str(raised.value.why) and "login ghcr.io" in str(raised.value.fix)
    with pytest.raises(MachineError, match="cannot be started"):
        await pushed("ghcr.io/me/x:1", engine + "-none")


async def test_leaving_ends_the_push(engine: str) -> None:
    async def leave() -> None:
        async with aclosing(push_image("my-env:dev", "ghcr.io/me/slow:1", engine=engine)) as steps:
            async for step in steps:
                if step.text == "waiting":
                    return

    await asyncio.wait_for(leave(), 30)
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path(engine + ".pid").read_text()), 0)
