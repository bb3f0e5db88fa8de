"""`cumulant inspect`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cumulant.commands.inputs import SHIPPED, BadInput, Flag, LibraryGiven, at_least, key_of, usable_files
from cumulant.commands.output import doing, on_terminal, print_json, print_markdown, print_table

if TYPE_CHECKING:
    from cumulant.transfer.audit import Audit
    from cumulant.transfer.library import Library


@dataclass(frozen=True)
class Inspect:
    """Show a library's card, then audit its policies.

    Every policy is played: what it really does to every feature, beside what the Lemma says. Try: cumulant
    inspect --starts 0
    """

    out: Path = Path("inspect")  # Folder for audit.png and audit.json.
    starts: int = 200  # Starts of every policy; 0: the card alone.
    seed: int = 0  # Of the starts.
    card: Flag = False  # Keep the results on the library's card.
    json: Flag = False  # One JSON object on stdout, and nothing else.
    using: LibraryGiven = SHIPPED

    def run(self) -> None:
        """Show the card; play every policy, compare, draw."""
        with on_terminal("loading", self.json):
            from cumulant.transfer.audit import audit, check_starts
            from cumulant.transfer.cards import check_completable, complete, facts
            from cumulant.transfer.library_folders import written_card
            from cumulant.transfer.records import audited

            at_least("starts", self.starts, 0)
            folder = self.using.library if self.card else None
            if self.card and not (folder and self.starts):
                raise BadInput("--card writes what is measured into a library's folder: give one with --library DIR")
            library, key = self.using.load(), key_of(self.seed)
            if folder:
                check_completable(folder)
        if self.starts:
            check_starts(library, self.starts)
            usable_files(self.out / "audit.png", self.out / "audit.json")
        if not self.json:
            print_markdown(library.card())
        if not self.starts:
            return print_json({"card": facts(library)}) if self.json else None
        with doing(f"playing every policy from {self.starts:,} starts", self.json):
            result = audit(library, key, self.starts)
        report = _report(library, result)
        self._draw(library, result, report)
        if folder:
            kept = audited(result.moved, report["learnt_error"], self.starts, self.seed)
            library = complete(folder, kept, library)
        if self.json:
            return print_json(report | {"card": facts(library)})
        self._tell(report)
        if folder:
            print(f"Written on the card {written_card(folder)}")

    def _draw(self, library: "Library", result: "Audit", report: dict[str, Any]) -> None:
        from cumulant.commands.drawings import draw_audit
        from cumulant.storage import write_whole

        entries = {name: getattr(result, name).tolist() for name in ("true", "lemma_error")}
        with on_terminal("drawing", self.json):
            write_whole(self.out / "audit.json", json.dumps(report | {"entries": entries}).encode())
            draw_audit(self.out / "audit.png", result, library.feature_names)

    def _tell(self, report: dict[str, Any]) -> None:
        """Print what was found, for people to read."""
        told = zip(report["features"], report["lemma_error"], strict=True)
        rows = [[name, *(f"{value:.3f}" for value in row)] for name, row in told]
        title = "The Lemma's mean error, (1-γ)-scaled: policies of a row, cumulants of a column"
        print_table(title, ["", *report["features"]], rows)
        print(f"Learnt Ψ on its own feature: mean error {report['learnt_error']:.3f} against Ψ as played.")
        print(f"Independence {report['independence']:.2f}: 1 if a feature moved under its own policies alone.")
        for v in report["violations"]:
            print(f"Policies of {v['policies_of']} also move {v['move']}, by {v['by']:.2f} on average.")
        if report["violations"]:
            print("Some of it they must do, and some they do idly, once their goal is reached: it is not told apart.")
        print(f"Heat maps in {self.out / 'audit.png'}, every entry in {self.out / 'audit.json'}.")


def _report(library: "Library", result: "Audit") -> dict[str, Any]:
    """Return what an audit found, as JSON holds it."""
    import numpy as np

    from cumulant.features.disentanglement import independence
    from cumulant.transfer.cards import MOVES

    names = library.feature_names
    same = np.eye(len(names), dtype=bool)
    return {
        "features": list(names),
        "lemma_error": result.lemma_error.mean(axis=(1, 3)).tolist(),  # [policy's feature, cumulant's feature]
        "moved": result.moved.tolist(),
        "independence": independence(result.moved),
        "learnt_error": float(np.nanmean(result.learnt_error.mean(axis=1)[same])),
        "violations": [
            {"policies_of": names[i], "move": names[j], "by": float(result.moved[i, j])}
            for i, j in np.argwhere((result.moved > MOVES) & ~same)
        ],
    }
