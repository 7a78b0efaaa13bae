"""Are the task files that hudtui writes what SkyPilot itself takes? Asks the real package, which is
not one of the tests' needs.

    python -m venv /tmp/sky && /tmp/sky/bin/pip install skypilot
    python tests/conformance/sky_task.py /tmp/sky/bin/python

Each task goes to the package's own validation in a process of its own, where nothing is launched.
Files that must be refused are among them, so that a validation that lets everything pass is seen.
Prints a table; the exit status is 1 when one came out wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from hudtui.core.compute.skypilot import parse_offers, task_file
from hudtui.core.compute.values import Order

_ASK = """
import json, sys
import yaml
from sky.utils import common_utils, schemas
answers = {}
for name, text in json.load(sys.stdin).items():
    task = yaml.safe_load(text)
    try:
        common_utils.validate_schema(task, schemas.get_task_schema(), "")
        common_utils.validate_schema(task["resources"], schemas.get_resources_schema(), "")
        answers[name] = None
    except ValueError as error:
        answers[name] = " ".join(str(error).split())[:80]
print(json.dumps(answers))
"""


def tasks() -> dict[str, tuple[str, bool]]:
    """The files by what is special about them, and whether they are to be taken."""
    row = {
        "cloud": "Lambda",
        "instance_type": "gpu_8x_a100",
        "accelerator_name": "A100-80GB",
        "accelerator_count": 8.0,
        "price": 10.32,
        "spot_price": 4.0,
        "region": "us-east-1",
    }
    plain, spot = parse_offers({"A": [row]})
    (pods,) = parse_offers(
        {
            "H": [
                {
                    **row,
                    "cloud": "Kubernetes",
                    "instance_type": None,
                    "region": "my-context",
                    "price": 0.0,
                }
            ]
        }
    )[:1]
    (nowhere,) = parse_offers({"H": [{**row, "region": None, "spot_price": None}]})
    order = Order("hudtui-conformance", plain)

    def text(order: Order) -> str:
        return task_file(order, idle_minutes=10, max_hours=24.0)

    good = {
        "on demand": order,
        "spot": replace(order, offer=spot),
        "Kubernetes": replace(order, offer=pods),
        "without a region": replace(order, offer=nowhere),
        "disk and image": replace(order, disk_gb=250.5, image="docker:ubuntu:22.04"),
    }
    taken = {name: (text(one), True) for name, one in good.items()}
    whole = text(order)
    return taken | {
        "an unknown key": (whole + "hours: 3\n", False),
        "idle minutes as text": (whole.replace("idle_minutes: 10", "idle_minutes: soon"), False),
        "an unknown cloud": (whole.replace("infra: lambda", "infra: nowhere"), False),
        "spot as a word": (whole.replace("use_spot: false", "use_spot: perhaps"), False),
    }


def main() -> int:
    """Ask, and print the table."""
    asked = tasks()
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.argv[1], "-c", _ASK],
            input=json.dumps({name: text for name, (text, _) in asked.items()}),
            capture_output=True,
            text=True,
            check=True,
            env={
                "HOME": home,
                "PATH": str(Path(sys.argv[1]).parent),
                "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
            },
        )
    answers = json.loads(done.stdout.strip().splitlines()[-1])
    wrong = 0
    for name, (_, fine) in asked.items():
        right = (answers[name] is None) == fine
        wrong += not right
        print(
            f"{'ok   ' if right else 'WRONG'}  {name:<22} "
            f"{'taken' if answers[name] is None else 'refused: ' + answers[name]}"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main())
