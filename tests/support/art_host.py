"""Runs workers of ART one after the other in one process, because importing ART takes seconds.

Reads a JSON object a line (`call`, `argv`, `cwd`, `env`) and answers each with one: `code` and
`output`. `call` is `worker`, or `inside` for `tests/trainers/inside_art.py`.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from hudtui.trainers import art_worker

_INSIDE = Path(__file__).parents[1] / "trainers" / "inside_art.py"


def carry_out(job: dict[str, Any]) -> int:
    """Do one job in this process. Returns the status that its process would have."""
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    try:
        if job["call"] == "worker":
            art_worker.main(job["argv"])
        sys.argv[:] = [str(_INSIDE), *job["argv"]]
        runpy.run_path(str(_INSIDE), run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Answer jobs until standard input ends. What a job prints goes into its answer."""
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        with tempfile.TemporaryFile() as output:
            for number in (1, 2):
                os.dup2(output.fileno(), number)
            code = carry_out(json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            output.seek(0)
            text = output.read().decode(errors="replace")
        answers.write(json.dumps({"code": code, "output": text}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
