"""Requests as texts and as words of a command: each way there and back gives the same request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.command import hudtui

from hudtui.cli import art, console, rl_run
from hudtui.core.compute.values import Offer, Price
from hudtui.core.errors import InputError
from hudtui.core.knobs import knobs_of
from hudtui.core.runs.art_request import ArtRequest
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.request_texts import argv_of, counts, default_text, request_from, texts_of

RENTED: dict[str, Any] = {"provider": "prime", "gpus": "2xH100"}
REQUESTS = [
    RunRequest(),
    RunRequest(
        engine="rollouts",
        policy="openai:a b",
        base_url="http://h/v1?a=b",
        group=3,
        limit=2,
        seed=0,
        host="me@box",
    ),
    RunRequest(
        tasks="org/name",
        config=Path("a b.yaml"),
        model="x/y",
        steps=7,
        training=Path("t.yaml"),
        max_turns=3,
    ),
    RunRequest(
        **RENTED,
        spot=False,
        budget="none",
        max_hours="1.5",
        idle_minutes="20",
        keep_on_failure=True,
        name="a 'b'",
    ),
    RunRequest(
        **RENTED,
        spot=True,
        clouds=("a", "b"),
        regions=("eu",),
        environments="remote",
        python="/p",
        output_dir=Path("o"),
    ),
    RunRequest(provider="prime", offer_name="abc123", concurrency=8),
    RunRequest(rehearse=True, rehearse_model="x/tiny", steps=2),
    RunRequest(
        settings={
            "learning_rate": 3e-6,
            "lora": False,
            "temperature": 1.0,
            "patience": None,
            "batch_size": 2,
        }
    ),
    RunRequest(
        settings={
            "lora_targets": ["q", "v"],
            "loss_type": "grpo",
            "lr_scheduler": "linear",
            "beta": 0.0,
        }
    ),
    ArtRequest(),
    ArtRequest(
        environment="browser",
        art_config=Path("art.yaml"),
        dataset="d.json",
        reward="r.py:f",
        model="medium",
        steps=1,
    ),
    ArtRequest(
        num_generations=3,
        max_seq_len=4096,
        learning_rate=1e-5,
        gpu_memory_utilization=0.5,
        ruler="m",
        seed=4,
    ),
    ArtRequest(
        scenarios=2,
        val_scenarios=0,
        epochs=2,
        groups_per_step=1,
        project="p",
        model_name="m",
        settings={"top_p": 0.9},
    ),
    ArtRequest(rehearse=True, base_url="http://127.0.0.1:8000/v1"),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_comes_back_from_its_texts(request_: RunRequest) -> None:
    assert request_from(texts_of(request_), type(request_)) == request_


@pytest.mark.parametrize("request_", REQUESTS)
def test_the_words_of_a_request_are_a_command_that_asks_for_it(
    request_: RunRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    async def note(request: Any, how: Any, **_: Any) -> None:
        asked.append(request)

    def run(work: Any, **_: Any) -> None:
        with pytest.raises(StopIteration):
            work.send(None)

    monkeypatch.setattr(rl_run, "carry_out", note)
    monkeypatch.setattr(art, "train_art", note)
    monkeypatch.setattr(console, "run", run)
    words = argv_of(request_)
    assert words[0] == "hudtui"
    hudtui(*words[1:])
    host = (
        "local" if request_.rehearse else request_.host
    )  # what the command says of a rehearsal without a machine
    assert asked == [replace(request_, host=host)]


def test_an_offer_is_named() -> None:
    offer = Offer("sky", "aws/x", "A10G", 1, Price(1.0))
    request = RunRequest(engine="rollouts", provider="sky", offer=offer)
    assert argv_of(request) == [
        "hudtui",
        "rl",
        "--engine",
        "rollouts",
        "--provider",
        "sky",
        "--offer",
        offer.short,
    ]


@pytest.mark.parametrize(
    ("name", "texts", "is_one"),
    [
        ("gpus", {"provider": "prime"}, True),
        ("gpus", {"provider": "local"}, False),
        ("spot", {"provider": "prime", "offer_name": "abc123"}, False),
        ("budget", {"host": "me@box"}, False),
        ("python", {"host": "me@box"}, True),
        ("python", {"host": "local"}, False),
        ("policy", {"engine": "rollouts"}, True),
        ("policy", {"engine": "trl"}, False),
        ("batch_size", {"engine": "trl"}, True),
        ("batch_size", {"engine": "art"}, False),
        ("batch_size", {"engine": "rollouts"}, False),
        ("tasks", {"engine": "art"}, False),
        ("scenarios", {"engine": "art"}, True),
        ("scenarios", {"engine": "trl"}, False),
        ("held_out", {"engine": "art"}, False),
        ("base_url", {"engine": "art"}, False),
        ("no such option", {"engine": "trl"}, False),
    ],
)
def test_an_option_counts_beside_other_texts(
    name: str, texts: dict[str, str], is_one: bool
) -> None:
    assert counts(name, texts) is is_one
    if not is_one:
        assert request_from({**texts, name: "1"}) == request_from(texts), "its text is left out"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"steps": "many"}, "steps: 'many' is not a number"),
        ({"steps": "1.5"}, "steps: '1.5' is not a whole number"),
        ({"steps": "0"}, "steps must be at least 1, not 0"),
        (
            {"engine": "art", "learning_rate": "nan"},
            "learning_rate must be a number that can be computed with",
        ),
        ({"engine": "rollouts", "limit": "-1"}, "limit must be at least 1"),
        ({"max_turns": "x"}, "max turns: 'x' is not a number"),
        ({"batch_size": "0"}, "batch_size must be at least 1"),
        ({"learning_rate": "fast"}, "learning_rate=fast"),
    ],
)
def test_a_text_that_cannot_be_used_is_named_as_its_field(
    texts: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        request_from(texts)
    assert message in " ".join(caught.value.lines())


def test_what_counts_without_a_value_depends_on_the_engine() -> None:
    shown = {engine: default_text("max_seq_len", {"engine": engine}) for engine in ("trl", "art")}
    assert shown == {"trl": "4096", "art": "8192"}
    assert default_text("learning_rate", {"engine": "trl"}) == "1e-5"
    assert default_text("group", {"engine": "rollouts"}) == "1"


def test_the_commands_take_all_that_is_declared_and_nothing_that_art_decides() -> None:
    assert not set(ArtRequest.fixed) & set(knobs_of(ArtRequest))
    assert {"tasks", "engine", "policy"} <= set(ArtRequest.fixed) & set(knobs_of(RunRequest))
