"""Worlds: what every world offers, how episodes are played in one, Spriteworld, and films of what happened.

It knows goals and storage. Nothing outside knows Spriteworld but the paper's experiments and the commands' defaults.
"""
