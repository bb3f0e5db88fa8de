"""Many trials, here or on a Ray cluster: what they are, where they run, their folders, and one report of them all.

It knows worlds, free play and transfer; the command line and `cumulant_paper` build on it.
"""
