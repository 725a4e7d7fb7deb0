"""The operators that users call, one file each."""
