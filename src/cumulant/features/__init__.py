"""Stage 1, features f: observation → [0, 1]^d: the true ones, rotated ones, or an encoder's, learnt from frames.

Features are objects that are passed along. It knows worlds, goals and storage.
"""
