"""The page: `player` plays episodes with all there is to show, `api` answers requests, `server` serves both.

It knows every room but commands. Nothing is kept about anybody.
"""
