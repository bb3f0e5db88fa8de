"""The commands that this package adds to `cumulant`: `reproduce` and `bench`."""
