"""A reply in each dialect becomes the call that it makes, or a refusal; never another call, and
never one from a thought."""

from __future__ import annotations

import json
import random
import time

import pytest
from support.dialect_corpus import CONFIG, TOOLS, WRITERS, any_spoken, meant

from hudtui.core.environment.values import Analysis
from hudtui.core.gym.config import parse_config
from hudtui.core.gym.dialects.known import DIALECTS, PARALLEL, other_dialect
from hudtui.core.gym.dialects.native import message_text
from hudtui.core.gym.dialects.objects import decode
from hudtui.core.gym.generate import render, usable_draft
from hudtui.core.gym.interpreter import Interpreter
from hudtui.core.gym.lint.check import lint
from hudtui.core.gym.reply import Call, ParseFailure

MARKED = [name for name in DIALECTS if name != "text"]


def config_of(dialect, thinking="false", parallel="first"):
    config, findings = parse_config(CONFIG % (thinking, dialect, parallel), name="c.yaml")
    assert config is not None and not findings
    return config


def interpreter(dialect, **settings):
    return Interpreter(config_of(dialect, **settings), TOOLS)


def hermes(name, arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def check(dialect, spoken, inner):
    meaning = inner.interpret(spoken.text)
    call = meaning.to_json()["call"]
    if call is None:
        assert meaning.error is not None or meaning.done, spoken
        return False
    assert spoken.calls, spoken  # none is played from a thought
    assert call == meant(spoken.calls[0]), spoken
    return True


@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize("read_as", ["own", "auto"])
def test_generated_replies_mean_their_call_or_nothing(dialect, read_as):
    choice = random.Random(f"{dialect} {read_as}")
    inner = interpreter(dialect if read_as == "own" else "auto")
    plain = lost = 0
    for _ in range(1_500):
        spoken = any_spoken(choice, dialect)
        played = check(dialect, spoken, inner)
        if spoken.kind == "one" and "think>" not in spoken.text and "think\\u" not in spoken.text:
            plain, lost = plain + 1, lost + (not played)
    assert plain > 50 and lost == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_dialect_writes_it_reads(dialect):
    declared = DIALECTS[dialect]
    arguments = {"a": "</think></tool_call><tool>`` ```<|call|>\n", "b": [1, {"x": None}], "c": 0.5}
    reply = f"{declared.think('I </think> see')}\n{declared.write('put', arguments)}"
    parts, calls, ends = declared.read(reply, True)
    assert calls == (Call("put", (), arguments, calls[0].columns),) and not ends
    assert parts.tags and parts.think and "see" in parts.think
    assert reply[parts.tool_start :].startswith(parts.tool)


CALL = {"a": 1}
IN_THOUGHT = [
    "<think>{}</think>",
    "<think>{}",
    "so {} it is</think>",
    "<think>x</think>\n<think>{}",
    "<think>x</think>\n<think>{}</think>",
]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("form", IN_THOUGHT)
def test_a_call_in_a_thought_is_not_played(dialect, form):
    declared = DIALECTS[dialect]
    meaning = interpreter(dialect).interpret(form.format(declared.write("put", CALL)))
    assert meaning.call is None and not meaning.done and meaning.error.stage == "tags"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_open_thought_is_named(dialect):
    meaning = interpreter(dialect).interpret("<think>I wonder")
    assert "<think> tag is not closed" in meaning.error.message


def test_harmony_thinks_in_its_own_channel():
    call = DIALECTS["harmony"].write("put", CALL)
    thought = call.replace("commentary", "analysis")
    inner = interpreter("harmony")
    assert "analysis" in inner.interpret(thought).error.message
    both = inner.interpret(f"{thought}<|start|>assistant{call}")
    assert both.call.arguments["a"] == 1
    cut = inner.interpret("<|channel|>analysis<|message|>I wonder")
    assert "has no end" in cut.error.message


FORMS = [
    "[TOOL_CALLS] [" + json.dumps({"name": "put", "arguments": CALL}) + "]",
    "[TOOL_CALLS]put" + json.dumps(CALL),
    "[TOOL_CALLS]put[ARGS]" + json.dumps(CALL),
    json.dumps({"name": "put", "parameters": CALL}),
    "<|python_tag|>" + json.dumps({"type": "function", "name": "put", "parameters": CALL}),
    json.dumps([{"name": "put", "arguments": json.dumps(CALL)}]),
    DIALECTS["harmony"].write("put", CALL),
    hermes("put", CALL),
]


@pytest.mark.parametrize("form", FORMS)
def test_native_reads_the_forms_of_templates(form):
    for said in (form, f"<think>x</think>\n{form}"):
        assert interpreter("native").interpret(said).call.arguments["a"] == 1


@pytest.mark.parametrize("said", ["I am done.", "", '{"answer": 3}', "<think>x</think> Done."])
def test_a_native_reply_without_a_call_ends_the_episode(said):
    meaning = interpreter("native").interpret(said)
    assert meaning.done and meaning.error is None and tuple(meaning.format) == (1, 1)


_NEXT = "<|start|>assistant"
_FINAL = "<|channel|>final<|message|>All is done."
_TO_PUT = "commentary to=functions.put<|message|>{}<|call|>"
NO_END = [
    ("native", "Now I go. <", "cut off"),
    ("native", "Now I go. [TOOL", "cut off"),
    ("native", "The door is to the left. </thi", "cut off"),
    ("native", "<thi", "cut off"),
    ("native", "I go.<|start|>assistant to=functions.pu", "can be read"),
    ("native", '{"name": "put", "argum', "cut off"),
    ("native", '[{"name": "put", "arguments": {"a"', "no JSON"),
    ("native", 'I go.\n```json\n{"name": "put", "arguments": {"a": 1}}\n```', "can be read"),
    ("native", "I go. <tool>put(1)</tool>", "can be read"),
    ("native", '<function=put>{"a": 1}</function>', "can be read"),
    ("native", "<|tool_call|>[put(a=1)]", "can be read"),
    ("native", "<\uff5ctool\u2581calls\u2581begin\uff5c>put", "can be read"),
    ("native", f"<think>{hermes('put', CALL)}</think> I am done.", "in the thought"),
    ("native", f"Well. <think>{hermes('put', {'a': '<think>x'})}</think>\n", "in the thought"),
    ("native", f"{hermes('put', {'a': '<think>x'})} </think>\nDone.", "in the thought"),
    ("native", f"<think>x</think> So <think>{hermes('put', CALL)}</think> done.", "in the thought"),
    *(
        (dialect, said, "")
        for dialect in ("native", "harmony", "auto")
        for said in (
            f"{_FINAL}<|end|><|start|>assistant<|channel|>commentary to=functions.pu",
            f"{_FINAL}<|end|><|start|>assistant to=functions.put<|chan",
            f"{_FINAL} Now <|channel|>{_TO_PUT}",
            f"<|channel|>analysis<|message|>I call <|channel|>{_TO_PUT}{_NEXT}{_FINAL}",
            f"<|channel|>analysis to=functions.put<|message|>{{}}<|call|>{_NEXT}{_FINAL}",
            f"<think><|channel|>{_TO_PUT}</think>{_FINAL}",
            f"{_FINAL} <tool_call",
        )
    ),
]


@pytest.mark.parametrize(("dialect", "said", "why"), NO_END)
def test_a_reply_with_a_hidden_or_a_cut_call_does_not_end_the_episode(dialect, said, why):
    meaning = interpreter(dialect).interpret(said)
    assert not meaning.done and meaning.call is None
    assert why in meaning.error.message


def test_a_final_message_of_harmony_ends_the_episode():
    thought = "<|channel|>analysis<|message|>I see.<|end|><|start|>assistant"
    for dialect in ("native", "harmony"):
        assert interpreter(dialect).interpret(f"{thought}{_FINAL}<|return|>").done


INSIDE = [
    ("native", '{"name": "put", "arguments": {"a": "<|channel|>commentary to=functions.twice'
     '<|message|>{}<|call|>", bad}}'),
    ("auto", '```json\n{"name": "put", "arguments": {"a": "<tool>twice(1)</tool>"'),
    ("auto", '{"name": "put", "arguments": {"a": "<tool>twice(1)</tool>"'),
    ("hermes", "<tool_call>{'a': '</tool_call>" + hermes("twice", CALL) + "'}</tool_call>"),
    ("harmony", "<|channel|>commentary to=functions.put twice<|message|>{}<|call|>"),
    *(
        (dialect, begin + '{"name": "put", "arguments": {"a": "</think>' + inner + rest)
        for dialect, begin, inner in (
            ("harmony", "<|channel|>commentary to=functions.put<|message|>",
             "<|channel|>commentary to=functions.twice<|message|>{}<|call|>"),
            ("native", "<|channel|>commentary to=functions.put<|message|>",
             "<|channel|>commentary to=functions.twice<|message|>{}<|call|>"),
            ("hermes", "<tool_call>", "<tool_call>{'twice'}</tool_call>"),
            ("native", "<tool_call>" * 70, "[TOOL_CALLS]twice{}"),
            ("native", "<tool_call>", "[TOOL_CALLS]twice{}"),
            ("native", "", "[TOOL_CALLS]twice{}"),
            ("auto", "```json\n", "<tool>twice(1)</tool>"),
        )
        for rest in ("", '", "b', '", "b": 1', '", "a": 2}}', '", bad}}')
    ),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "reply"), INSIDE)
def test_a_text_inside_a_broken_call_is_no_call(dialect, reply):
    for parallel in PARALLEL:
        meaning = interpreter(dialect, parallel=parallel).interpret(reply)
        assert meaning.call is None and not meaning.done
        assert all(one.call is None for one in meaning.more)


def test_several_calls():
    reply = hermes("put", {"a": 1}) + "\n" + hermes("put", {"a": 2})
    first = interpreter("hermes").interpret(reply)
    assert (first.call.arguments["a"], first.extra_calls) == (1, 1)
    assert "only the first of your 2 calls" in first.note and not first.more
    every = interpreter("hermes", parallel="all").interpret(reply)
    assert [one.call.arguments["a"] for one in (every, *every.more)] == [1, 2]
    assert every.note is None and len(every.to_json()["more"]) == 1
    refused = interpreter("hermes", parallel="refuse").interpret(reply)
    assert refused.call is None and "makes 2 calls" in refused.error.message
    text = "<tool>put(1)</tool><tool>put(2)</tool>"
    for parallel in PARALLEL:
        meaning = interpreter("text", parallel=parallel).interpret(text)
        assert meaning.call.arguments["a"] == 1 and meaning.note is None
        assert "more" not in meaning.to_json()


BAD = [
    ('{"name": "put", "arguments": {"a": 1, "a": 2}}', "stands twice"),
    ('{"name": "put", "name": "twice"}', "stands twice"),
    ('{"name": "put", "arguments": {"a": NaN}}', "NaN is no number"),
    ('{"name": "put", "arguments": {"a": -Infinity}}', "no number"),
    ('{"name": "put", "arguments": {"a": 1e999}}', "not finite"),
    ('{"name": "put", "arguments": {"a": ' + "9" * 5000 + "}}", "5,000 digits"),
    ('{"name": "put", "arguments": [1]}', "no JSON object"),
    ('{"name": "put", "arguments": "1"}', "no JSON object"),
    ('{"name": "put", "arguments": "{1}"}', "no JSON"),
    ('{"name": "put", "arguments": {}, "parameters": {}}', "both"),
    ('{"arguments": {}}', "no `name`"),
    ('{"name": 3}', "no `name`"),
    ("[]", "a call is an object"),
    ('{"name": "put", "arguments": {"a": ' + "[" * 150 + "]" * 150 + "}}", "100 deep"),
    ('{"name": "put" "arguments"}', "no JSON"),
    ('{"name": "put"} and more', "behind the object"),
    ('{"name": "put", "argu', "cut off"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "why"), BAD)
def test_a_bad_object_is_refused_with_a_sentence(body, why):
    meaning = interpreter("hermes").interpret(f"<tool_call>{body}</tool_call>")
    assert (
        meaning.call is None and why in meaning.error.message and "\n" not in meaning.error.message
    )


def test_half_a_surrogate_pair_is_refused():
    reply = '<tool_call>{"name": "put", "arguments": {"a": "\\ud800"}}</tool_call>'
    assert "surrogate" in interpreter("hermes").interpret(reply).error.message


HOSTILE = [
    "<tool_call>" + '{"a":' * 100_000,
    "<tool_call>" + "[" * 100_000,
    "[" * 100_000,
    '{"a":' * 100_000,
    "<tool_call>" * 100_000,
    "<tool_call>{}</tool_call>" * 50_000,
    "```\n" * 200_000,
    "```json\n{" * 100_000,
    "<think>" * 100_000,
    "<|start|>" * 100_000,
    "<|channel|>a" * 100_000,
    "<|channel|>commentary to=" + "a " * 200_000,
    "<|channel|>commentary to=a<|message|>" * 50_000,
    "[TOOL_CALLS]" * 100_000,
    "[TOOL_CALLS]" + "a" * 1_000_000,
    "x" * 10_000_000,
    "\n" * 2_000_000,
    "</think>" * 100_000,
    '<tool_call>{"name": "put", "arguments": {"a": "' + "\\u0000" * 200_000,
]


@pytest.mark.parametrize("dialect", MARKED)
def test_a_hostile_reply_is_read_in_linear_time(dialect):
    inner = interpreter(dialect)
    for reply in HOSTILE:
        took = []
        for text in (reply[: len(reply) // 8], reply):
            began = time.thread_time()
            meaning = inner.interpret(text)
            DIALECTS[dialect].spoken(text)
            took.append(time.thread_time() - began)
            assert meaning.call is None
        # Eight times the text: 64 times the time where it grows with the square.
        assert took[1] < max(1.0, 30 * took[0]), (reply[:40], took)


def test_deep_values_do_not_end_the_reader():
    with pytest.raises(Exception, match="100 deep"):
        decode("[" * 100_000 + "]" * 100_000, 0)


def test_format_of_a_dialect():
    inner = interpreter("hermes", thinking="true")
    call = hermes("put", CALL)
    assert tuple(inner.interpret(f"<think>x</think>{call}").format) == (1, 1)
    assert tuple(inner.interpret(call).format) == (0, 1)
    assert tuple(inner.interpret("<think>x</think><tool_call>{</tool_call>").format) == (1, 0)
    assert tuple(inner.interpret("<think>x</think><tool_call>{").format) == (0, 0)
    assert tuple(inner.interpret("left").format) == (0, 0)
    assert tuple(interpreter("native", thinking="true").interpret(call).format) == (1, 1)


def test_another_dialect_is_recognised():
    for name in ("text", "hermes", "json", "harmony"):
        reply = DIALECTS[name].write("put", CALL)
        assert other_dialect(reply, "text") == (None if name == "text" else name)
    assert other_dialect("hello", "text") is None
    assert other_dialect(FORMS[0], "text") == "native"


def entry(name, arguments):
    return {"id": "x", "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    "said",
    ["", "I move.", '{"name": "twice", "arguments": {"a": 9}}', hermes("twice", {"a": 9}), "[1] x",
     "[TOOL_CALLS]twice{}", "<|channel|>commentary to=functions.twice<|message|>{}<|call|>",
     "<tool>twice(9)</tool>", 'So:\n  ```json\n{"name": "twice", "arguments": {"a": 9}}\n```',
     "```\nleft", "<tool>", "So <|python_tag|>{}"],
)  # fmt: skip
def test_an_endpoints_calls_are_those_beside_its_text(said):
    text = message_text(said, [entry("put", '{"a": "<tool_call>"}')], thought="<think>t</think>")
    for dialect in ("native", "auto"):
        meaning = interpreter(dialect, parallel="all").interpret(text)
        assert meaning.call.arguments["a"] == "<tool_call>" and not meaning.more
        assert meaning.think == "t"


@pytest.mark.parametrize(
    "bad",
    [entry("put", "{"), entry("put", '{"a": 1, "a": 2}'), entry("put", "[]"), entry(None, "{}"),
     entry("", "{}"), {}, None, 3, {"function": 3}, entry("put", 3), entry("put", "</tool_call>")],
)  # fmt: skip
def test_a_broken_call_of_an_endpoint_is_refused(bad):
    meaning = interpreter("native").interpret(message_text("", [bad]))
    assert meaning.call is None and not meaning.done and meaning.error.stage == "syntax"


def test_the_prompt_of_a_dialect_names_tools_and_form():
    tools = list(TOOLS.values())
    for name in ("hermes", "json", "harmony"):
        taught = DIALECTS[name].teach(tools, True)
        assert "put" in taught and "Put things." in taught and "think" in taught.lower()
    for name in ("text", "native", "auto"):
        assert DIALECTS[name].teach(tools, True) == ""
    shown = DIALECTS["hermes"].teach(tools, False)
    assert isinstance(DIALECTS["hermes"].read(shown, False).calls[-1], Call | ParseFailure)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("dialect: hermez", "did you mean `hermes`?"),
        ("dialect: 3", "one of text, native, hermes, json, harmony, auto"),
        ("dialect: [text]", "one of text"),
        ("parallel: both", "one of first, all, refuse"),
        ("paralel: all", "did you mean `parallel`?"),
    ],
)
def test_an_unknown_dialect_is_named(line, message):
    _, findings = parse_config(f"parser:\n  {line}\naction_mappings: {{}}\n", name="c.yaml")
    assert any(message in finding.message and finding.line == 2 for finding in findings)


TORN = [
    hermes("put", {"a": "</think>"}),
    hermes("put", {"a": "<think>x</think>"}) + "\n" + hermes("twice", CALL),
    "<think>so" + hermes("put", {"a": "</think>"}) + hermes("twice", CALL),
]


@pytest.mark.parametrize("dialect", ["hermes", "native", "auto"])
@pytest.mark.parametrize("reply", TORN)
def test_an_end_of_a_thought_in_a_call_is_refused_with_its_remedy(dialect, reply):
    meaning = interpreter(dialect).interpret(reply)
    assert meaning.call is None and not meaning.done
    assert "write it as \\u003c/think>" in meaning.error.message
    assert interpreter(dialect).interpret(DIALECTS["native"].write("put", {"a": "</think>"})).call


@pytest.mark.parametrize(
    ("dialect", "begun"),
    [
        ("hermes", '[TOOL_CALLS]{"a": "'),
        ("native", 'So [TOOL_CALLS] [{"a": "'),
        ("auto", '```json\n{"a": "'),
        ("json", '```\n{"a": "'),
    ],
)
def test_a_plain_reply_behind_a_begun_call_is_not_played(dialect, begun):
    inner, call = interpreter(dialect), DIALECTS[dialect].write("put", CALL)
    assert inner.interpret(f"<think>{begun}</think>\n{call}").call is None
    assert inner.interpret(f"<think>so [1] {{x}}</think>\n{call}").call.arguments["a"] == 1


@pytest.mark.parametrize("dialect", ["json", "auto"])
@pytest.mark.parametrize("behind", ["", " Well."])
def test_a_fence_behind_a_thought_is_read_on_its_line(dialect, behind):
    reply = "<think>so</think>" + DIALECTS["json"].write("put", CALL) + behind
    assert interpreter(dialect).interpret(reply).call.arguments["a"] == 1


def test_a_call_of_harmony_is_marked_alike_however_it_is_read():
    plain = DIALECTS["harmony"].think("so") + DIALECTS["harmony"].write("put", CALL)
    longer = plain + "<|start|>assistant"
    one, other = (DIALECTS["harmony"].read(reply, True).parts.spans for reply in (plain, longer))
    assert one == other and plain[one[-1].start :].startswith("<|start|>assistant<|channel|>")


PROMPT = "system_prompt: |\n  - put(a)\n    Usage: <tool>put(1)</tool>\n"
ACTIONS = "action_mappings:\n  put: {_tool: put, _parser: {positional: [a]}, a: {from_arg: a}}\n"


def codes(text):
    return {finding.code for finding in lint(text, name="c.yaml", tools=TOOLS)}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_lint_knows_which_dialects_tell_of_the_tools_by_schemas(dialect):
    parser = f"parser: {{dialect: {dialect}}}\n"
    bare = codes(f"system_prompt: Act.\n{parser}{ACTIONS}")
    assert ({"no-done", "mapped-not-described"} <= bare) is (dialect == "text")
    taught = codes(PROMPT + parser + ACTIONS)
    assert ("two-forms" in taught) is (dialect not in ("text", "auto"))
    assert "usage-not-accepted" not in taught


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_configuration_written_for_a_dialect(dialect):
    analysis = Analysis("x", tools=tuple(TOOLS.values()))
    text = render(usable_draft(analysis), dialect=dialect)
    config, findings = parse_config(text, name="c.yaml")
    assert config is not None and not findings and config.parser.dialect == dialect
    assert ("<tool>" in config.system_prompt) is (dialect == "text")
    assert "two-forms" not in codes(text) and "no-done" not in codes(text)
    assert list(config.mappings) == ["put"]
