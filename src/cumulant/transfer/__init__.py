"""Stage 3, transfer: from Ψ and a goal to actions (GPI), from rewards to weights, and the library that keeps it all.

It knows every room but experiments, web and commands.
"""
