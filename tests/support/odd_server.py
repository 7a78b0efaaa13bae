"""An MCP server over stdio that misbehaves as told: `python odd_server.py MODE [ARGUMENT]`.
Standard library only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

mode = sys.argv[1]
argument = sys.argv[2] if len(sys.argv) > 2 else ""
seen = {}
GOOD = {
    "name": "good",
    "description": "Works",
    "inputSchema": {"type": "object", "properties": {"x": {"type": "integer"}}},
}


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tools():
    if mode == "malformed":
        return [
            {"name": "no_schema", "description": "Old and bare"},
            {"name": "bad_schema", "inputSchema": "object"},
            {"description": "nameless", "inputSchema": {"type": "object"}},
            "not even an object",
            {"name": "odd_description", "description": 7, "inputSchema": {"type": "object"}},
            GOOD,
            GOOD,
        ]
    if mode == "many":
        return [
            {
                "name": f"tool_{n}",
                "description": f"Tool number {n} of many, with a description of some length",
                "inputSchema": {
                    "type": "object",
                    "properties": {"x": {"type": "integer"}, "name": {"type": "string"}},
                },
            }
            for n in range(int(argument))
        ]
    if mode == "lifecycle":
        hub = {
            "type": "object",
            "properties": {"name": {"enum": ["a", "b"]}, "arguments": {"type": "object"}},
        }
        plain = {"type": "object", "properties": {}}
        return [
            {"name": "setup", "inputSchema": hub},
            {"name": "evaluate", "inputSchema": plain},
            {"name": "response", "inputSchema": plain},
            {"name": "int_a", "inputSchema": plain},
            {"name": "int_other", "inputSchema": plain},
            GOOD,
        ]
    if mode == "output_schema":
        return [
            {
                **GOOD,
                "outputSchema": {
                    "type": "object",
                    "properties": {"y": {"type": "string"}},
                    "required": ["y"],
                },
            }
        ]
    return [GOOD]


def call(params):
    if mode == "die_in_call":
        sys.stderr.write("Traceback\nRuntimeError: out of tiles\n")
        sys.stderr.flush()
        os._exit(7)
    if mode == "leaves_a_child":  # that holds all its pipes
        subprocess.Popen(["sleep", "600"])
        sys.stderr.write("RuntimeError: out of tiles\n")
        sys.stderr.flush()
        os._exit(7)
    if mode == "closes_input":
        os.close(0)
        time.sleep(3600)
    if mode == "hang_in_call":
        while True:
            time.sleep(3600)
    if mode == "big":
        return {"content": [{"type": "text", "text": "x" * int(argument)}]}
    if mode == "echo_key":
        key = os.environ.get("MY_API_KEY")
        return {
            "content": [{"type": "text", "text": f"the key is {key}"}],
            "structuredContent": {str(key): [key]},
        }
    if mode == "values":
        return {"content": [], "structuredContent": {"a": [{}] * int(argument)}}
    if mode == "asks":
        for n in range(int(argument)):
            send({"jsonrpc": "2.0", "id": f"q{n}", "method": "roots/list"})
            send(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/message",
                    "params": {"level": "info", "data": n},
                }
            )
    if (
        mode == "put"
    ):  # ask the client what the argument says, and answer the call with what it answers
        send({"jsonrpc": "2.0", "id": "put", **json.loads(argument)})
        while (answered := json.loads(sys.stdin.readline())).get(
            "id"
        ) != "put" or "method" in answered:
            pass
        return {
            "content": [
                {
                    "type": "text",
                    "text": json.dumps(answered.get("result") or answered.get("error")),
                }
            ]
        }
    if mode == "capabilities":
        return {"content": [{"type": "text", "text": json.dumps(seen["capabilities"])}]}
    if mode == "blocks":
        return {
            "content": [
                {"type": "text", "text": "one"},
                {"type": "hologram", "shape": "cube"},
                {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
                {"type": "resource_link", "uri": "file:///b", "name": "b"},
                "bare",
                5,
            ],
            "isError": False,
        }
    if mode == "output_schema":
        return {"content": [], "structuredContent": {"y": 5}}
    if mode == "ask":
        return {"resultType": "input_required", "inputRequests": {}, "requestState": "x"}
    return {
        "content": [{"type": "text", "text": json.dumps(params.get("arguments"))}],
        "isError": False,
    }


def answer(message):
    method, params, ident = message["method"], message.get("params") or {}, message["id"]
    ok = lambda result: send({"jsonrpc": "2.0", "id": ident, "result": result})  # noqa: E731

    def no(code, text):
        send({"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": text}})

    capabilities = {"tools": {}}
    if mode == "lifecycle":
        capabilities["resources"] = {}
    if mode == "no_tools":
        capabilities = {}
    if mode == "modern":
        if method == "server/discover":
            stamp = {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "9"}}
            body = {
                "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities,
                "resultType": "complete",
            }
            return ok({**body, "ttlMs": 0, "cacheScope": "public", "_meta": stamp})
        if method == "initialize":
            return no(-32022, "Unsupported protocol version")
    if method == "initialize":
        seen.update(params)
        version = argument if mode == "version" else params["protocolVersion"]
        name = "odd\x1b[31m"
        return ok(
            {
                "protocolVersion": version,
                "capabilities": capabilities,
                "serverInfo": {"name": name, "version": "1"},
            }
        )
    if method == "tools/list":
        if mode == "list_error":
            return no(-32603, "the list is lost")
        if mode == "no_list":
            return ok({"tools": "none"})
        if mode == "circle":
            return ok(
                {"tools": [{**GOOD, "name": f"t{time.monotonic_ns()}"}], "nextCursor": "again"}
            )
        if mode == "pages":
            at = int(params.get("cursor") or 0)
            page = {"tools": [{**GOOD, "name": f"page_{at}_{n}"} for n in range(3)]}
            return ok({**page, "nextCursor": str(at + 1)} if at < 4 else page)
        return ok({"tools": tools()})
    if method == "tools/call":
        if (
            mode == "raw"
            # these bytes for an answer, with the call's id in place of $ID and the one before it of
            # $LAST
        ):
            line = (
                os.fsencode(argument)
                .replace(b"$ID", str(ident).encode())
                .replace(b"$LAST", str(ident - 1).encode())
            )
            sys.stdout.buffer.write(line + b"\n")
            return sys.stdout.buffer.flush()
        if mode == "unended":
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": ident, "result": {"content": []}}))
            return sys.stdout.flush()
        if mode == "rpc_error":
            return no(*json.loads(argument))
        if mode == "refuse_call":
            return no(-32602, "no such tool here")
        return ok(call(params))
    if method == "resources/list":
        return ok(
            {
                "resources": [
                    {"uri": "file:///evaluate/functions", "name": "f"},
                    {"name": "without address"},
                ]
            }
        )
    if method == "resources/read":
        return ok({"contents": [{"uri": params["uri"], "text": json.dumps(["score", "speed"])}]})
    return no(-32601, "Method not found")


if mode == "die":
    sys.stderr.write("loading\n\x1b[31mValueError: no board\x1b[0m\n")
    sys.exit(3)
if mode == "die_silently":
    sys.exit(4)
if mode == "tell_secret":
    sys.stderr.write(f"bad key {os.environ.get('MY_API_KEY')}\n")
    sys.exit(1)
if mode in ("hang", "stubborn", "family"):
    if mode != "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "family":
        subprocess.Popen([sys.executable, __file__, "stubborn", argument], stdin=subprocess.DEVNULL)
    sys.stderr.write("waiting for a licence\n")
    sys.stderr.flush()
    while True:
        time.sleep(3600)
if mode == "flood":
    for n in range(20_000):
        sys.stderr.write(f"line {n} of a very talkative server, which never stops talking\n")
    sys.stderr.flush()
if mode == "junk":
    for n in range(50):
        print(f"Loading layer {n}")
    print(json.dumps({"level": "info"}), flush=True)
if mode == "only_junk":
    while True:
        print("y")
if mode == "stays":  # serves, and then neither ends with its input nor when told to
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

if mode == "follows" and os.fork():  # the child serves on
    os._exit(0)

for line in sys.stdin:
    if line.strip():
        message = json.loads(line)
        if "id" in message and "method" in message:
            answer(message)
        if mode == "junk":
            print("still here", flush=True)
if mode == "stays":
    while True:
        time.sleep(3600)
