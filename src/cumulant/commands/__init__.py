"""The commands, each a frozen dataclass whose fields are its options. What a command does is imported when it runs."""
