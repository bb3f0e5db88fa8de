"""What `attack_runs.py` is made of.

A disk on which trouble happens, what is run on it, how a run is disturbed and judged, and deaths by real signals.
"""
