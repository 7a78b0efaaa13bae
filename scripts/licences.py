"""Write docs/reference/licences.md from what is installed: `python scripts/licences.py [--check]`.

The page lists the licence of each package that hudtui and its extras install, as the package itself
tells it. It is read from the environments that `scripts/bootstrap dev` makes, which have exactly
what the lock files say. `--check` writes nothing, and exits with 1 if the page is out of date, and
with 2 if an environment is not there.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator
from email.message import Message
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "licences.md"
PARTS = {
    "hudtui": ("base", ".venv"),
    "images": ("images", ".venv"),
    "verifiers": ("verifiers", ".venv-verifiers"),
    "train": ("rehearse", ".venv-train"),
    "art": ("art-rehearse", ".venv-art"),
}
"""What is installed: the app itself and its extras; the lock, and the environment that has it."""
ON_GPUS = ("train", "art")
"""Locks of machines with GPUs, with packages that no environment here has."""
CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "GNU Lesser General Public License v3 or later (LGPLv3+)": "LGPL-3.0-or-later",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
SPELLINGS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "ISC License": "ISC",
    "MIT License": "MIT",
}
"""Other spellings than those of SPDX."""
TEXTS = (
    ("Apache License", "Apache-2.0"),
    ("Permission is hereby granted, free of charge", "MIT"),
    ("Neither the name", "BSD-3-Clause"),
    ("Redistribution and use in source and binary forms", "BSD-2-Clause"),
)
"""What a licence's text says, the first one that is found."""
UNKNOWN = "not said"


def licence(package: Distribution) -> str:
    """Return the licence that a package tells, in the words of SPDX where it has any."""
    about: Message = package.metadata
    told = about.get("License-Expression") or about.get("License") or ""
    told = SPELLINGS.get(told, told)
    found = {
        CLASSIFIERS[name]
        for line in about.get_all("Classifier") or ()
        if line.startswith("License ::") and (name := line.rpartition(" :: ")[2]) in CLASSIFIERS
    }
    if told and "\n" not in told and len(told) < 100 and told != "UNKNOWN" and told != "BSD":
        return told
    if len(found) == 1 and found != {"BSD"}:
        return found.pop()
    for file in package.files or ():
        if re.match(r"(licen[cs]e|copying)", file.name, re.IGNORECASE) and ".dist-info" in str(
            file
        ):
            text = Path(str(file.locate())).read_text(encoding="utf-8", errors="replace")
            for words, name in TEXTS:
                if words in text:
                    return name
    return "BSD" if told == "BSD" or found else UNKNOWN


def locked(name: str) -> set[str]:
    """Return the names of the packages in a lock."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))


def installed(folder: Path) -> dict[str, str]:
    """Return the licences of the packages in an environment, by their names.

    Raises:
        FileNotFoundError: There is no such environment.
    """
    places = [str(path) for path in folder.glob("lib/python3*/site-packages")]
    if not places:
        raise FileNotFoundError(f"there is no {folder.name}: scripts/bootstrap dev makes it")
    return {
        re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower(): licence(one)
        for one in distributions(path=places)
    }


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    users: dict[str, list[str]] = {}
    told: dict[str, str] = {}
    elsewhere: set[str] = set()
    for part, (lock, environment) in PARTS.items():
        here = installed(ROOT / environment)
        for name in locked(lock):
            if name in here:
                users.setdefault(name, []).append(part)
                told.setdefault(name, here[name])
            else:
                elsewhere.add(name)
    yield "# Licences"
    yield ""
    yield (
        "This page is generated from installed packages by `scripts/licences.py`. hudtui itself is "
        "under the MIT licence and contains no code of the packages below: pip installs them "
        "beside it, each under a licence of its own. A package is named with what installs it: "
        "`hudtui` (with what builds it), or one of its extras."
    )
    yield ""
    yield "| package | licence | installed by |"
    yield "| --- | --- | --- |"
    for name in sorted(told):
        parts = users[name]
        by = "hudtui" if "hudtui" in parts else ", ".join(parts)
        yield f"| {name} | {told[name]} | {by} |"
    yield ""
    yield "asyncssh may be used under either of its licences; hudtui uses it under EPL-2.0."
    yield ""
    yield "## Not read"
    yield ""
    yield "Packages for other systems:"
    yield from _words(elsewhere - told.keys())
    yield ""
    gpus = set().union(*map(locked, ON_GPUS)) - told.keys() - elsewhere
    yield (
        f"{len(gpus)} packages that `train` and `art` install on machines with GPUs. Those of "
        "NVIDIA are not open source:"
    )
    yield from _words(gpus)


def _words(names: set[str]) -> list[str]:
    """Return a block of names."""
    lines = textwrap.wrap(" ".join(sorted(names)), 100, break_on_hyphens=False)
    return ["", "```text", *lines, "```"]


def main() -> int:
    """Write or check the page, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    try:
        text = "\n".join(page()) + "\n"
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    if check:
        stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text
        if stale:
            print("out of date. Run: python scripts/licences.py", file=sys.stderr)
        return int(stale)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
