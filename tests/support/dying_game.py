"""The bundled game over stdio, until it dies: `python dying_game.py FLAG STEP N WAY`.

STEP is a method (`initialize`, `tools/list`) or a tool (`setup`, `move`, `evaluate`); at its Nth
request the process ends (`die`), answers nothing (`hang`) or leaves half an answer behind (`half`).
While the file FLAG exists it serves well.
"""

from __future__ import annotations

import json
import os
import sys
import time

from hudtui.envs.text_2048 import stdio

flag, step, number, way = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
seen = 0


class DyingServer(stdio.StdioServer):
    """Answers as the game does until its step comes."""

    def _one(self, message):
        global seen
        method = message.get("method")
        here = message["params"]["name"] if method == "tools/call" else method
        seen += here == step
        if here == step and seen == number and not os.path.exists(flag):
            if way == "hang":
                time.sleep(3600)
            if way == "half":
                answer = json.dumps(
                    {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}
                )
                os.write(real, answer[:40].encode())
            sys.stderr.write("MemoryError: no room for the board\n")
            sys.stderr.flush()
            os._exit(9)
        return super()._one(message)


stdio.StdioServer = DyingServer
real = os.dup(sys.stdout.fileno())
stdio.serve(1, None, None)
