"""What comes from disk is not trusted: some of the hostile folders and the damage of tools/attack_folders.py."""

import attack_folders as attack


def test_hostile_folders_are_refused_in_one_line_and_run_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(attack, "SECONDS", float("inf"))
    monkeypatch.setattr(attack, "PROCESS_SECONDS", float("inf"))
    assert attack.attack_hostile(tmp_path, most=60, processes=1)


def test_damage_is_refused_or_does_not_matter(tmp_path):
    """To libraries, encoders, checkpoints, run folders and metrics: bits, ends, files of others, pipes."""
    assert attack.attack_damage(tmp_path, times=120, seed=1)
