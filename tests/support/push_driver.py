"""Pushes a dataset with the real Hub client, once for every line on standard input, each in a
process that may be killed.

The client is imported once; a fork carries out each push. Before it starts, its process id is
printed; afterwards its exit status. What the push itself says goes to the file named in the line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main() -> None:
    import huggingface_hub.hf_api  # noqa: F401  (the slow part, before the forks)
    from hub_stub import quick_retries

    from hudtui.core.errors import HudtuiError
    from hudtui.core.tasks import publish
    from hudtui.core.tasks.publish import CardFacts

    quick_retries()
    publish.FIRST_WAIT = 0.02
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            publish.LONGEST_WAIT = order.get("longest_wait", publish.LONGEST_WAIT)
            publish.TRIES = order.get("tries", publish.TRIES)
            code = 0
            with Path(order["log"]).open("w") as log:
                facts = CardFacts(order["repo"], {"train": 3}, ("id", "prompt"), "tasks.json")
                files = {name: Path(path) for name, path in order["files"].items()}
                try:
                    for step in publish.push(
                        files, facts, private=order.get("private"), token=order.get("token")
                    ):
                        print(step, file=log, flush=True)
                except HudtuiError as error:
                    print(json.dumps(error.to_json()["error"]), file=log)
                    code = error.exit_code
            os._exit(code)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


main()
