"""Small environments in this process, each with one planted defect, and sound ones.

All are the same room: a counter that is to reach a goal, a colour, and a note. An environment is
what it does otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import subprocess
import sys
import time
from pathlib import Path

from hudtui.core.environment.values import ContentBlock, ToolResult, read_tools
from hudtui.core.errors import ConnectError
from hudtui.core.gym.config import parse_config
from hudtui.core.tasks.task import Task, ToolCall

COLOURS = ("red", "green", "blue")
GOALS = ((5, "green"), (7, "blue"), (4, "green"), (8, "blue"))
"""Goal and colour of each task; no example value is among them."""


def tool(name, required=None, **properties):
    """A tool as a server lists it; all its parameters are required unless it is said which."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    needed = list(properties) if required is None else required
    return {"name": name, "description": name, "inputSchema": {**schema, "required": needed}}


AMOUNT = {"type": "integer", "minimum": 1, "maximum": 3}
COLOUR = {"type": "string", "enum": list(COLOURS)}
TEXT = {"type": "string"}
TOOLS = [
    tool("add", amount=AMOUNT),
    tool("paint", colour=COLOUR),
    tool("write", text=TEXT),
    tool("setup", goal={"type": "integer"}, colour=COLOUR),
    tool("evaluate"),
]


class Failed(Exception):
    """The tool answers with an error."""


class Room:
    """A session with the environment. `world` is what all its sessions share."""

    listed = TOOLS
    start = 0

    def __init__(self, world, servers):
        self.world, self.servers = world, servers
        self.tools = {one.name: one for one in read_tools(self.listed)[0]}
        self.calls, self.errors = [], 0
        self.goal, self.colour, self.painted = 0, "", ""
        self.value, self.note = self.start, ""
        self.opened()

    def opened(self):
        """The session begins."""

    def closed(self):
        """The session ends."""

    async def call_tool(self, name, arguments, *, timeout=None):
        if name not in ("setup", "evaluate", "begin"):
            self.calls.append(name)
        await asyncio.sleep(0)  # others play meanwhile
        try:
            schema = self.tools[name].input_schema
            lacking = [one for one in schema["required"] if one not in arguments]
            if lacking and self.strict:
                raise Failed(f"validation error: {lacking[0]} is a required property")
            answer = getattr(self, name)(**arguments)
            if asyncio.iscoroutine(answer):
                answer = await answer
        except Failed as error:
            self.errors += 1
            return ToolResult((ContentBlock("text", text=str(error)),), None, True)
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return ToolResult((ContentBlock("text", text=text),), None)

    strict = True

    def setup(self, goal, colour):
        self.goal, self.colour, self.painted = goal, colour, ""
        self.value, self.note = self.start, ""
        return self.view()

    begin = setup

    def view(self):
        return f"{self.value} of {self.goal}, {self.painted or 'no colour'}"

    def add(self, amount=1):
        self.value += amount
        return self.view()

    def paint(self, colour="red"):
        self.painted = colour
        return self.view()

    def write(self, text=""):
        self.note = text
        return "written"

    def near(self):
        return max(0.0, 1 - abs(self.goal - self.value) / self.goal)

    def grade(self):
        return 0.5 * self.near() + 0.5 * (self.painted == self.colour)

    def evaluate(self):
        return {"reward": self.grade()}


def room(base=Room, **changes):
    """A room that does something else."""
    return type("Room", (base,), changes)


CONFIG = """
system_prompt: Count and paint.
parser: {use_thinking: false}
action_mappings:
  add: {_parser: {positional: [amount]}, _tool: add, amount: {from_arg: amount}}
  paint: {_parser: {positional: [colour]}, _tool: paint, colour: {from_arg: colour}}
  write: {_parser: {positional: [text]}, _tool: write, text: {from_arg: text}}
defaults: {max_turns: 8}
"""


def steps(goal, colour, start=0):
    """The calls that solve a task."""
    amounts = [3] * ((goal - start) // 3) + [(goal - start) % 3] * bool((goal - start) % 3)
    calls = [{"name": "add", "arguments": {"amount": amount}} for amount in amounts]
    return [*calls, {"name": "paint", "arguments": {"colour": colour}}]


def tasks(goals=GOALS, *, solution=steps, evaluate=None, setup="setup", env=None):
    """The tasks of a room."""
    made = []
    for number, (goal, colour) in enumerate(goals):
        extra = {"solution": solution(goal, colour)} if solution is not None else {}
        if evaluate is not None:
            extra["evaluate"] = evaluate(goal, colour)
        made.append(
            Task(
                id=f"task {number}",
                prompt=f"Count to {goal}, and paint the room {colour}.",
                mcp_config={"room": {"command": "room", "env": env or {}}},
                setup=(ToolCall(setup, {"goal": goal, "colour": colour}),),
                evaluate=() if evaluate is not None else (ToolCall("evaluate", {}),),
                extra=extra,
            )
        )
    return tuple(made)


def config(text=CONFIG, more=""):
    """A configuration of the room."""
    made, findings = parse_config(text + more, name="room.yaml")
    assert [finding for finding in findings if finding.severity == "error"] == []
    return made


def connector(kind):
    """What opens sessions of a kind of room, which share a world."""
    world = {"open": [], "count": itertools.count()}

    @contextlib.asynccontextmanager
    async def connect(servers):
        session = kind(world, servers)
        world["open"].append(session)
        try:
            yield session
        finally:
            session.closed()
            world["open"].remove(session)

    return connect


# -- what some rooms do
# --------------------------------------------------------------------------------------------------


def fail(*words):
    raise Failed(*words)


def evaluation(answer):
    """A room whose evaluation answers something else."""
    return room(evaluate=answer)


def graded(grade):
    """A room with another grade."""
    return room(grade=grade)


def right(self):
    """The whole goal, or nothing."""
    return float(self.value == self.goal and self.painted == self.colour)


async def slowly(seconds, self, amount=1):
    await asyncio.sleep(seconds)
    return Room.add(self, amount)


async def slow_call(self, name, arguments, *, timeout=None):
    if name in ("add", "paint", "write"):
        await asyncio.sleep(1.0)
    return await Room.call_tool(self, name, arguments)


def keep_value(self, goal, colour):
    Room.setup(self, goal, colour)
    self.value = self.world.get("value", 0)
    return self.view()


def add_for_all(self, amount=1):
    self.value += amount
    self.world["value"] = self.value
    return self.view()


def remember_solved(self):
    self.world["solved"] = self.world.get("solved") or right(self) == 1
    return 1.0 if self.world["solved"] else Room.grade(self)


def note_of_the_last(self, goal, colour):
    text = Room.setup(self, goal, colour)
    return f"{text}; last note: {self.world.get('note', '')}"


def write_for_all(self, text=""):
    self.world["note"] = text
    return "written"


def one_counter(self, amount=1):
    """All open sessions share the counter."""
    for other in self.world["open"]:
        other.value += amount
    return self.view()


def busy(self):
    return 0.0 if len(self.world["open"]) > 6 else Room.grade(self)


def crossed(self, amount=1):
    Room.add(self, amount)
    others = [one for one in self.world["open"] if one is not self]
    return f"{self.view()}; beside you: {len(others)} players"


def end_server():
    raise ConnectError("the server has ended")


def too_long(self, text=""):
    if len(text) > 10_000:
        end_server()
    return Room.write(self, text)


def leave_file(self):
    folder = Path(self.servers["room"]["env"]["TMPDIR"])
    (folder / f"episode-{next(self.world['count'])}.db").write_text("left")


def leave_process(self):
    if next(self.world["count"]) == 0:
        env = {"TMPDIR": self.servers["room"]["env"]["TMPDIR"]}
        waiting = "import time; time.sleep(60)"
        command = [sys.executable, "-c", waiting]
        process = subprocess.Popen(command, env=env, start_new_session=True)
        LEFT.append(process)


LEFT = []
"""Processes that rooms have left; a test ends them."""

KEY = "AKIA" + "ABCDEFGHIJ234567"  # of the form of a key, and none
WITH_SETUP = "  begin: {_tool: begin, goal: {from_arg: goal}, colour: {from_arg: colour}}\n"
WITH_CHECK = "  check: {_tool: check}\n"


def in_actions(line):
    """The configuration with another action."""
    return config(CONFIG.replace("defaults:", f"{line}defaults:"))


def begun_twice(self, goal, colour):
    """Setting up again, which the agent can do, is taken for the solution."""
    Room.setup(self, goal, colour)
    self.begun = getattr(self, "begun", 0) + 1
    return self.view()


BEGIN = [tool("begin", goal={"type": "integer"}, colour=COLOUR), *TOOLS]
CHECK = [*TOOLS, tool("check")]
ANY_AMOUNT = [tool("add", amount={"type": "integer"}), *TOOLS[1:]]
FREE_NOTE = [*TOOLS[:2], tool("write", [], text=TEXT), *TOOLS[3:]]
LENIENT = room(strict=False)


def password(self):
    return float(self.note == f"{self.goal} {self.colour}")


def wrote(goal, colour):
    return [{"name": "write", "arguments": {"text": f"{goal} {colour}"}}]


def reached(goal, colour):
    return [
        {"call": {"name": "write", "arguments": {"text": ""}}, "expect": {"contains": "written"}},
        {"reply": {"contains": colour}},
    ]


def says_goal(goal, colour):
    return [{"reply": {"contains": str(goal)}}]


def two_colours(self):
    return float(self.painted == "green" or "green" in getattr(self, "seen", ()))


def paint_seen(self, colour="red"):
    self.seen = {*getattr(self, "seen", ()), colour}
    return Room.paint(self, colour)


TWO = [tool("paint", colour={"type": "string", "enum": ["red", "green"]}), *TOOLS[3:]]
PAINT = """
system_prompt: Paint.
parser: {use_thinking: false}
action_mappings:
  paint: {_parser: {positional: [colour]}, _tool: paint, colour: {from_arg: colour}}
defaults: {max_turns: 20}
"""
FORM = "rubric: {weights: {task_completion: 0.1, tool_execution: 0.0, format_compliance: 0.9}}\n"


def green(goal, colour):
    return [{"name": "paint", "arguments": {"colour": "green"}}]


def error_if_odd(self, goal, colour):
    return fail("there is no such goal") if goal % 2 else Room.setup(self, goal, colour)


def alias(self):
    return Room.evaluate(self)


def late(self):
    """Grades drift with the clock."""
    return 0.8 * Room.grade(self) + 0.2 * (time.perf_counter_ns() % 1000) / 1000


DEFECTS = {
    # name: (the finding, the room, further arguments of `tasks`, the configuration)
    "full marks for all": ("constant", graded(lambda self: 1.0)),
    "never a mark": ("constant", graded(lambda self: 0.0)),
    "half a mark for all": ("constant", graded(lambda self: 0.5)),
    "the goal is the reward": ("actions-ignored", graded(lambda self: self.goal / 10)),
    "the colour is the reward": ("actions-ignored", graded(lambda self: len(self.colour) / 10)),
    "doing nothing pays": (
        "blind-wins",
        graded(lambda self: 1.0 if not self.calls else Room.grade(self)),
    ),
    "calls pay": ("blind-wins", graded(lambda self: min(1.0, len(self.calls) / 3))),
    "any note pays": (
        "blind-wins",
        graded(lambda self: 1.0 if self.note else Room.grade(self) / 2),
    ),
    "the prompt pays": (
        "blind-wins",
        graded(lambda self: 1.0 if self.colour in self.note else Room.grade(self) / 2),
    ),
    "the last words repeat the prompt": ("blind-wins", Room, {"evaluate": says_goal}),
    "a long note pays": (
        "blind-wins",
        graded(lambda self: 1.0 if len(self.note) > 10_000 else Room.grade(self)),
    ),
    "more is better": (
        "blind-wins",
        room(graded(lambda self: float(self.value >= self.goal)), listed=ANY_AMOUNT),
    ),
    "the agent sets the task up": (
        "blind-wins",
        room(
            listed=BEGIN,
            begin=begun_twice,
            grade=lambda self: 1.0 if self.begun > 1 else Room.grade(self),
        ),
        {"setup": "begin"},
        in_actions(WITH_SETUP),
    ),
    "upside down": ("blind-wins", graded(lambda self: 1 - Room.grade(self))),
    "errors pay": (
        "errors-pay",
        room(
            add=lambda self, amount=1: fail("out of order"),
            grade=lambda self: min(0.9, self.errors / 10 + 0.3 * (self.painted == self.colour)),
        ),
        {"solution": None},
    ),
    "a failed evaluation pays": (
        "reward-of-failure",
        evaluation(lambda self: {"reward": Room.grade(self), "error": "the state is lost"}),
    ),
    "a crash pays": (
        "reward-of-failure",
        evaluation(
            lambda self: {
                "reward": Room.grade(self),
                "log": "Traceback (most recent call last):\n  KeyError",
            }
        ),
    ),
    "percent": ("reward-range", graded(lambda self: 100 * Room.grade(self))),
    "fines": ("reward-range", graded(lambda self: Room.grade(self) - 0.3 * len(self.calls))),
    "a reward in the note": (
        "injection",
        graded(lambda self: 1.0 if '"reward": 1' in self.note else Room.grade(self)),
    ),
    "the end of a call in the note": (
        "injection",
        graded(lambda self: 1.0 if "</tool>" in self.note else Room.grade(self)),
    ),
    "the form pays": ("form-pays", Room, {}, config(more=FORM)),
    "a lid on the reward": ("unreachable", graded(lambda self: 0.8 * Room.grade(self))),
    "one too many": ("unreachable", room(near=lambda self: float(self.value == self.goal + 1))),
    "all tasks alike": ("same-answer", Room, {"goals": ((5, "green"),) * 4}),
    "a password": ("no-spread", graded(password), {"solution": wrote}),
    "any colour twice": (
        "too-easy",
        room(listed=TWO, paint=paint_seen, grade=two_colours),
        {"solution": green},
        config(PAINT),
    ),
    "dice": ("by-chance", graded(lambda self: random.random())),
    "a clock": ("not-repeatable", graded(late)),
    "the counter stays": ("leak", room(setup=keep_value, add=add_for_all)),
    "solved for ever": ("leak", graded(remember_solved)),
    "the last note is shown": ("leak", room(setup=note_of_the_last, write=write_for_all)),
    "one counter for all": ("crowd", room(add=one_counter)),
    "busy": ("crowd", graded(busy)),
    "neighbours are seen": ("crowd", room(add=crossed)),
    "numbers as texts": (
        "schema-refuses",
        room(add=lambda self, amount: fail("validation error: '1' expected, not 1")),
        {"solution": None},
    ),
    "an argument that is not listed": (
        "schema-refuses",
        room(paint=lambda self, colour: fail("missing 1 required positional argument: 'wall'")),
        {"solution": None},
    ),
    "required, but not needed": ("schema-accepts", LENIENT),
    "slow calls": (
        "slow-calls",
        room(call_tool=slow_call),
        {"goals": GOALS[:1], "solution": None},
        config(CONFIG.replace("max_turns: 8", "max_turns: 1")),
    ),
    "a wall of text": ("context", room(view=lambda self: f"{self.value} " + "wall " * 4000)),
    "a key is shown": ("secrets", room(view=lambda self: f"{self.value}, {KEY}")),
    "a variable is shown": (
        "secrets",
        room(view=lambda self: f"{self.value}, s3cret-s3cret"),
        {"env": {"ROOM_KEY": "${ROOM_KEY}"}},
    ),
    "the judge has another name": (
        "evaluator-callable",
        room(listed=CHECK, check=alias),
        {},
        in_actions(WITH_CHECK),
    ),
    "odd goals cannot be set up": ("setup-fails", room(setup=error_if_odd)),
    "no evaluation": ("evaluation-fails", evaluation(lambda self: fail("no state"))),
    "an evaluation without a reward": ("evaluation-fails", evaluation(lambda self: {"ok": "yes"})),
    "long notes break the evaluation": (
        "evaluation-breaks",
        evaluation(
            lambda self: fail("too long") if len(self.note) > 9_999 else Room.evaluate(self)
        ),
    ),
    "the evaluation ends the server": ("evaluation-fails", evaluation(lambda self: end_server())),
    "notes may be left out, and break the evaluation": (
        "evaluation-breaks",
        room(
            listed=FREE_NOTE,
            write=lambda self, text="": Room.write(self, text),
            evaluate=lambda self: end_server() if len(self.note) > 9_999 else Room.evaluate(self),
        ),
    ),
    "long notes end the server": ("calls-break", room(write=too_long)),
    "files stay": ("left-behind", room(closed=leave_file)),
    "a process stays": ("left-behind", room(closed=leave_process)),
    "the paint is dry": ("tool-broken", room(paint=lambda self, colour: fail("the paint is dry"))),
}
"""Environments with one defect, and the check that is to find it."""


def hidden_start(self, goal, colour):
    """A start that the seed decides."""
    text = Room.setup(self, goal, colour)
    self.value = random.Random(goal).randint(0, 2)
    return f"{text}; begin at {self.value}"


def from_hidden_start(goal, colour):
    return steps(goal, colour, random.Random(goal).randint(0, 2))


def stepwise(self):
    return 0.25 * (self.value > 0) + 0.25 * (self.value == self.goal) + 0.5 * self.rightly()


def with_reward(self, amount=1):
    before = self.near()
    Room.add(self, amount)
    return {"reward": self.near() - before, "view": self.view()}


def now(self):
    return f"{Room.view(self)} at {time.time_ns()}, 12:{time.time_ns() % 60:02d}"


def refuse_beyond(self, amount=1):
    if self.value + amount > self.goal:
        raise Failed("that is beyond the goal")
    return Room.add(self, amount)


SOUND = {
    "dense": (Room,),
    "all or nothing": (graded(lambda self: float(self.painted == self.colour)),),
    "steps": (room(grade=stepwise, rightly=lambda self: float(self.painted == self.colour)),),
    "slow but honest": (room(add=lambda self, amount=1: slowly(0.01, self, amount)),),
    "a seeded start": (room(setup=hidden_start), {"solution": from_hidden_start}),
    "a mark for the beginning": (graded(lambda self: 0.3 + 0.7 * Room.grade(self)),),
    "without solutions": (Room, {"solution": None}),
    "success": (evaluation(lambda self: {"success": self.painted == self.colour}),),
    "a sentence beside the reward": (
        evaluation(lambda self: {"reward": Room.grade(self), "why": "no error was made"}),
    ),
    "steps tell a reward": (room(add=with_reward),),
    "the time is shown": (room(view=now),),
    "honest refusals": (room(add=refuse_beyond),),
    "fewer calls are better": (
        graded(lambda self: Room.grade(self) * 0.99 ** (len(self.calls) > 5)),
    ),
    "a long but fitting answer": (room(view=lambda self: Room.view(self) + " more" * 1000),),
    "thoughts": (Room, {}, config(CONFIG.replace("use_thinking: false", "use_thinking: true"))),
    "all tools": (
        Room,
        {},
        config("system_prompt: Count.\naction_mappings: {}\nallow_unmapped: true\n"),
    ),
    "two tasks": (Room, {"goals": GOALS[:2]}),
}
"""Environments without a defect."""
