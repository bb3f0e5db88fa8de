"""The paper's experiments and ours: baselines, rivals, parts of figures, statistics, pictures, theory and speed.

A user of `cumulant` like any other. It adds the commands `cumulant reproduce` and `cumulant bench`.
"""
