"""Generated calls in each dialect, read back: the same call or a refusal, never another one.

    python tests/faults/dialects.py [--replies 100000] [--seed 1]

Replies are written by the published rules of each dialect (`tests/support/dialect_corpus.py`), with
thoughts that hold calls, several calls and ends that are missing. Where `transformers` and TRL are
installed, the chat templates of models that TRL carries write the calls as well, and `native` reads
them: what a foreign judge wrote. Ends with 1 if a reply became another call, or ended the episode
with a call in its thought or half a call.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.dialect_corpus import CONFIG, TOOLS, WRITERS, Spoken, any_call, any_spoken, meant

from hudtui.core.gym.config import parse_config
from hudtui.core.gym.interpreter import Interpreter

TEMPLATES = ("qwen2_5", "qwen3", "qwen3_instruct_2507", "llama3_1", "llama3_2", "gptoss")
_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|return|>")


def interpreter(dialect: str, parallel: str = "first") -> Interpreter:
    config, _ = parse_config(CONFIG % ("false", dialect, parallel), name="c.yaml")
    assert config is not None
    return Interpreter(config, TOOLS)


def outcome(spoken: Spoken, inner: Interpreter) -> str:
    """The kind of what a reply became: `same`, `refused`, `ends`, or what must never be."""
    meaning = inner.interpret(spoken.text)
    call = meaning.to_json()["call"]
    if call is None and meaning.done:
        return "ends" if spoken.kind == "none" else "ENDS WITH A CALL"
    if call is None:
        return "refused"
    if not spoken.calls:
        return "FROM A THOUGHT"
    return "same" if call == meant(spoken.calls[0]) else "ANOTHER CALL"


def tell(name: str, counts: Counter[tuple[str, str]], bad: list[Spoken]) -> None:
    total = Counter[str]()
    for (_, what), count in counts.items():
        total[what] += count
    by_kind = ", ".join(
        f"{kind} {what} {count:,}" for (kind, what), count in sorted(counts.items())
    )
    print(f"{name:32} {sum(total.values()):8,} replies: {by_kind}", flush=True)
    for spoken in bad[:3]:
        print(f"  {spoken}")


def campaign(name: str, make: Callable[[], Spoken], inner: Interpreter, replies: int) -> bool:
    counts, bad = Counter[tuple[str, str]](), list[Spoken]()
    for _ in range(replies):
        spoken = make()
        what = outcome(spoken, inner)
        counts[spoken.kind, what] += 1
        if what.isupper():
            bad.append(spoken)
    tell(name, counts, bad)
    return not bad


def template_writers() -> dict[str, Callable[[str, dict[str, Any]], str]]:
    """What the chat templates that TRL carries write for a call, by the template's name."""
    try:
        import trl
        from transformers.utils.chat_template_utils import render_jinja_template
    except ImportError:
        print("transformers and TRL are not installed: no template is asked")
        return {}
    folder = Path(trl.__file__).parent / "chat_templates"

    def writer(template: str) -> Callable[[str, dict[str, Any]], str]:
        def write(name: str, arguments: dict[str, Any]) -> str:
            function = {"name": name, "arguments": arguments}
            asked = [{"role": "user", "content": "Go."}]
            said = {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"type": "function", "function": function}],
            }

            def render(messages: list[Any], reply_next: bool) -> str:
                rendered, _ = render_jinja_template(
                    conversations=[messages],
                    chat_template=template,
                    add_generation_prompt=reply_next,
                    bos_token="",
                    eos_token="",
                )
                return str(rendered[0])

            before = render(asked, True)
            whole = render([*asked, said], False)
            if not whole.startswith(before):
                before = render(asked, False)
            text = whole[len(before) :].removeprefix("<|im_start|>assistant\n")
            for end in _ENDS:
                text = text.removesuffix("\n").removesuffix(end)
            return text

        return write

    files = (folder / f"{name}.jinja" for name in TEMPLATES)
    return {file.stem: writer(file.read_text()) for file in files if file.exists()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replies", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    good = True
    for dialect in WRITERS:
        choice = random.Random(f"{arguments.seed} {dialect}")
        for read_as in (dialect, "auto"):
            good &= campaign(
                f"{dialect}, read as {read_as}",
                lambda choice=choice, dialect=dialect: any_spoken(choice, dialect),
                interpreter(read_as),
                arguments.replies,
            )
    for name, write in template_writers().items():
        choice = random.Random(f"{arguments.seed} {name}")

        def written(choice: Any = choice, write: Any = write) -> Spoken:
            call = json.loads(json.dumps(any_call(choice)))
            return Spoken(write(*call), (tuple(call),), "one")

        replies = min(arguments.replies, 20_000)
        good &= campaign(f"template {name}", written, interpreter("native"), replies)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
