import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from types import MappingProxyType

import pytest

from hudtui.core.errors import InputError
from hudtui.core.results.foreign import Place
from hudtui.core.results.own import entries
from hudtui.core.rollouts import trace
from hudtui.core.rollouts.replies import rollout_replies
from hudtui.core.rollouts.trace import (
    MASK,
    append_line,
    episode_from_json,
    episode_to_json,
    images_from_json,
    read_trace,
    redact,
    scan_trace,
    write_episode,
)
from hudtui.core.rollouts.values import Episode, KeptImage, Scores, Turn

TURN = Turn(
    reply="<tool>left()</tool>",
    interpretation={"tool": "left()", "done": False},
    call={"tool": "move", "arguments": {"direction": "left"}},
    observation="Moved left, +4.",
    is_error=False,
    seconds={"complete": 0.001, "call": 0.002},
    result={"moved": True},
    tokens={"prompt": 20, "completion": 3},
)
EPISODE = Episode(
    task_id="board-4",
    messages=({"role": "system", "content": "You play."}, {"role": "user", "content": "Go ✓"}),
    turns=(TURN,),
    scores=Scores(0.4, 1.0, 1.0, 0.52, True),
    stop="max_turns",
    evaluation={"reward": 0.4},
    seconds={"total": 1.5},
    info={"policy": "greedy", "rollout": 0},
    started_at="2026-01-01T00:00:00.000+00:00",
)


def test_round_trip(tmp_path):
    path = tmp_path / "out" / "traces.jsonl"
    broken = replace(EPISODE, stop="error", error="the server died", task_id="b")
    write_episode(path, EPISODE)
    write_episode(path, broken)
    assert list(read_trace(path)) == [EPISODE, broken]
    assert path.read_bytes().count(b"\n") == 2


def test_what_went_wrong_in_the_turns_stands_in_the_head_of_a_record(tmp_path):
    unread = replace(TURN, interpretation={"action": None}, call=None, is_error=True)
    refused = replace(
        TURN, interpretation={"action": {"name": "left", "arguments": {}}}, call=None, is_error=True
    )
    failed = replace(TURN, is_error=True)
    done = replace(
        TURN, interpretation={"action": {"name": "done", "arguments": {}}, "done": True}, call=None
    )
    record = episode_to_json(
        replace(EPISODE, turns=(unread, TURN, refused, unread, failed, failed, failed, done))
    )
    assert record["slips"] == {"no_call": 2, "refused": 1, "failed": 3}
    write_episode(tmp_path / "traces.jsonl", replace(EPISODE, turns=(unread, failed)))
    (entry,) = entries((tmp_path / "traces.jsonl").read_bytes(), Place(run="r", file=0))
    assert dict(entry.slips) == {"no_call": 1, "failed": 1}


def test_a_last_line_that_is_still_being_written_is_left_out(tmp_path):
    path = tmp_path / "traces.jsonl"
    write_episode(path, EPISODE)
    whole = path.read_bytes()
    for cut in (1, 10, len(whole) // 2, len(whole) - 2):
        path.write_bytes(whole + whole[:cut])
        assert list(read_trace(path)) == [EPISODE], cut
    path.write_bytes(whole + '{"task": "é'.encode()[:-1])  # cut inside a character
    assert list(read_trace(path)) == [EPISODE]


def test_appending_removes_what_a_killed_writer_left(tmp_path):
    path = tmp_path / "traces.jsonl"
    write_episode(path, EPISODE)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100_000][:50])
    write_episode(path, replace(EPISODE, task_id="next"))
    assert [episode.task_id for episode in read_trace(path)] == ["board-4", "next"]


def test_appending_keeps_a_last_record_that_merely_lacks_its_newline(tmp_path):
    path = tmp_path / "traces.jsonl"
    write_episode(path, EPISODE)
    path.write_bytes(path.read_bytes().rstrip())
    write_episode(path, EPISODE)
    assert list(read_trace(path)) == [EPISODE, EPISODE]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "traces.jsonl"
    write_episode(path, EPISODE)
    path.write_bytes(path.read_bytes() + b'{"task": 1,\n' + path.read_bytes())
    with pytest.raises(InputError) as caught:
        list(read_trace(path))
    assert caught.value.where.line == 2


@pytest.mark.parametrize(
    "record",
    [
        [],
        {},
        {"task": "a"},
        {**episode_to_json(EPISODE), "turns": [{}]},
        {**episode_to_json(EPISODE), "scores": 3},
    ],
)
def test_what_is_no_record_is_refused(record, tmp_path):
    with pytest.raises(InputError, match="trace record"):
        episode_from_json(record)
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(InputError) as caught:
        list(read_trace(path))
    assert caught.value.where.line == 1


def test_a_reader_goes_on_where_it_was(tmp_path):
    path = tmp_path / "traces.jsonl"
    write_episode(path, EPISODE)
    ((offset, first),) = scan_trace(path)
    assert first == EPISODE
    assert list(scan_trace(path, offset)) == []
    later = replace(EPISODE, task_id="later")
    write_episode(path, later)
    assert [episode for _, episode in scan_trace(path, offset)] == [later]


def test_images_are_kept_with_their_turn_and_in_no_message(tmp_path):
    path = tmp_path / "traces.jsonl"
    data = "QUJD" * 1000
    shown = {
        "role": "user",
        "content": [
            {"type": "text", "text": "see"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        ],
    }
    kept = (KeptImage("image/png", 3000, data), KeptImage("image/gif", 9_000_000))
    written = replace(
        EPISODE, messages=(shown,), turns=(replace(TURN, images=kept),), images=kept[:1]
    )
    write_episode(path, written)
    assert path.read_bytes().count(data.encode()) == 2, "in the turn and in the opening"
    (episode,) = read_trace(path)
    assert episode.turns[0].images == kept and episode.images == kept[:1]
    assert episode.messages[0]["content"][1] == {
        "type": "text",
        "text": "[image image/png, 3000 bytes]",
    }


def test_images_do_not_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "IMAGES_UNTIL", 5000)
    path = tmp_path / "traces.jsonl"
    image = KeptImage("image/png", 3000, "QUJD" * 1000)
    for _ in range(3):
        write_episode(
            path, replace(EPISODE, turns=(replace(TURN, images=(image,)),), images=(image,))
        )
    told = [(episode.images[0], episode.turns[0].images[0]) for episode in read_trace(path)]
    assert told == [
        (image, image),
        *[(KeptImage("image/png", 3000), KeptImage("image/png", 3000))] * 2,
    ]


@pytest.mark.parametrize(
    "images", [7, {"type": "image/png"}, ["x", 7, None, {"type": 7}, {"bytes": 1}]]
)
def test_images_of_the_wrong_type_count_as_missing(tmp_path, images):
    assert images_from_json(images) == ()
    assert images_from_json([{"type": "x", "bytes": True, "data": 7}]) == (KeptImage("x", 0, None),)


def test_secrets_are_masked_wherever_they_were_echoed(tmp_path):
    secret = 'sk-"quoted"-123456'
    path = tmp_path / "traces.jsonl"
    leaky = replace(
        EPISODE,
        messages=({"role": "user", "content": f"env: KEY={secret}!"},),
        turns=(replace(TURN, observation=f"<{secret}>", result={secret: [secret]}),),
        evaluation=f"x{secret}",
        error=secret,
    )
    write_episode(path, leaky, secrets=[secret, "2"])
    text = path.read_text()
    assert "123456" not in text and "quoted" not in text
    (episode,) = read_trace(path)
    assert episode.messages[0]["content"] == f"env: KEY={MASK}!"
    assert episode.turns[0].result == {MASK: [MASK]}
    assert episode.task_id == "board-4"  # what is too short to be a secret masks nothing


@pytest.mark.parametrize(
    "secret",
    [
        'a"quoted"key',
        "back\\slash\\key",
        "two\nlines\tkey",
        "schlüssel-数-🙂",
        "nabcdefgh",
        "\x1b[31mkey!",
        "/a/path/key",
    ],
)
def test_a_secret_is_masked_however_json_writes_it(tmp_path, secret):
    around = f"before \n{secret}\\ after"
    episode = replace(EPISODE, evaluation={"text": around, secret: 1}, error=secret)
    write_episode(tmp_path / "traces.jsonl", episode, secrets=[secret])
    (found,) = read_trace(tmp_path / "traces.jsonl")
    assert found.evaluation == {"text": f"before \n{MASK}\\ after", MASK: 1} and found.error == MASK
    write_episode(tmp_path / "plain.jsonl", episode, secrets=["nothing-like-it"])
    (plain,) = read_trace(tmp_path / "plain.jsonl")
    assert plain == episode


def test_whatever_a_server_sends_makes_a_line_that_can_be_read(tmp_path):
    path = tmp_path / "traces.jsonl"
    deep = value = []
    for _ in range(5000):
        value.append([])
        value = value[0]
    odd = replace(
        EPISODE,
        evaluation={
            "nan": float("nan"),
            "deep": deep,
            "half": "\ud800",
            "set": {1},
            "line": "\u2028\n",
        },
        error="\x00\x1b[2J",
    )
    write_episode(path, odd)
    write_episode(path, EPISODE)
    first, second = read_trace(path)
    assert second == EPISODE
    assert first.evaluation["nan"] == "nan"
    assert first.evaluation["half"] == "\ud800"
    assert "nested too deeply" in json.dumps(first.evaluation["deep"])
    assert redact(5) == 5


@pytest.mark.parametrize(
    "secret, shown", [("", "token-0123456789"), ("token-0123456789", "********")]
)
def test_a_record_is_copied_value_by_value_with_and_without_secrets(secret, shown):
    class Word(str):
        pass

    text = "token-0123456789"
    value = {
        text: [text, 1, True, None, 0.5, float("nan"), Word(text)],
        7: (text, {"inner": MappingProxyType({"key": text, 8: -float("inf")})}),
    }
    wanted = {
        shown: [shown, 1, True, None, 0.5, "nan", shown],
        "7": [shown, {"inner": {"key": shown, "8": "-inf"}}],
    }
    assert redact(value, [secret]) == wanted and value[text][0] == text
    deep = text
    for _ in range(100):
        deep = [deep]
    assert text in repr(redact(deep)) and "********" in repr(redact(deep, [text]))
    for wrap in (
        lambda inner: [inner],
        lambda inner: {"a": inner},
        lambda inner: MappingProxyType({"a": inner}),
    ):
        assert "[nested too deeply]" in repr(redact(wrap(deep), [secret]))


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "traces.jsonl"
    append_line(path, {"small": 1})
    before = path.read_bytes()
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from hudtui.core.rollouts.trace import append_line\n"
        "from hudtui.core.errors import InputError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))\n"
        "try:\n"
        "    append_line(Path(sys.argv[1]), 'x' * 1000)\n"
        "except InputError as error:\n"
        "    print(error.what)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert "cannot be written" in done.stdout
    assert path.read_bytes() == before
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 200


def test_a_folder_in_the_place_of_the_file(tmp_path):
    (tmp_path / "t").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        append_line(tmp_path / "t", 1)
    with pytest.raises(InputError, match="this is a folder"):
        list(read_trace(tmp_path / "t"))
    with pytest.raises(InputError, match="no such file"):
        list(read_trace(tmp_path / "none"))


def test_two_processes_append_without_mixing_lines(tmp_path):
    path = tmp_path / "t.jsonl"
    code = (
        "import sys\nfrom pathlib import Path\nfrom hudtui.core.rollouts.trace import append_line\n"
        "for n in range(200): append_line(Path(sys.argv[1]), [sys.argv[2], n, 'x' * 5000])\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for name in "ab":
        assert [number for who, number, _ in lines if who == name] == list(range(200))


def test_replies_of_the_newest_rollouts(tmp_path):
    old, new = (
        tmp_path / "outputs" / "first" / "traces.jsonl",
        tmp_path / ".hudtui" / "runs" / "r1" / "out" / "traces.jsonl",
    )
    write_episode(old, EPISODE)
    write_episode(
        new,
        replace(EPISODE, task_id="newest", turns=(replace(TURN, reply="<tool>other()</tool>"),)),
    )
    os.utime(old, ns=(1, 1))
    damaged = tmp_path / "outputs" / "second" / "traces.jsonl"
    damaged.parent.mkdir()
    damaged.write_bytes(b"\xff\n")
    found = rollout_replies(tmp_path)
    assert [(reply.label, reply.text) for reply in found] == [
        ("rollout of newest, out", "<tool>other()</tool>"),
        ("rollout of board-4, first", TURN.reply),
    ]
    assert rollout_replies(tmp_path / "gone") == ()
