"""The sub-commands, one file each. Keep imports light: load numba only when a command runs."""
