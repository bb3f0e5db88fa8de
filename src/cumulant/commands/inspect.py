"""`cumulant inspect`."""

import json
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import OmitArgPrefixes

from cumulant.commands.inputs import SHIPPED, Flag, LibraryOptions, at_least, key_of, usable_files
from cumulant.commands.output import doing, on_terminal, print_json, print_table

_MOVED = 0.05  # a feature that moves further under another's policies is told of


@dataclass(frozen=True)
class Inspect:
    """Audit the off-diagonal trick: what each policy really does to every feature, against what the Lemma assumes."""

    using: OmitArgPrefixes[LibraryOptions] = SHIPPED  # With what to act.
    out: Path = Path("inspect")  # Folder for audit.png and audit.json.
    starts: int = 200  # Random starts from which every policy is played.
    seed: int = 0  # Of the starts.
    json: Flag = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Play every policy, compare, draw."""
        with on_terminal("loading", self.json):
            import numpy as np

            from cumulant.experiments.drawings import draw_audit
            from cumulant.features.disentanglement import independence
            from cumulant.storage import write_whole
            from cumulant.transfer.audit import audit, check_starts

            at_least("starts", self.starts, 1)
            library, key = self.using.load(), key_of(self.seed)
        check_starts(library, self.starts)
        usable_files(self.out / "audit.png", self.out / "audit.json")
        with doing(f"playing every policy from {self.starts:,} starts", self.json):
            result, names = audit(library, key, self.starts), library.feature_names
        same = np.eye(len(names), dtype=bool)
        by_feature = result.lemma_error.mean(axis=(1, 3))  # [policy's feature, cumulant's feature]
        learnt = np.nanmean(result.learnt_error.mean(axis=1)[same])
        report = {
            "features": list(names),
            "lemma_error": by_feature.tolist(),
            "moved": result.moved.tolist(),
            "independence": independence(result.moved),
            "learnt_error": float(learnt),
            "violations": [
                {"policies_of": names[i], "move": names[j], "by": float(result.moved[i, j])}
                for i, j in np.argwhere((result.moved > _MOVED) & ~same)
            ],
        }
        entries = {name: getattr(result, name).tolist() for name in ("true", "lemma_error")}
        with on_terminal("drawing", self.json):
            write_whole(self.out / "audit.json", json.dumps(report | {"entries": entries}).encode())
            draw_audit(self.out / "audit.png", result, names)
        if self.json:
            return print_json(report)
        rows = [[name, *(f"{value:.3f}" for value in by_feature[i])] for i, name in enumerate(names)]
        print_table(
            "The Lemma's mean error, (1-γ)-scaled: policies of a row, cumulants of a column", ["", *names], rows
        )
        print(f"Learnt Ψ on its own feature: mean error {learnt:.3f} against Ψ as played.")
        print(f"Independence {report['independence']:.2f}: 1 if a feature moved under its own policies alone.")
        for v in report["violations"]:
            print(f"Policies of {v['policies_of']} also move {v['move']}, by {v['by']:.2f} on average.")
        if report["violations"]:
            print("Some of it they must do, and some they do idly, once their goal is reached: it is not told apart.")
        print(f"Heat maps in {self.out / 'audit.png'}, every entry in {self.out / 'audit.json'}.")
