"""The sub-commands, one file each. Light to import: what needs numba is imported when a command runs."""
