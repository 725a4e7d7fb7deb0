"""The public operators, one file each."""
