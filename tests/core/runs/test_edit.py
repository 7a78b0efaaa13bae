"""What a user writes on runs, and how their settings differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hudtui.core.errors import InputError, RunError
from hudtui.core.row_filter import arrange
from hudtui.core.runs.event_text import event_text
from hudtui.core.runs.listing import RUN_FIELDS, RunRow
from hudtui.core.runs.plan_text import plan_json, plan_lines, without_hidden_variables
from hudtui.core.runs.run_settings import Difference, RunSetting, differences, settings_of
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.plan import FileRef, PlanFile, Site, Stage
from hudtui.core.training.setup import environment_folder, python_environment

Make = Callable[..., RunRecord]


def test_a_name_and_a_comment_are_kept(store: RunStore, make: Make) -> None:
    record = make(run="a-1")
    store.add(record)
    before = store.summary("a-1").updated
    store.rename("a-1", "  larger batch ")
    store.comment("a-1", "reward flat\nsince step 40")
    summary = RunStore(store.state_dir).summary("a-1")
    assert (summary.name, summary.comment) == ("larger batch", "reward flat\nsince step 40")
    assert summary.updated == before, "a name is no sign of life"
    assert store.find("larger batch") == "a-1"
    again = store.record("a-1")
    assert again.name == "larger batch" and (again.id, again.folder, again.own) == (
        record.id,
        record.folder,
        record.own,
    )
    store.comment("a-1", " ")
    assert store.summary("a-1").comment == ""


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\x1b[31m", "a\nb"])
def test_what_is_no_name_is_refused(store: RunStore, make: Make, name: str) -> None:
    store.add(make(run="a-1"))
    with pytest.raises(InputError, match="not a valid name for a run"):
        store.rename("a-1", name)
    with pytest.raises(InputError, match="2,001 characters"):
        store.comment("a-1", "x" * 2001)
    assert len(store.events("a-1")) == 1


def test_tags_are_given_and_taken_together(store: RunStore, make: Make) -> None:
    for run in ("a-1", "b-2"):
        store.add(make(run=run))
    store.tag(["a-1", "b-2"], add=["paper", "lr=1e-5"])
    store.tag(["b-2"], add=["flat"], remove=["paper", "never-given"])
    assert [run.tags for run in RunStore(store.state_dir).runs()] == [
        ("lr=1e-5", "paper"),
        ("flat", "lr=1e-5"),
    ]
    rows = [RunRow(run, now=0.0) for run in store.runs()]
    assert [row.summary.id for row in arrange(rows, RUN_FIELDS, wanted="tag:paper")] == ["a-1"]
    assert [row.summary.id for row in arrange(rows, RUN_FIELDS, wanted="-tag:paper")] == ["b-2"]
    assert [event_text(event) for event in store.events("b-2")][1:] == [
        "the tags are changed: +lr=1e-5 +paper",
        "the tags are changed: +flat -never-given -paper",
    ]
    count = len(store.events("a-1"))
    for wrong in (
        ["two words"],
        [""],
        ["-x"],
        ["x" * 41],
        ["a\x1b[31m"],
        [f"t{n}" for n in range(20)],
    ):
        with pytest.raises(InputError, match=r"not a tag|at most 20 tags"):
            store.tag(["b-2", "a-1"], add=wrong)
    with pytest.raises(RunError, match="no run"):
        store.tag(["a-1", "none"], add=["x"])
    assert len(store.events("a-1")) == count


def test_only_runs_that_are_over_are_hidden(store: RunStore, make: Make) -> None:
    for run in ("a-1", "b-2"):
        store.add(make(run=run))
    store.append("a-1", "stopped", {"why": "on request"})
    with pytest.raises(RunError, match="run b-2 is not archived: the run has not ended: planned"):
        store.archive(["a-1", "b-2"])
    assert not store.summary("a-1").archived, "all of the runs, or none"
    store.append("b-2", "machine", {"kind": "created", "hourly": 2.0})
    store.append("b-2", "failed", {"why": "no contact"})
    with pytest.raises(RunError, match="its machine may still be there"):
        store.archive(["b-2"])
    store.archive(["a-1"])
    assert store.summary("a-1").hidden and store.summary("a-1").updated == store.events("a-1")[1].at
    store.archive(["a-1"], undo=True)
    assert not store.summary("a-1").hidden
    store.archive(["a-1"])
    store.mirror("a-1", [{"seq": 1, "at": 5.0, "type": "started", "data": {"mode": "tmux"}}])
    assert store.summary("a-1").archived and not store.summary("a-1").hidden, (
        "it is in progress again"
    )


def spec(record: RunRecord, **changes: Any) -> RunRecord:
    return replace(record, spec=replace(record.spec, **changes))


def test_settings_that_differ(make: Make) -> None:
    first = spec(make(run="a-1"), training={"rate": 1e-6, "steps": 200}, seed=1)
    second = spec(
        make(run="b-2"),
        training={"rate": 1e-5, "steps": 200},
        seed=1,
        name="other",
        workspace="/elsewhere",
    )
    assert differences([first, second]) == (Difference("training.rate", (1e-6, 1e-5)),)
    assert differences([first, first]) == ()
    assert (
        differences(
            [spec(first, engine="rollouts", gpus=1), spec(first, engine="rollouts", gpus=2)]
        )
        == ()
    )
    assert differences([spec(first, engine="trl", gpus=1), spec(first, engine="trl", gpus=2)]) == (
        Difference("gpus", (1, 2)),
    )
    third = spec(make(run="c-3"), training={"steps": 200}, seed=1)
    (one,) = differences([first, second, third])
    assert one.values == (1e-6, 1e-5, None) and one.texts == ("1e-06", "1e-05", "-")


def test_a_file_differs_by_its_content(make: Make) -> None:
    here, there = FileRef("/a/tasks.json", 10, "a" * 64), FileRef("/b/tasks.json", 10, "a" * 64)
    changed = FileRef("/a/tasks.json", 12, "b" * 64)
    first = spec(make(run="a-1"), tasks=here)
    assert differences([first, spec(first, tasks=there)]) == ()
    found = differences([first, spec(first, tasks=changed)])
    assert [one.field for one in found] == ["tasks.size", "tasks.sha256"]
    assert found[0].texts == ("10 B", "12 B") and found[1].texts == ("a" * 12, "b" * 12)
    large, larger = (
        FileRef("/a/tasks.json", 5 * 2**20, "a" * 64),
        FileRef("/a/tasks.json", 5 * 2**20 + 1, "b" * 64),
    )
    (size, _) = differences([spec(first, tasks=large), spec(first, tasks=larger)])
    assert size.texts == ("5242880", "5242881"), "with units they look the same"


def test_sizes_have_units(make: Make) -> None:
    record = spec(
        make(run="a-1"),
        engine="trl",
        gpus=1,
        gpu_memory=44.5,
        tasks=FileRef("/a/tasks.json", 2048, "a" * 64),
    )
    found = by_name(record)
    assert (found["tasks.size"].text, found["tasks.size"].told) == ("2.0 KiB", "2.0 KiB")
    assert found["tasks.size"].to_json()["value"] == 2048
    assert found["gpu_memory"].text == "44.5 GiB" and found["gpu_memory"].to_json()["value"] == 44.5


def by_name(record: RunRecord) -> dict[str, RunSetting]:
    return {one.name: one for one in settings_of(record)}


def test_a_training_has_every_setting_of_its_trainer(make: Make) -> None:
    training = {"learning_rate": 2e-5, "num_generations": 16}
    record = spec(
        make(run="a-1"), engine="trl", model="org/Big-7B", steps=40, training=training, seed=0
    )
    found = by_name(record)
    assert (
        found["model"].shown == "org/Big-7B"
        and found["model"].changed
        and found["model"].group == "model"
    )
    rate = found["training.learning_rate"]
    assert (rate.shown, rate.default, rate.label, rate.group) == (
        2e-5,
        5e-6,
        "learning_rate",
        "trainer",
    )
    assert rate.told == "2e-05 (default 5e-06)"
    assert found["training.steps"].changed and found["training.steps"].about == "Training steps."
    same = found["training.num_generations"]
    assert same.shown == 16 and not same.changed and same.told == "16", (
        "what is set to the default is not changed"
    )
    assert found["training.loss_type"].shown == "dr_grpo" and "training.ruler" not in found
    assert "policy" not in found and "steps" not in found and "limits.run_budget" not in found
    groups = [one.group for one in settings_of(record)]
    assert groups == sorted(groups, key=list(dict.fromkeys(groups)).index), "group by group"
    rehearsal = by_name(spec(record, model=None, steps=None, training={}, rehearse=True))
    assert not [name for name, one in rehearsal.items() if one.changed], (
        "its own defaults are those of a rehearsal"
    )
    assert rehearsal["model"].shown == "tiny"


def test_the_recipe_in_the_plan_counts(make: Make) -> None:
    """What hudtui's defaults were when the run was planned is in its plan."""
    record = spec(make(run="a-1"), engine="trl")
    recipe = PlanFile("files/recipe.json", content='{"steps": 77, "temperature": 0.5}')
    planned = replace(record, plan=replace(record.plan, files=(recipe,)))
    assert by_name(planned)["training.steps"].shown == 77
    assert [one.field for one in differences([record, planned])] == [
        "training.steps",
        "training.temperature",
    ]
    later = replace(
        record,
        plan=replace(record.plan, files=(PlanFile("files/recipe.json", content='{"of_2030": 1}'),)),
    )
    assert "training.steps" not in by_name(later), "what is not understood is not guessed"


def test_rollouts_have_the_settings_of_rollouts(make: Make) -> None:
    found = by_name(spec(make(run="a-1"), policy="openai:big", group=8))
    assert (
        found["group"].changed and found["group"].default == 1 and not found["concurrency"].changed
    )
    assert not {"training.steps", "steps", "model", "gpus"} & set(found)


def test_no_secret_is_shown(make: Make) -> None:
    variables = {
        "HUD_CLIENT_TIMEOUT": "90",
        "OPENAI_BASE_URL": "https://me:hunter2@host/v1?api_key=hunter2",
        "MY_DSN": "hunter2",
    }
    address = "https://me:hunter2@host/v1"
    asked = {"base_url": address, "name": "one"}
    record = spec(
        make(run="a-1"), variables=variables, secrets=("MY_TOKEN",), base_url=address, asked=asked
    )
    found = by_name(record)
    assert (
        found["variables.HUD_CLIENT_TIMEOUT"].shown == "90"
        and "//••••@host/v1" in found["base_url"].text
    )
    assert found["variables.MY_DSN"].shown == "••••" and found["secrets"].text == '["MY_TOKEN"]'
    other = spec(
        record, variables={**variables, "MY_DSN": "hunter3"}, asked=asked | {"name": "two"}
    )
    assert differences([record, other]) == (Difference("variables.MY_DSN", ("••••", "••••")),)
    told = [one.to_json() for one in found.values()] + [
        repr(found),
        repr(differences([record, other])),
    ]
    assert "hunter" not in str(told)


def test_a_plan_shows_no_variable_that_the_settings_mask(make: Make, store: RunStore) -> None:
    variables = {
        "HUD_CLIENT_TIMEOUT": "90",
        "OPENAI_BASE_URL": "https://me:hunter2@host/v1?api_key=hunter2",
        "MY_DSN": "hunter2",
    }
    record = spec(make(run="a-1"), variables=variables, base_url="https://me:hunter2@host/v1")
    argv = ("hudtui", "eval", "--base-url", "https://me:hunter2@host/v1")
    stage = Stage("play", argv, env={**variables, "PYTHONUNBUFFERED": "1"}, secrets=("MY_TOKEN",))
    record = replace(record, plan=replace(record.plan, stages=(stage,)))
    lines = " ".join(line.text for line in plan_lines(record, store))
    (told,) = plan_json(record)["stages"]
    for text in (lines, str(told)):
        assert "hunter" not in text and "MY_DSN" in text and "••••" in text and "MY_TOKEN" in text
    assert (
        "HUD_CLIENT_TIMEOUT=90" in lines
        and "PYTHONUNBUFFERED=1" in lines
        and "//••••@host/v1" in lines
    )
    assert told["env"]["MY_DSN"] == "••••" and told["env"]["HUD_CLIENT_TIMEOUT"] == "90"
    assert record.plan.stages[0].env["MY_DSN"] == "hunter2", "the run itself has it"
    (printed,) = without_hidden_variables(record.plan, record.spec).stages
    assert printed.env == {"HUD_CLIENT_TIMEOUT": "90", "PYTHONUNBUFFERED": "1"}
    assert printed.secrets == ("MY_TOKEN", "OPENAI_BASE_URL", "MY_DSN")


def test_versions_are_those_of_the_lock_that_the_plan_installs(make: Make) -> None:
    record = spec(make(run="a-1"), engine="trl")
    site = Site("/run", ("python3",), environments="/envs", package="/hudtui")

    def planned(folder: str) -> RunRecord:
        _, stages, files = python_environment(record.spec, site, "train", [])
        argv = tuple(folder if word.startswith("/envs/") else word for word in stages[0].argv)
        return replace(
            record,
            plan=replace(record.plan, stages=(replace(stages[0], argv=argv),), files=tuple(files)),
        )

    found = by_name(planned(environment_folder("/envs", "train")))
    assert {"versions.torch", "versions.trl", "versions.vllm"} <= set(found) and found[
        "versions.trl"
    ].shown[0].isdigit()
    assert "versions.trl" not in by_name(planned("/envs/train-00000000")), (
        "the lock of another hudtui"
    )
