"""What a task expects, read and judged: against an oracle, and each mistake with its place."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudtui.core.environment.values import Analysis, ContentBlock, Tool, ToolResult
from hudtui.core.tasks.convert import convert
from hudtui.core.tasks.expectation import Seen, judge, reward_of, seen_answer
from hudtui.core.tasks.expectation_form import parts_of, read_parts
from hudtui.core.tasks.read import find_source, read_tasks
from hudtui.core.tasks.task import Task, task_record
from hudtui.core.tasks.validate import Rules, TaskChecker
from hudtui.core.tasks.write import Target

CALL = {"name": "read_text_file", "arguments": {"path": "words.txt"}}


def part(expect: Any, **more: Any) -> dict[str, Any]:
    return {"call": CALL, "expect": expect, **more}


def score(expect: Any, seen: Seen | str) -> float:
    parts, problems = read_parts([part(expect)])
    assert problems == []
    [judged] = judge(parts, [Seen(seen) if isinstance(seen, str) else seen])
    return judged.score


def answer(text: str = "", *, structured: Any = None, is_error: bool = False) -> Seen:
    blocks = (ContentBlock("text", text),) if text else ()
    return seen_answer(ToolResult(blocks, structured, is_error))


ERROR = answer("ENOENT: no file words.txt", is_error=True)


@pytest.mark.parametrize(
    ("expect", "seen", "held"),
    [
        ({"contains": "delta"}, "alpha\ndelta\n", 1),
        ({"contains": "Delta"}, "alpha\ndelta\n", 0),
        ({"equals": "delta"}, " delta\n", 1),
        ({"equals": "delta"}, "deltas", 0),
        ({"equals": {"a": 1}}, '{"a": 1.0}', 1),
        ({"equals": {"a": 1}}, '{"a": true}', 0),
        ({"equals": 42}, "42\n", 1),
        ({"equals": 42}, "it is 42", 0),
        ({"matches": "^d.lta$"}, "delta", 1),
        ({"matches": "(?m)^d.lta$"}, "alpha\ndelta\n", 1),
        ({"matches": "^d.lta$"}, "alpha\ndelta\n", 0),
        ({"number": 42}, "The answer is 42.", 1),
        ({"number": 42}, "42, or rather 41", 0),
        ({"number": 1234567.5}, "it holds $1,234,567.50 in all", 1),
        ({"number": 1.1, "tolerance": 0.1}, "1.0", 1),
        ({"number": 1.1, "tolerance": 0.1}, "0.9999999", 0),
        ({"number": 3}, "5-3", 1),
        ({"number": -3}, "5 -3", 1),
        ({"number": 1200}, "1.2e3", 1),
        ({"number": 3}, "no number, but word3", 0),
        ({"number": -5}, "The answer is \u22125.", 1),
        ({"number": 5}, "The answer is \u22125.", 0),
        ({"number": 1e-5}, "1e\u22125", 1),
        ({"number": 2}, "5\u22123 = 2", 1),
        ({"number": 1}, "1e99999", 0),
        ({"number": 1}, "1e99999999999999999999999", 0),
        ({"number": 1}, "1_000", 0),
        ({"number": 1000}, "1_000", 1),
        ({"number": 1234567}, "1\u202f234\u00a0567", 1),
        ({"number": 0}, "the colour is 0x2A", 0),
        ({"number": 2}, "\uff142", 0),
        ({"number": 42}, "\u7b54\u6848\u662f42", 1),
        ({"number": 42}, "42\u00b0C", 1),
        ({"least": 2, "most": 5}, "5", 1),
        ({"least": 2, "most": 5}, "5.01", 0),
        ({"json": {"path": "a[1].b", "equals": "x"}}, '{"a": [0, {"b": "x"}]}', 1),
        ({"json": {"path": "$.a[-1]", "number": 2}}, '{"a": [0, 2]}', 1),
        ({"json": {"path": '["a b"].c', "contains": "x"}}, '{"a b": {"c": ["x"]}}', 1),
        ({"json": {"path": "a", "contains": "x"}}, '{"a": ["xy"]}', 0),
        ({"json": {"path": "a", "contains": "x"}}, '{"a": {"x": 1}}', 1),
        ({"json": {"path": "a", "contains": "x"}}, '{"a": "xy"}', 1),
        ({"json": {"path": "b", "equals": None}}, '{"a": "xy"}', 0),
        ({"json": {"path": "a", "equals": None}}, '{"a": null}', 1),
        ({"json": {"path": "a", "not": {"equals": 1}}}, "no JSON", 0),
        ({"not": {"contains": "x"}}, "y", 1),
        ({"all": [{"contains": "x"}, {"contains": "y"}]}, "y", 0),
        ({"any": [{"contains": "x"}, {"contains": "y"}]}, "y", 1),
        ([{"contains": "x", "weight": 3}, {"contains": "y"}], "x", 0.75),
        ({"contains": "x", "not": {"contains": "y"}}, "xy", 0),
        ({"json": {"path": "a.n", "number": 2}}, answer("text", structured={"a": {"n": 2}}), 1),
        ({"json": {"path": "n", "number": 2}}, answer('{"n": 2}', structured={"result": "x"}), 1),
        ({"contains": "x"}, answer(structured={"result": "x"}), 1),
        ({"error": True}, ERROR, 1),
        ({"error": False}, ERROR, 0),
        ({"error": False}, "fine", 1),
        ({"error": True, "contains": "ENOENT"}, ERROR, 1),
        ({"error": True, "contains": "EPERM"}, ERROR, 0),
        ({"error": False, "contains": "words"}, ERROR, 0),
        ({"error": False, "not": {"contains": "words"}}, ERROR, 0),
        ([{"error": False}, {"contains": "words"}, {"not": {"contains": "x"}}], ERROR, 0),
        ({"any": [{"error": True}, {"contains": "gone"}]}, "gone", 1),
        ({"error": True, "not": {"error": False}}, ERROR, 1),
        ({"all": [{"error": True}, {"error": False}]}, ERROR, 0),
        ({"contains": "ENOENT", "all": [{"error": True}]}, ERROR, 1),
        ({"contains": "EPERM", "all": [{"error": True}]}, ERROR, 0),
        ({"contains": "ENOENT", "not": {"error": False}}, ERROR, 1),
        ({"error": True, "all": [{"error": True}, {"contains": "ENOENT"}]}, ERROR, 1),
        ({"error": True, "any": [{"error": True}, {"contains": "EPERM"}]}, ERROR, 1),
        ({"error": True, "any": [{"contains": "EPERM"}, {"contains": "ENOENT"}]}, ERROR, 1),
        ({"error": True, "all": [{"error": True}]}, "fine, no ENOENT", 0),
    ],
)
def test_an_expectation_holds_or_does_not(expect: Any, seen: Seen | str, held: float):
    assert score(expect, seen) == held


@pytest.mark.parametrize(
    ("field", "place", "said"),
    [
        (["x"], "evaluate[0]", "a part is an object"),
        ([{"expect": {}}], "evaluate[0]", "one of `call`, `reply`, `turns` and `judge`"),
        ([{"call": CALL, "reply": {}}], "evaluate[0]", "`call` and `reply`"),
        ([{"call": CALL}], "evaluate[0].expect", "required"),
        ([{"call": "read"}], "evaluate[0].call", "an object with `name`"),
        ([{"call": {"arguments": {}}}], "evaluate[0].call.name", "no name of a tool"),
        ([part({"contains": "x"}) | {"call": {"name": "a", "args": {}}}], "call.args", "arguments"),
        ({"name": "evaluate", "arguments": {}}, "evaluate", "`evaluate_tool`"),
        ([part({"judge": "nice?"})], "evaluate[0].expect.judge", "a part of its own"),
        ([part({})], "evaluate[0].expect", "nothing is expected"),
        ([part("x")], "evaluate[0].expect", '{"contains": "text"}'),
        ([part({"contain": "x"})], "evaluate[0].expect.contain", "did you mean 'contains'?"),
        ([part({"contains": ""})], "expect.contains", "the empty one"),
        ([part({"contains": 3})], "expect.contains", "text is needed"),
        ([part({"matches": "a(b"})], "expect.matches", "does not compile"),
        ([part({"matches": r"(a)\1"})], "expect.matches", "does not compile"),
        ([part({"matches": "a(?=b)"})], "expect.matches", "does not compile"),
        ([part({"matches": "x" * 3000})], "expect.matches", "3000 characters"),
        ([part({"matches": "x*"})], "expect.matches", "always hold"),
        ([part({"matches": "((a{500}){500}){500}"})], "expect.matches", "does not compile"),
        ([part({"number": "3"})], "expect.number", "a number is needed"),
        ([part({"number": True})], "expect.number", "a number is needed"),
        ([part({"number": float("nan")})], "expect.number", "no finite number"),
        ([part({"number": 1, "tolerance": -1})], "expect.tolerance", "negative"),
        ([part({"tolerance": 1})], "expect.tolerance", "belongs to a `number`"),
        ([part({"least": 3, "most": 2})], "evaluate[0].expect", "cannot hold"),
        ([part({"number": 3, "least": 4})], "evaluate[0].expect", "cannot hold"),
        ([part({"equals": "a", "contains": "b"})], "evaluate[0].expect", "cannot hold"),
        ([part({"equals": "1", "number": 2})], "evaluate[0].expect", "cannot hold"),
        ([part({"json": {"equals": 1}})], "expect.json.path", "required"),
        ([part({"json": {"path": "a"}})], "evaluate[0].expect.json", "nothing is expected"),
        ([part({"json": {"path": "a..b", "equals": 1}})], "expect.json.path", "character 2"),
        ([part({"json": {"path": "a[x]", "equals": 1}})], "expect.json.path", "character 2"),
        ([part({"json": {"path": "a[0]b", "equals": 1}})], "expect.json.path", "a dot is missing"),
        ([part({"json": {"path": "a", "error": True}})], "expect.json.error", "of the call"),
        ([part({"all": []})], "expect.all", "an empty list"),
        ([part([])], "evaluate[0].expect", "the list is empty"),
        ([part([{"contains": "x", "weight": 0}])], "evaluate[0].expect", "sum to 0"),
        ([part({"contains": "x", "weight": 1})], "expect.weight", "in a part"),
        ([part({"error": "yes"})], "expect.error", "true or false"),
        ([{"reply": {"error": True}}], "evaluate[0].reply.error", "never an error"),
        ([{"reply": {"contains": "x"}, "expect": {}}], "evaluate[0].expect", "in `reply` itself"),
        ([{"turns": {"contains": "x"}}], "evaluate[0].turns.contains", "turns are a number"),
        ([{"turns": {"number": 2.5}}], "evaluate[0].turns", "cannot hold"),
        ([{"turns": {"most": -1}}], "evaluate[0].turns", "cannot hold"),
        ([{"turns": {"least": 0}}], "evaluate[0].turns", "always holds"),
        ([{"turns": 5}], "evaluate[0].turns", '{"most": 5}'),
        ([part({"contains": "x"}, weight=-1)], "evaluate[0].weight", "negative"),
        ([part({"contains": "x"}, weight="1")], "evaluate[0].weight", "a number is needed"),
        ([part({"contains": "x"}, weight=0)], "evaluate", "sum to 0"),
        ([part({"contains": "x"}, name="reward")], "evaluate[0].name", "every rubric"),
        ([part({"contains": "x"}, name="step")], "evaluate[0].name", "every rubric"),
        ([part({"contains": "x"}, name="solved")], "evaluate[0].name", "every rubric"),
        ([part({"contains": "x"}, name="a"), part({"contains": "y"}, name="a")], "evaluate", "two"),
        ([part({"contains": "x"})] * 65, "evaluate", "64 is the most"),
    ],
)
def test_each_mistake_names_its_field_and_what_to_do(field: Any, place: str, said: str):
    _, problems = read_parts(field)
    [problem] = problems
    assert problem.severity == "error"
    assert (problem.field or "").endswith(place)
    assert said in problem.message


def judge_part(**more: Any) -> dict[str, Any]:
    """Return a part that a model judges."""
    return {"judge": {"rubric": "Is it polite?", "model": "m", **more}}


SECURE = "https://judge.test/v1"
DOUBLED = {"call": CALL, **judge_part()}


@pytest.mark.parametrize(
    ("field", "place", "said"),
    [
        ({"judge": "nice?"}, "judge", "an object is needed"),
        (judge_part(url="x"), "judge.url", "it has rubric, model"),
        (judge_part(rubrik="x"), "judge.rubrik", "did you mean 'rubric'?"),
        ({"judge": {"model": "m"}}, "judge.rubric", "required"),
        (judge_part(rubric="  "), "judge.rubric", "empty"),
        (judge_part(rubric="x" * 9000), "judge.rubric", "9000 characters"),
        ({"judge": {"rubric": "x"}}, "judge.model", "required"),
        (judge_part(model=3), "judge.model", "text is needed"),
        (judge_part(model="a\nb"), "judge.model", "on one line"),
        (judge_part(endpoint="judge.test"), "judge.endpoint", "no address"),
        (judge_part(endpoint="ftp://judge.test"), "judge.endpoint", "no address"),
        (judge_part(endpoint="file:///etc/passwd"), "judge.endpoint", "no address"),
        (judge_part(endpoint="${MY_JUDGE}"), "judge.endpoint", "without variables"),
        (judge_part(endpoint=7), "judge.endpoint", "no address"),
        (judge_part(endpoint="https://u:p@judge.test/v1"), "judge.endpoint", "name or password"),
        (judge_part(endpoint=f"{SECURE}?key=abc"), "judge.endpoint", "ends with its path"),
        (judge_part(endpoint=SECURE), "judge.key", "required beside an https"),
        (judge_part(endpoint=SECURE, key="sk-abc"), "judge.key", "never in a task"),
        (judge_part(endpoint="http://judge.test/v1", key="K"), "judge.key", "in the clear"),
        (judge_part(of="thoughts"), "judge.of", "is shown"),
        (judge_part(of={"reply": {}}), "judge.of.reply", "it has call"),
        (judge_part(of={"call": {"arguments": {}}}), "judge.of.call.name", "no name"),
        (judge_part(price=3), "judge.price", "an object"),
        (judge_part(price={"input": 1}), "judge.price.output", "required"),
        (judge_part(price={"input": -1, "output": 1}), "judge.price.input", "negative"),
        (judge_part(price={"input": 1, "output": float("inf")}), "judge.price.output", "finite"),
        ({**judge_part(), "expect": {}}, "expect", "in `judge` itself"),
        (DOUBLED, "evaluate[0]", "`call` and `judge`"),
        ({**judge_part(), "weight": -1}, "weight", "negative"),
    ],
)
def test_each_mistake_of_a_judge_names_its_field(field: Any, place: str, said: str):
    [problem] = read_parts([field])[1]
    assert problem.severity == "error"
    assert (problem.field or "").endswith(place)
    assert said in problem.message
    assert "sk-abc" not in problem.message


def test_a_judge_is_read_and_said_in_words():
    call = {"name": "read", "arguments": {"path": "a.txt"}}
    given = [
        judge_part(),
        judge_part(of="transcript", endpoint=SECURE, key="MY_KEY"),
        judge_part(of={"call": call}, endpoint="http://127.0.0.1:8000/v1"),
        judge_part(price={"input": 0.4, "output": 2}, endpoint="http://10.0.0.5/v1"),
    ]
    parts, problems = read_parts(given)
    assert not problems
    assert [part.name for part in parts] == ["judge", "judge_2", "judge_3", "judge_4"]
    assert [part.words() for part in parts] == [
        "judge: Is it polite?",
        "judge of the transcript: Is it polite?",
        "judge of read(a.txt): Is it polite?",
        "judge: Is it polite?",
    ]
    assert parts[1].judge is not None and parts[1].judge.key == "MY_KEY"
    assert parts[2].call is not None and parts[2].call.name == "read"
    assert parts[3].judge is not None and parts[3].judge.price == (0.4, 2.0)


def test_nesting_has_an_end():
    deep: Any = {"contains": "x"}
    for _ in range(200):
        deep = {"not": deep}
    _, [problem] = read_parts([part(deep)])
    assert "deep" in problem.message
    value: Any = []
    for _ in range(900):
        value = [value]
    for field in (
        {"equals": value},
        {"equals": {"a": value}},
        {"json": {"path": "a", "contains": value}},
    ):
        _, [problem] = read_parts([part(field)])
        assert "nested more than 64 deep" in problem.message
    assert score({"equals": [[["x"]]]}, '[[["x"]]]') == 1
    wide = [part({"any": [{"contains": "x"}] * 600})]
    assert "more than 500" in read_parts(wide)[1][0].message


@pytest.mark.parametrize("pattern", ["(a|a)*!b", "(a*)*b", "^(.*a){20}$", "(x+x+)+y"])
def test_a_hostile_pattern_is_looked_for_in_linear_time(pattern: str):
    assert score({"matches": f"{pattern}|zzz"}, "a" * 1_000_000 + "!zzz") == 1


@pytest.mark.parametrize(
    "text", ["1," * 500_000, "1,111" * 200_000, "[" * 1_000_000, "9" * 1_000_000, "1e" * 500_000]
)
def test_a_long_answer_is_judged_whatever_it_is(text: str):
    assert score({"number": -7}, text) == 0
    assert score({"equals": {"a": 1}}, text) == 0
    assert score({"json": {"path": "a", "equals": 1}}, text) == 0
    assert score({"contains": "nowhere"}, text) == 0


def test_parts_have_names_and_words():
    parts, problems = read_parts(
        [
            part({"contains": "delta"}, weight=0.6),
            part({"contains": "echo"}, weight=0.2),
            {"reply": {"number": 3, "tolerance": 0.5}, "name": "said"},
            {"turns": {"most": 5}, "weight": 0},
        ]
    )
    assert problems == []
    assert [one.name for one in parts] == ["read_text_file", "read_text_file_2", "said", "length"]
    seen = [Seen("alpha delta"), Seen("alpha delta"), Seen("It is 3.2"), Seen("9")]
    judged = judge(parts, seen)
    assert [one.line() for one in judged] == [
        "✓ read_text_file(words.txt) contains delta (0.6)",
        "✗ read_text_file(words.txt) contains echo (0 of 0.2): alpha delta",
        "✓ the last reply is 3 ± 0.5 (1)",
        "✗ the number of turns is at most 5 (0 of 0): 9",
    ]
    assert reward_of(judged) == pytest.approx(1.6 / 1.8)


def test_a_tool_called_like_a_column_of_the_metrics_gives_its_part_another_name():
    calls = [{"call": {"name": name}, "expect": {"contains": "x"}} for name in ("step", "time")]
    assert [one.name for one in read_parts(calls)[0]] == ["step_2", "time_2"]


def test_control_sequences_stay_out_of_the_words():
    parts, _ = read_parts([part({"contains": "\x1b[31mred"})])
    [judged] = judge(parts, [Seen("\x1b]0;title\x07plain")])
    assert "\x1b" not in judged.line() and "\x07" not in judged.line()


def test_a_task_made_by_hand_says_what_is_wrong():
    assert parts_of(Task("t", "p")) == ()
    task = Task("t", "p", extra={"evaluate": [{"reply": {"contains": "x"}}]})
    assert len(parts_of(task)) == 1
    assert parts_of(Task("t", "p", extra=task_record(task))) == parts_of(task)
    with pytest.raises(Exception, match=r"evaluate\[0\]\.reply"):
        parts_of(Task("t", "p", extra={"evaluate": [{"reply": {}}]}))


# -- the oracle: the same meaning, written as a plain function over the form
# --------------------------------------------------------------------------------------------------

WORDS = ("alpha", "delta", "7", "42", "3.5", "x")
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
simple = st.one_of(
    texts.map(lambda text: {"contains": text}),
    texts.map(lambda text: {"equals": text}),
    st.sampled_from(["^alpha", "[0-9]+$", "delta|x", r"\d\.\d"]).map(lambda p: {"matches": p}),
    st.tuples(st.sampled_from([7, 42, 3.5, -1]), st.sampled_from([0, 0.5, 40])).map(
        lambda pair: {"number": pair[0], "tolerance": pair[1]}
    ),
    st.sampled_from([3, 7, 40.5]).map(lambda number: {"least": number}),
    st.sampled_from([3, 7, 40.5]).map(lambda number: {"most": number}),
    st.booleans().map(lambda value: {"error": value}),
)
WEIGHTS = st.sampled_from([0.25, 1, 3])


def _deeper(inner: Any) -> Any:
    several = st.lists(inner, min_size=1, max_size=3)
    weighted = st.lists(st.tuples(inner, WEIGHTS), min_size=1, max_size=3).map(
        lambda pairs: [
            {**one, "weight": weight} if isinstance(one, dict) else one for one, weight in pairs
        ]
    )
    return st.one_of(
        several.map(lambda many: {"all": many}),
        several.map(lambda many: {"any": many}),
        inner.map(lambda one: {"not": one}),
        weighted,
    )


expects = st.recursive(simple, _deeper, max_leaves=4)


def names_error(expect: Any) -> bool:
    return '"error"' in json.dumps(expect)


def wants_error(expect: Any) -> bool:
    if expect in ({"error": True}, {"not": {"error": False}}):
        return True
    return isinstance(expect, dict) and any(map(wants_error, expect.get("all", ())))


def oracle(expect: Any, text: str, *, is_error: bool) -> Fraction:
    """The score of an expectation, without the code under test."""
    if isinstance(expect, list):
        weights = [Fraction(one.get("weight", 1) if isinstance(one, dict) else 1) for one in expect]
        plain = [
            {key: item for key, item in one.items() if key != "weight"}
            if isinstance(one, dict)
            else one
            for one in expect
        ]
        scores = [oracle(one, text, is_error=is_error) for one in plain]
        return sum(w * s for w, s in zip(weights, scores, strict=True)) / sum(weights)
    [(name, value), *_] = expect.items()
    if name == "all":
        wanted = is_error and wants_error(expect)
        return min(
            oracle(one, text, is_error=is_error and (names_error(one) or not wanted))
            for one in value
        )
    if name == "any":
        return max(oracle(one, text, is_error=is_error) for one in value)
    if name == "not":
        if is_error and not names_error(value):
            return Fraction(0)
        return 1 - oracle(value, text, is_error=is_error)
    if name == "error":
        return Fraction(is_error == value)
    if is_error:
        return Fraction(0)
    if name == "contains":
        return Fraction(value in text)
    if name == "equals":
        return Fraction(text.strip() == value)
    if name == "matches":
        return Fraction(re.search(value, text) is not None)
    numbers = [Fraction(word) for word in text.split() if re.fullmatch(r"[0-9.]+", word)]
    if not numbers:
        return Fraction(0)
    if name == "number":
        near = abs(numbers[-1] - Fraction(value)) <= Fraction(expect["tolerance"])
        return Fraction(near)
    return Fraction(numbers[-1] >= value if name == "least" else numbers[-1] <= value)


@settings(max_examples=1_000, deadline=None, derandomize=True)
@given(expects, texts, st.booleans(), st.lists(WEIGHTS, min_size=2, max_size=2))
def test_a_thousand_expectations_are_judged_as_plain_python_judges_them(
    expect: Any, text: str, is_error: bool, weights: list[float]
):
    parts, problems = read_parts(
        [part(expect, weight=weights[0]), part({"error": is_error}, weight=weights[1])]
    )
    assert problems == []
    judged = judge(parts, [Seen(text, is_error=is_error)] * 2)
    wanted = oracle(expect, text, is_error=is_error)
    assert judged[0].score == pytest.approx(float(wanted), abs=1e-12)
    if wanted in (0, 1):
        assert judged[0].score == wanted
    mean = (Fraction(weights[0]) * wanted + Fraction(weights[1])) / sum(map(Fraction, weights))
    assert reward_of(judged) == pytest.approx(float(mean), abs=1e-12)
    assert 0 <= reward_of(judged) <= 1
    assert parts[0].condition.judges_errors == names_error(expect)


# -- in task files and datasets
# --------------------------------------------------------------------------------------------------

EVALUATE = [
    part({"json": {"path": "a", "equals": None}}, weight=0.5),
    {"reply": {"any": [{"contains": "déjà"}, {"number": 3, "tolerance": 0.5}]}, "name": "said"},
    {"judge": {"rubric": "Höflich?\n1: ja", "model": "m", "of": {"call": CALL}}, "weight": 0.25},
]


@pytest.mark.parametrize("name", ["set.parquet", "set.jsonl", "set.json"])
def test_a_dataset_keeps_what_a_task_expects(name: str, task: Any, write: Any, tmp_path: Path):
    file = write("tasks.json", task(evaluate_tool=..., evaluate=EVALUATE), task(id="other"))
    form: Any = name.partition(".")[2]
    list(convert(find_source(file), Rules(), (Target(made := tmp_path / name, form),)))
    first, other = read_tasks(made).tasks
    assert first.extra["evaluate"] == EVALUATE and first.judged and not first.evaluate
    assert parts_of(first) == read_parts(EVALUATE)[0]
    assert other.judged and parts_of(other) == ()
    if name.endswith(".parquet"):
        columns = pq.read_table(made).to_pydict()
        assert json.loads(columns["evaluate"][0]) == EVALUATE
        assert columns["evaluate_tool"][0] == "{}" and columns["evaluate"][1] is None


def test_a_column_of_text_is_read_as_data(task: Any, write: Any):
    file = write("tasks.jsonl", task(evaluate_tool="{}", evaluate=json.dumps(EVALUATE)))
    [one] = read_tasks(file).tasks
    assert one.extra["evaluate"] == EVALUATE


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"evaluate": [part({"matches": "("})]}, "evaluate[0].expect.matches", "compile"),
        ({"evaluate": "[{"}, "evaluate", "not JSON"),
        ({"evaluate": EVALUATE, "evaluate_tool": {"name": "e"}}, "evaluate", "keep one"),
        ({"evaluate": []}, "evaluate_tool", "required"),
    ],
)
def test_problems_stand_in_the_list_of_a_file(
    task: Any, write: Any, changes: Any, field: str, said: str
):
    record = task(evaluate_tool=...) | changes
    checked = TaskChecker(Rules(own_reward=False)).check(record)
    assert [(one.field, said in one.message) for one in checked.problems] == [(field, True)]
    assert not checked.usable


def test_calls_are_checked_against_the_environment(task: Any):
    tool = Tool("read_text_file", "", {"type": "object", "required": ["path"]})
    rules = Rules(analysis=Analysis("env", tools=(tool,)))
    unknown = {"call": {"name": "read_txt_file"}, "expect": {"contains": "x"}}
    bare = {"call": {"name": "read_text_file"}, "expect": {"contains": "x"}}
    record = task(evaluate_tool=..., setup_tool=..., evaluate=[unknown, bare])
    problems = TaskChecker(rules).check(record).problems
    assert [problem.field for problem in problems] == [
        "evaluate[0].call.name",
        "evaluate[1].call.arguments",
    ]
    assert "did you mean 'read_text_file'?" in problems[0].message
