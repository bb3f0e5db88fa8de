"""Stage 2, free play: settings, the Ψ-networks, replay, learning, and runs that can be stopped and resumed.

It knows features, worlds, goals and storage; what the skills are good for is not known here.
"""
