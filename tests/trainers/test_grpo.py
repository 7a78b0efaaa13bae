"""What the trainer does before and beside torch, which is not needed here."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.demo.workspace import task_records
from hudtui.core.errors import InputError
from hudtui.core.plain import to_plain
from hudtui.core.platform import choose_platform
from hudtui.core.rollouts.values import Episode, Scores
from hudtui.core.settings import load_settings
from hudtui.core.training.recipe import Recipe
from hudtui.trainers.grpo import (
    SERVER,
    Stopwatch,
    check_vllm,
    environment,
    for_trainer,
    generate_turn,
    main,
    model_problem,
    read_all,
)
from hudtui.trainers.records import begin_job
from hudtui.trainers.rollout import TrainingEpisode

ROOT = Path(__file__).parents[2]
EPISODE = Episode("t", (), (), Scores(0.5, 1.0, 1.0, 0.6, True), "done")


def files(folder: Path, *, tasks: list[dict[str, Any]] | None = None, **recipe: Any) -> Namespace:
    shutil.copy(ROOT / "configs" / "2048.yaml", folder)
    (folder / "tasks.json").write_text(json.dumps(task_records() if tasks is None else tasks))
    (folder / "recipe.json").write_text(json.dumps(to_plain(Recipe(**recipe))))
    return Namespace(recipe="recipe.json", tasks="tasks.json", config="2048.yaml", out="out")


def read(folder: Path, **more: Any) -> Any:
    return read_all(files(folder, **more), load_settings(folder, choose_platform(folder)))


def test_the_files_are_read_before_anything_large(own_world: Path) -> None:
    recipe, config, tasks = read(own_world, held_out=2)
    assert (recipe.held_out, config.parser.use_thinking, len(tasks)) == (2, True, 6)


def test_too_few_tasks_and_too_many_held_out_are_refused(own_world: Path) -> None:
    with pytest.raises(
        InputError, match="there are 3 tasks that can be played; training takes 4 or more"
    ):
        read(own_world, tasks=task_records()[:3])
    with pytest.raises(InputError, match="3 of 6 tasks are held out: fewer than 4 are left"):
        read(own_world, held_out=3)


def test_the_command_ends_in_words(own_world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files(own_world)
    (own_world / "recipe.json").write_text('{"steps": "many"}')
    words = [
        "--recipe",
        "recipe.json",
        "--tasks",
        "tasks.json",
        "--config",
        "2048.yaml",
        "--out",
        "out",
    ]
    assert main(words) == 2
    assert "the training settings cannot be used" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("You are trying to access a gated repo.\nMake sure to have access to it", "is gated"),
        (
            "x/y is not a local folder and is not a valid model identifier listed on the Hub",
            "there is no model x/y",
        ),
        ("404 Client Error. Repository Not Found for url", "there is no model x/y"),
        ("We couldn't connect to the Hub", "cannot be loaded"),
        ("", "cannot be loaded"),
    ],
)
def test_what_the_hub_says_of_a_model_is_put_in_words(said: str, words: str) -> None:
    problem = model_problem("x/y", OSError(said))
    assert words in problem.what
    assert isinstance(problem, InputError) == ("cannot be loaded" not in words)


def test_an_episode_without_tokens_of_the_model_leaves_the_others_their_log_probabilities() -> None:
    whole = TrainingEpisode(EPISODE, [1], [2, 3, 4], [1, 0, 1], [-0.1, 0.0, -0.2], 0.6)
    broken = TrainingEpisode(EPISODE, [1], [9], [0], None, None)
    given = for_trainer([whole, broken])
    assert given["logprobs"] == [[-0.1, 0.0, -0.2], [0.0]] and given["env_mask"] == [[1, 0, 1], [0]]
    assert for_trainer([broken])["logprobs"] is None
    assert environment(["a", "b"], given["episode_reward"], step=1) == [0.6, None]


def test_the_first_process_begins_the_job_and_says_so(
    own_world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, config, _ = read(own_world)
    config = replace(config, job={"name": "Night run"})
    environ = {"HUD_TELEMETRY_LOCAL_DIR": str(own_world / "spans")}
    settings = load_settings(own_world, choose_platform(own_world), environ=environ)
    monkeypatch.setenv("RANK", "1")
    assert (
        begin_job(config, settings, recipe, own_world / "out") is None
        and not (own_world / "out").exists()
    )
    monkeypatch.setenv("RANK", "0")
    telemetry = begin_job(config, settings, recipe, own_world / "out")
    assert telemetry is not None
    telemetry.close()
    assert capsys.readouterr().out == f"job Night run id={telemetry.job.id}\n"
    again = begin_job(
        config, settings, recipe, own_world / "out"
    )  # a second start is the same training
    assert again is not None and again.job == telemetry.job
    again.close()


def test_a_reply_ends_at_its_end_mark_and_is_never_empty() -> None:
    class Trainer:
        """Of TRL, the two things that are used."""

        class _tokenizer:
            pad_token_id, eos_token_id = 0, 1

        def _generate_single_turn(
            self, prompts: Any, images: Any, fields: Any, generations: int
        ) -> Any:
            assert (images, fields, generations) == (None, {}, 1)
            return [[5, 1, 0, 0], [5, 6, 0], [], [0, 0]], None

    replies, logprobs = generate_turn(Trainer(), [[2]] * 4)
    assert replies == [[5, 1], [5, 6], [1], [0]] and logprobs is None


def test_log_probabilities_belong_to_the_tokens_that_are_left() -> None:
    class Trainer:
        class _tokenizer:
            pad_token_id, eos_token_id = 0, 1

        def _generate_single_turn(self, *_: Any) -> Any:
            return [[5, 1, 7], [5, 6], []], [[-0.1, -0.2, -0.3], [-0.4, -0.5], []]

    replies, logprobs = generate_turn(Trainer(), [[2]] * 3)
    assert replies == [[5, 1], [5, 6], [1]] and logprobs == [[-0.1, -0.2], [-0.4, -0.5], [None]]


@pytest.mark.parametrize(
    ("recipe", "environ", "gpu"),
    [
        ({"vllm": False}, {}, True),
        ({}, {}, False),
        ({}, {SERVER: "http://127.0.0.1:8000"}, True),
        ({"model": "tiny"}, {}, True),
    ],
)
def test_vllm_is_missed_only_where_it_would_generate(
    recipe: dict[str, Any], environ: dict[str, str], gpu: bool
) -> None:
    check_vllm(Recipe(**recipe), environ, gpu=gpu)
    for processes in ("1", "2"):  # several without a server are those of several machines
        with pytest.raises(InputError, match="has no vLLM") as refused:
            check_vllm(Recipe(), {"WORLD_SIZE": processes}, gpu=True)
        assert "--set vllm=false" in (refused.value.fix or "")


def test_what_is_not_generation_is_the_environments_time() -> None:
    watch = Stopwatch()
    for _ in range(2):
        with watch.generation():
            pass
    found = watch.seconds(batches=True)
    assert found["time/generation"] + found["time/tools"] == pytest.approx(found["time/rollouts"])
    assert 0 < found["time/generation"] < found["time/rollouts"]
    assert set(watch.seconds(batches=False)) == {"time/rollouts"}
