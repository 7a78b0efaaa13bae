"""A stand-in for vLLM's HTTP server: `/metrics` in its shape, from a file that a test writes.
Loaded by path, or run:

    python vllm_server.py PORT STATE.json

STATE.json holds `running`, `waiting`, `kv`, `generated`, `prompt`; `"hang": true` makes it answer
no more, `"status": 500` with an error. The shape is that of vLLM 0.31: names from its source,
written by the Prometheus client it uses.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TEXT = """\
# HELP python_gc_objects_collected_total Objects collected during gc
# TYPE python_gc_objects_collected_total counter
python_gc_objects_collected_total{{generation="0"}} 9121.0
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="Qwen/Qwen2.5-3B-Instruct"}} {running}
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="Qwen/Qwen2.5-3B-Instruct"}} {waiting}
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0",model_name="Qwen/Qwen2.5-3B-Instruct"}} {kv}
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{{engine="0",model_name="Qwen/Qwen2.5-3B-Instruct"}} 3.0
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{engine="0",model_name="Qwen/Qwen2.5-3B-Instruct"}} {prompt}
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="Qwen/Qwen2.5-3B-Instruct"}} {generated}
# HELP vllm:generation_tokens_created Number of generation tokens processed.
# TYPE vllm:generation_tokens_created gauge
vllm:generation_tokens_created{{engine="0",model_name="Qwen/Qwen2.5-3B-Instruct"}} 1.7636543e+09
# HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket\
{{engine="0",le="0.001",model_name="Qwen/Qwen2.5-3B-Instruct"}} 0.0
vllm:time_to_first_token_seconds_bucket\
{{engine="0",le="+Inf",model_name="Qwen/Qwen2.5-3B-Instruct"}} 12.0
vllm:time_to_first_token_seconds_sum{{engine="0",model_name="Qwen/Qwen2.5-3B-Instruct"}} 1.25
"""
BUSY = {"running": 12.0, "waiting": 3.0, "kv": 0.25, "generated": 1000.0, "prompt": 5000.0}


def text(**state: Any) -> str:
    """The page for a state of the server; what is not given is as in `BUSY`."""
    return TEXT.format(**{**BUSY, **state})


def make_server(state: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on loopback that is not serving yet."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = json.loads(state.read_text())
            while found.get("hang"):
                time.sleep(0.05)
                found = json.loads(state.read_text())
            page = text(**found).encode() if self.path == "/metrics" else b"{}"
            self.send_response(found.get("status", 200))
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    return server


if __name__ == "__main__":
    with make_server(Path(sys.argv[2]), int(sys.argv[1])) as running:
        running.serve_forever()
