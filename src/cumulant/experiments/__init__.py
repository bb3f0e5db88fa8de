"""The paper's experiments and ours: baselines, parts of figures, their run folders, statistics, pictures, speed.

It knows all that is to be measured, Spriteworld included; only web and commands build on it.
"""
