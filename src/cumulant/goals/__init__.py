"""Goals: features cut into bins (φ), tasks over them, words for tasks, and the weights w of a task's clauses.

It knows storage alone, and no world: a goal speaks of coordinates by name.
"""
