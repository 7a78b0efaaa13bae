"""The dataset card: what stands on a dataset's page on the Hub. Without dates, so that the same tasks give the same card."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hudtui.core.platform import Platform
from hudtui.core.text import clean_line

BEGIN = "<!-- hudtui: begin -->"
END = "<!-- hudtui: end -->"

_MEANING = {
    "id": "name of the task, unique in the dataset",
    "prompt": "what the agent is asked to do",
    "mcp_config": "JSON: the MCP servers of the environment; variables such as `$HUD_API_KEY` get values when it is played",
    "setup_tool": 'JSON: the call (or calls) that prepare the environment; `"{}"` for none',
    "evaluate_tool": "JSON: the call (or calls) that judge the outcome",
    "metadata": "JSON: anything else about the task",
}


@dataclass(frozen=True)
class CardFacts:
    """What a card tells."""

    repo: str
    splits: Mapping[str, int]
    """Tasks by split."""
    columns: tuple[str, ...]
    source: str
    """What the tasks were made from, without the folders of this machine."""
    platform: Platform
    image: str | None = None
    duplicated: int = 0
    skipped: int = 0
    """Tasks of the source that were left out."""


def card(facts: CardFacts, old: str | None = None) -> str:
    """The text of README.md.

    Args:
        facts: What it tells.
        old: The card that is there. Its own words and its other metadata stay; only our part of it is replaced.
    """
    head, body = _parts(old or "")
    if not body.strip():
        body = f"# {facts.repo.rpartition('/')[2]}\n\n{BEGIN}\n{END}\n"
    ours = f"{BEGIN}\n{_section(facts)}{END}"
    if BEGIN in body and END in body.partition(BEGIN)[2]:
        before, _, rest = body.partition(BEGIN)
        body = before + ours + rest.partition(END)[2]
    else:
        body = f"{body.rstrip()}\n\n{ours}\n"
    return f"---\n{_metadata(facts, head)}---\n\n{body.lstrip()}"


def _parts(text: str) -> tuple[str, str]:
    """Metadata (YAML, without its rules) and body of a card."""
    match = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", text, re.DOTALL | re.MULTILINE)
    return (match[1], text[match.end() :]) if match else ("", text)


def _metadata(facts: CardFacts, old: str) -> str:
    """The YAML at the top: where the splits are, and tags. What else is there already stays."""
    import io

    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML()
    yaml.width = 4096
    try:
        data = yaml.load(old) if old.strip() else None
    except YAMLError:
        data = None
    if not isinstance(data, dict):
        data = {}
    data.setdefault("tags", [])
    if isinstance(data["tags"], list):
        data["tags"] += [tag for tag in ("reinforcement-learning", "mcp", "hudtui") if tag not in data["tags"]]
    data["size_categories"] = [_size(sum(facts.splits.values()))]
    data["configs"] = [
        {
            "config_name": "default",
            "data_files": [{"split": split, "path": f"data/{split}-*"} for split in facts.splits],
        }
    ]
    data.pop("dataset_info", None)  # another writer's counts would contradict the files, and loading would fail
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue()


def _size(count: int) -> str:
    bounds = (("n<1K", 10**3), ("1K<n<10K", 10**4), ("10K<n<100K", 10**5), ("100K<n<1M", 10**6), ("1M<n<10M", 10**7))
    return next((name for name, bound in bounds if count < bound), "10M<n<100M")


def _section(facts: CardFacts) -> str:
    counts = ", ".join(f"{count:,} in `{split}`" for split, count in facts.splits.items())
    lines = [
        "Tasks for reinforcement learning of agents on an MCP environment, in HUD's v4 task format.",
        "",
        f"- Tasks: {counts}",
        f"- Made from: `{clean_line(facts.source, 200).replace('`', '')}`"
        + (f" ({facts.skipped:,} unusable tasks left out)" if facts.skipped else ""),
    ]
    if facts.image:
        lines.append(f"- Environment: `{clean_line(facts.image, 200).replace('`', '')}`")
    if facts.duplicated:
        lines.append(f"- {facts.duplicated:,} of the tasks in `train` are copies of others under new ids")
    lines += ["", "| column | holds |", "| --- | --- |"]
    lines += [
        f"| `{clean_line(name, 100).replace('|', ' ')}` | {_MEANING.get(name, 'kept from the source')} |"
        for name in facts.columns
    ]
    lines += [
        "",
        "All columns are text. To load it:",
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        f'tasks = load_dataset("{facts.repo}", split="train")',
        "```",
        "",
        "To evaluate and to train on it with hudtui:",
        "",
        "```bash",
        f"hudtui eval {facts.repo} --config configs/my-env.yaml --policy openai:gpt-4.1-mini",
        f"hudtui rl --dataset {facts.repo} --config configs/my-env.yaml",
        "```",
    ]
    return "\n".join(lines) + "\n"
