"""An environment with a fault at one stage of an episode: what every transport's server answers,
and the one over stdio.

`python faulty_server.py FAULT STAGE`: an MCP server over stdio whose fault comes at the call of
that stage. Standard library only. The tools are `setup`, `act` and `evaluate`, whose reward is
always 0.5.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

STAGES = {"setup": ("setup", 1), "play": ("act", 2), "evaluate": ("evaluate", 1)}
"""Stage -> the tool and the number of its call at which the fault comes."""
REWARD = 0.5
TOOLS = [
    {"name": name, "inputSchema": {"type": "object", "properties": {}}}
    for name in ("setup", "act", "evaluate")
]

LOST, CANNOT, MALFORMED, OTHER = (
    "has ended the session",
    "cannot answer",
    "is not of the protocol",
    "answered another call",
)
GONE = r"ended with exit code|was ended by signal|broke off the connection|broke off its answer"

ERRORS = {
    "rpc gone": (-32001, "Session not found", LOST),
    "rpc session": (-32600, "Session expired", LOST),
    "rpc no session": (-32000, "Bad Request: No valid session ID provided", LOST),
    "rpc not initialized": (-32002, "Server not initialized", LOST),
    "rpc parameters": (-32602, "Invalid request parameters", LOST),
    "rpc method": (-32601, "Method not found", CANNOT),
    "rpc parse": (-32700, "Parse error", CANNOT),
    "rpc 429": (429, "slow down", CANNOT),
    "rpc 503": (503, "later", CANNOT),
    "rpc closed": (-32000, "Connection closed", CANNOT),
    "rpc busy": (-32005, "Too Many Requests", CANNOT),
    "swapped": (-32602, "Unknown tool: $TOOL", "no longer has the tool"),
}
"""Fault -> code, message, and what the error of the episode says."""

MALFORMED_ANSWERS = {
    "code text": '{"jsonrpc":"2.0","id":$ID,"error":{"code":"EFAIL","message":"quota exceeded"}}',
    "code null": '{"jsonrpc":"2.0","id":$ID,"error":{"code":null,"message":"no disk"}}',
    "error words": '{"jsonrpc":"2.0","id":$ID,"error":"plain words"}',
    "error without message": '{"jsonrpc":"2.0","id":$ID,"error":{"code":-5}}',
    "null id": '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what"}}',
    "no id": '{"jsonrpc":"2.0","result":{"content":[]}}',
    "result text": '{"jsonrpc":"2.0","id":$ID,"result":"fine"}',
    "result null": '{"jsonrpc":"2.0","id":$ID,"result":null}',
    "result list": '{"jsonrpc":"2.0","id":$ID,"result":[]}',
    "neither": '{"jsonrpc":"2.0","id":$ID}',
    "version": '{"jsonrpc":"1.0","id":$ID,"result":{"content":[]}}',
    "no version": '{"id":$ID,"result":{"content":[]}}',
    "id list": '{"jsonrpc":"2.0","id":[$ID],"result":{"content":[]}}',
    "half": '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"te',
    "log before": 'loading {"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}',
    "batch": '[{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}]',
    "deep": '{"jsonrpc":"2.0","id":$ID,"result":' + '{"a":' * 3000 + "1" + "}" * 3001,
}
MESSAGE_FAULTS = {name: words for name, (_, _, words) in ERRORS.items()} | dict.fromkeys(
    MALFORMED_ANSWERS, MALFORMED
)
MESSAGE_FAULTS |= {"wrong id": OTHER, "null id": f"(?:{MALFORMED}|{CANNOT})[\\s\\S]*what"}
"""Faults that are a message -> what the error of the episode says."""

STDIO_FAULTS = MESSAGE_FAULTS | {
    "exit": GONE,
    "exit in words": r"ended with exit code 7[\s\S]*MemoryError: no board",
    "killed": "was ended by signal 9",
    "half and exit": GONE,
    "closes its output": GONE,
    "closes its input": GONE,
    "leaves a child": r"ended with exit code 7[\s\S]*MemoryError: no board",
    "page": MALFORMED,
    "bytes": MALFORMED,
    "object with the id": f"{MALFORMED}[\\s\\S]*quota",
    "passed on": LOST,
    "hang": "gave no answer",
}

EVALUATIONS = {
    "evaluation error": (
        {"content": [{"type": "text", "text": "no such board"}], "isError": True},
        "answered with an error: no such board",
    ),
    "evaluation empty": ({"content": []}, "the evaluator returned "),
    "evaluation words": (
        {"content": [{"type": "text", "text": "well played"}]},
        "the evaluator returned ",
    ),
    "evaluation null": (
        {"content": [], "structuredContent": {"reward": None}},
        "the evaluator returned ",
    ),
    "evaluation not a number": (
        {"content": [{"type": "text", "text": '{"reward": NaN}'}]},
        "the evaluator returned ",
    ),
}
"""Evaluations that are none -> the result, and what the error of the episode says."""

HEALTHY_MESSAGES = (
    "plain",
    "surrogate",
    "bad byte",
    "mark",
    "text id",
    "twice",
    "log line",
    "notice",
    "slow",
    "agent's error",
)
"""Oddities that are no fault."""


def result_of(tool: str, oddity: str = "") -> dict:
    """The result of a call."""
    if tool == "evaluate":
        return {
            "content": [{"type": "text", "text": json.dumps({"reward": REWARD})}],
            "structuredContent": {"reward": REWARD},
        }
    text = {"surrogate": "half \ud83d", "bad byte": "bad \udcff"}.get(oddity, "fine")
    return {"content": [{"type": "text", "text": text}]}


def healthy(oddity: str, tool: str, ident) -> list[bytes]:
    """The messages that answer a call well, if oddly."""
    answer = {
        "jsonrpc": "2.0",
        "id": str(ident) if oddity == "text id" else ident,
        "result": result_of(tool, oddity),
    }
    if oddity == "agent's error" and tool == "act":
        answer = {
            "jsonrpc": "2.0",
            "id": ident,
            "error": {"code": -32602, "message": "x must be small"},
        }
    ascii_only = oddity != "bad byte"
    data = json.dumps(answer, ensure_ascii=ascii_only).encode("utf-8", "surrogateescape")
    if oddity == "mark":
        data = b"\xef\xbb\xbf" + data
    before = (
        [b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}']
        if oddity == "notice"
        else []
    )
    return [*before, data, *([data] if oddity == "twice" else [])]


def faulty(fault: str, tool: str, ident) -> bytes:
    """The message that is the fault."""
    if fault in ERRORS:
        code, message, _ = ERRORS[fault]
        error = {"code": code, "message": message.replace("$TOOL", tool)}
        return json.dumps({"jsonrpc": "2.0", "id": ident, "error": error}).encode()
    if fault == "page":
        return b"<html><title>502</title></html>"
    if fault == "bytes":
        return b"\x1f\x8b\x08\x00garbage"
    if fault == "object with the id":
        return json.dumps({"detail": "quota exceeded", "id": ident}).encode()
    if fault == "passed on":
        text = {"type": "text", "text": "MCP error -32001: Session not found"}
        return json.dumps(
            {"jsonrpc": "2.0", "id": ident, "result": {"content": [text], "isError": True}}
        ).encode()
    if fault == "wrong id":
        return json.dumps({"jsonrpc": "2.0", "id": 7_000_000, "result": result_of(tool)}).encode()
    if fault in EVALUATIONS:
        return json.dumps({"jsonrpc": "2.0", "id": ident, "result": EVALUATIONS[fault][0]}).encode()
    return MALFORMED_ANSWERS[fault].replace("$ID", str(ident)).encode()


class Stage:
    """Counts calls, and says when the fault is due."""

    def __init__(self, stage: str) -> None:
        self.tool, self.number = STAGES.get(stage, ("", 0))
        self.seen = 0

    def due(self, tool: str) -> bool:
        self.seen += tool == self.tool
        return tool == self.tool and self.seen == self.number


def basic(message: dict, session: str = "faulty") -> dict:
    """The result of a request that is no call."""
    if message["method"] == "initialize":
        version = message["params"].get("protocolVersion")
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": session, "version": "1"},
        }
    return {"tools": TOOLS} if message["method"] == "tools/list" else {}


def serve(fault: str, stage: str) -> None:
    """Answer on standard output until the input ends."""
    due = Stage(stage)

    def send(data: bytes) -> None:
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()

    for line in sys.stdin:
        message = json.loads(line)
        ident = message.get("id")
        if ident is None or "method" not in message:
            continue
        if message["method"] != "tools/call":
            send(json.dumps({"jsonrpc": "2.0", "id": ident, "result": basic(message)}).encode())
            continue
        tool = message["params"]["name"]
        if not due.due(tool) and stage in STAGES:
            send(healthy("plain", tool, ident)[0])
        elif stage not in STAGES:
            if fault == "log line":
                send(b"Loading layer 3")
            if fault == "slow":
                time.sleep(0.3)
            for one in healthy(fault, tool, ident):
                if fault == "no end":
                    os.write(1, one)
                else:
                    send(one)
        elif fault == "hang":
            time.sleep(3600)
        elif fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "closes its output":
            os.close(1)
            time.sleep(3600)
        elif fault == "closes its input":
            os.close(0)
            time.sleep(3600)
        elif fault.startswith(("exit", "half and", "leaves")):
            if fault == "leaves a child":  # that holds all its pipes
                subprocess.Popen(["sleep", "600"])
            if fault == "half and exit":
                os.write(1, MALFORMED_ANSWERS["half"].encode())
            sys.stderr.write("MemoryError: no board\n")
            sys.stderr.flush()
            os._exit(7)
        else:
            send(faulty(fault, tool, ident))


if __name__ == "__main__":
    serve(*sys.argv[1:])
