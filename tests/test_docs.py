"""The documentation against the code: commands that parse, links that lead somewhere, generated
pages that are up to date."""

import ast
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from support.sentences import length, sentences

from hudtui import __version__
from hudtui.cli.app import build

ROOT = Path(__file__).parents[1]
DOCS = tuple(sorted((ROOT / "docs").rglob("*.md")))
PAGES = (*sorted(ROOT.glob("*.md")), *DOCS)
GUIDES = {
    *(
        "index.md",
        "tutorial.md",
        "environments.md",
        "configuration.md",
        "tasks.md",
        "compute.md",
        "hosts.md",
        "runs.md",
    ),
    *("training.md", "monitor.md", "settings.md", "trust.md", "coming-from.md"),
}
FENCED = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(hudtui [^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMAND: Any = typer.main.get_command(build())
SHELL = ("|", ">", ">>", "<", "&&", ";", "&", "2>")


def command_lines(text: str) -> Iterator[str]:
    """Every command of hudtui in blocks of code and in running text."""
    for block in FENCED.findall(text):
        for line in re.sub(r"\\\n", " ", block).splitlines():
            if re.match(r"(\$ )?hudtui( |$)", line):
                yield line.removeprefix("$ ")
    yield from (line for line in INLINE.findall(FENCED.sub("", text)) if "[OPTIONS]" not in line)


def parse(line: str) -> None:
    """Parse a command as the command line does, down to the last subcommand, and run nothing."""
    command: Any = COMMAND
    words = shlex.split(line, comments=True)[1:]
    words = words[: next((place for place, word in enumerate(words) if word in SHELL), len(words))]
    context = None
    while True:
        if command.name == "rl" and words and words[0] not in command.commands:
            words = ["run", *words]  # `hudtui rl TASKS` is `hudtui rl run TASKS`
        context = command.context_class(command, parent=context, info_name=command.name)
        _, words, _ = command.make_parser(context).parse_args(words)
        if not words or not hasattr(command, "commands"):
            return
        assert words[0] in command.commands, f"{words[0]!r} is not a command of {command.name}"
        command, words = command.commands[words[0]], words[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_parses(page: Path) -> None:
    wrong = []
    for line in command_lines(page.read_text(encoding="utf-8")):
        try:
            parse(line)
        except Exception as error:  # whatever the parser raises, the line is wrong
            wrong.append(f"{line}: {error!r}")
    assert not wrong, "\n".join(wrong)


BLOCK = re.compile(r"^```([a-z]+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = {"cd", "cp", "echo", "export", "git", "mkdir", "pip", "podman", "ssh"}
"""Programs of others that a block of ours may start, besides those of `scale.md`."""


def check_shell(block: str) -> None:
    """Check a block for a shell: it is whole, what it starts is there, commands of ours parse."""
    subprocess.run(["bash", "-n"], input=block, text=True, check=True, capture_output=True)
    for line in re.sub(r"\\\n", " ", block).splitlines():
        for piece in re.split(r" \| | && ", line):
            words = shlex.split(piece, comments=True)
            if not words:
                continue
            program, *rest = words
            if program in ("hudtui", ".venv/bin/hudtui"):
                parse(piece)
            elif program.startswith("scripts/"):
                assert (ROOT / program).exists(), program
            elif program == "python" and rest[0] == "-m":
                assert importlib.util.find_spec(rest[1]) is not None, rest[1]
            elif program in ("python", ".venv/bin/python"):
                assert (ROOT / rest[0]).exists(), rest[0]
            elif program in ("uv", "ray", "vf-eval") or program.isupper():
                pass  # tools that the page is about, and what the reader fills in
            else:
                assert program in PROGRAMS, f"{program} is not known"


def read_block(kind: str, block: str) -> None:
    """Read a block of a page as what it says that it is."""
    match kind:
        case "sh":
            check_shell(block)
        case "console":
            whole = re.sub(r"\\\n", " ", block)
            commands = [line[2:] for line in whole.splitlines() if line.startswith("$ ")]
            assert commands
            check_shell("\n".join(commands))
        case "json":
            json.loads(f"{{{block}}}" if block.startswith('"') else block)  # or a part of one
        case "yaml":
            list(yaml.safe_load_all(block))
        case "toml":
            tomllib.loads(block)
        case "python":
            compile(block, "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        case _:
            assert kind in ("text", "mermaid"), f"nothing reads a block of {kind}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_what_it_says(page: Path) -> None:
    wrong = []
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        try:
            read_block(kind, block)
        except Exception as error:  # whatever a reader raises, the block is wrong
            wrong.append(f"{kind}: {error!r}\n{block}")
    assert not wrong, "\n".join(wrong)


OTHERS = {"--help", "--http", "--rm"}  # of every command, of the bundled environment, of docker
INLINE_CODE = re.compile(r"`([^`\n]+)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def options(command: Any = COMMAND) -> set[str]:
    own = {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    return own.union(*(options(inner) for inner in getattr(command, "commands", {}).values()))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.parent.name != "docs" or page.name in GUIDES],
    ids=lambda page: page.name,
)
def test_every_option_of_the_guides_exists(page: Path) -> None:
    scripts = [*(ROOT / "scripts").iterdir(), *(ROOT / "tests" / "real").glob("*.py")]
    theirs = {one for path in scripts if path.is_file() for one in OPTION.findall(path.read_text())}
    known = options() | OTHERS | theirs
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    wrong = {
        option
        for code in INLINE_CODE.findall(text)
        for option in OPTION.findall(code)
        if option not in known
    }
    assert not wrong


def test_the_parser_finds_mistakes() -> None:
    parse("hudtui env show text-2048 --json | head")
    for wrong in ("hudtui env explore text-2048", "hudtui runs logs --folow", "hudtui nothing"):
        with pytest.raises(Exception):  # noqa: B017 - the parser's own errors and the assertion
            parse(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            heads = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
            assert anchor in anchors, f"{page.name} links to {link}"


def test_every_file_that_the_architecture_names_exists() -> None:
    text = FENCED.sub("", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    named = {
        file
        for code in INLINE_CODE.findall(text)
        for file in re.findall(r"[\w/]+\.(?:py|toml)\b", code)
    }
    tops = (ROOT, ROOT / "hudtui", ROOT / "hudtui" / "core")
    assert len(named) > 60 and not [
        file for file in named if not any((top / file).exists() for top in tops)
    ]


def test_the_reference_is_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "reference.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_the_site_builds_with_plain_markdown_and_a_list_for_programs(tmp_path: Path) -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    names = {str(page.relative_to(ROOT / "docs")) for page in DOCS}
    assert set(re.findall(r"[\w/-]+\.md", config)) == names
    out = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "site.py"), "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Make a workspace" in (out / "tutorial" / "index.html").read_text(encoding="utf-8")
    lines = (out / "llms.txt").read_text(encoding="utf-8").splitlines()
    listed = [re.fullmatch(r"- \[.+\]\((.+?)\): ([^|#]{20,})", line) for line in lines[2:]]
    assert {found[1] for found in listed if found} == names
    assert sum(line.startswith("- ") for line in lines) == len(names), "each has a sentence"
    for name in names:
        assert (out / name).read_bytes() == (ROOT / "docs" / name).read_bytes()


def test_the_newest_changes_are_those_of_this_version() -> None:
    heads = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    versions = [head.partition(",")[0] for head in heads]
    assert versions[0] == __version__ and len(set(versions)) == len(versions)
    assert all(re.fullmatch(r"\S+, (\d{4}-\d\d-\d\d|not released yet)", head) for head in heads)
    assert all("not released" not in head for head in heads[1:])


def test_what_the_page_for_contributors_names_exists() -> None:
    text = FENCED.sub("", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    named = {
        word
        for code in INLINE_CODE.findall(text)
        for word in code.split()
        if re.match(r"(scripts|tests|docs|hudtui)/|[A-Z]+\.md$", word)
    }
    assert len(named) > 12 and not [name for name in named if not (ROOT / name).exists()]
    for script in ("reference.py", "licences.py", "matrix.py"):
        asked = set(re.findall(rf"`scripts/{script} (--[a-z]+)`", text))
        source = (ROOT / "scripts" / script).read_text(encoding="utf-8")
        assert all(f'"{option}"' in source for option in asked)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_sentence_has_more_than_thirty_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not [one for one in sentences(text) if length(one) > 30]


def test_words_are_counted_as_a_reader_counts_them() -> None:
    text = "# A head\n\nIt works, see `a b c`.\nTwo! [A link](to.md), e.g. this.\n\n- one\n- two\n"
    text += "\n| a | b c |\n```sh\nno sentence\n```\n"
    assert [(one, length(one)) for one in sentences(text)] == [
        ("# A head", 2),
        ("It works, see §.", 4),
        ("Two!", 1),
        ("A link, etc this.", 4),
        ("- one", 1),
        ("- two", 1),
        ("a", 1),
        ("b c", 2),
    ]
