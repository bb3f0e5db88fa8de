"""Write what the page tells of DQN, src/cumulant/web/dqn_steps.json, from what is recorded in paper/results/.

After `cumulant reproduce sample-complexity --out paper/results`.
"""

import json
from pathlib import Path

from cumulant_paper.statistics import MARGIN

PAPER = Path(__file__).parents[1]
RECORDED, RUN = PAPER / "results" / "sample-complexity.json", PAPER / "results" / "runs" / "dqn"
WRITTEN = PAPER.parent / "src" / "cumulant" / "web" / "dqn_steps.json"


def dqn_steps() -> dict:
    """Return the steps until DQN's success comes within the margin of the library's, by class; null for never."""
    results = json.loads(RECORDED.read_text())
    classes, (device,) = results["ours"]["classes"], results["devices"]
    world = json.loads((RUN / "config.json").read_text())["settings"]["world"]
    return {
        "world": {"kind": "Spriteworld", **world},
        "source": f"Steps on one task until DQN succeeds as often as our library, less {MARGIN}: mean over tasks and "
        f"seeds, recorded on one {device} by cumulant reproduce sample-complexity.",
        "most": round(max(each["scratch_at_least"] for each in classes)),
        "steps": {each["kind"]: each["scratch"] and round(each["scratch"]) for each in classes},
    }


if __name__ == "__main__":
    WRITTEN.write_text(json.dumps(dqn_steps(), indent=2) + "\n")
    print(WRITTEN)
