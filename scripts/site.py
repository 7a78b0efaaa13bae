#!/usr/bin/env python3
"""Build the documentation: as a site, as plain Markdown beside it, and `llms.txt` over both.

    .venv/bin/python scripts/site.py [--out build/site]

Each page `NAME/` of the site is also there as `NAME.md`, with links that work. `llms.txt` lists the
pages in the order of `mkdocs.yml`, each with its first sentence. Exits with 1 if a page is broken.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
GENERATED = "This page is generated from the code by `scripts/reference.py`. "
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def sections(nav: list[Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the sections of the navigation with their pages; what stands outside comes first."""
    yield "Start", [entry for entry in nav if isinstance(entry, str)]
    for entry in nav:
        if isinstance(entry, dict):
            yield from entry.items()


def about(text: str) -> tuple[str, str]:
    """The title of a page, and its first sentence without links."""
    title, _, rest = FENCED.sub("", text).partition("\n")
    rest = rest.replace(GENERATED, "")
    prose = (part for part in re.split(r"\n\s*\n", rest) if re.match(r"\s*[\w`*\[]", part))
    paragraph = " ".join(LINK.sub(r"\1", next(prose)).split())
    return title.removeprefix("# "), re.split(r"(?<=[.!?:]) (?=[A-Z`])", paragraph)[0]


def llms(config: dict[str, Any], docs: Path) -> Iterator[str]:
    """Yield the lines of `llms.txt`."""
    yield f"# {config['site_name']}"
    yield ""
    yield f"> {config['site_description']}"
    for section, pages in sections(config["nav"]):
        yield ""
        yield f"## {section}"
        yield ""
        for page in pages:
            title, sentence = about((docs / page).read_text(encoding="utf-8"))
            yield f"- [{title}]({page}): {sentence}"


def main() -> int:
    """Build everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    out = parser.parse_args().out.resolve()
    with tempfile.TemporaryDirectory(prefix="hudtui-") as name:
        shutil.copytree(ROOT / "docs", Path(name, "docs"))
        shutil.copy(ROOT / "mkdocs.yml", name)
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        done = subprocess.run(command, cwd=name, capture_output=True, text=True)
        told = done.stdout + done.stderr
        if done.returncode or "No issues found" not in told:
            print(told, file=sys.stderr)
            return 1
        shutil.copytree(Path(name, "build", "site"), out, dirs_exist_ok=True)
    docs = ROOT / "docs"
    for page in docs.rglob("*.md"):
        copy = out / page.relative_to(docs)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, copy)
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    (out / "llms.txt").write_text("\n".join(llms(config, docs)) + "\n", encoding="utf-8")
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
