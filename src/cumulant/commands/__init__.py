"""The command line: each command a frozen dataclass whose fields are its options.

It knows every room, and is known by none. What a command does is imported when it runs, so that --help is instant.
"""
