"""Draws: pseudo-random numbers in [0, 1) that pick one of a key's homes, or the rows of a sample.

A draw must be independent of the user's columns. Spark's ``rand(seed)`` is not: two columns with the same
seed are equal row by row. Draws therefore hash the row's position, or its content, with a private salt.
"""

from __future__ import annotations

from hashlib import blake2b

# purposes; the salts of two purposes are independent
HOME, CONTENT, FIRST_SAMPLE, SECOND_SAMPLE = "home", "content", "first sample", "second sample"
VALUES = "values"
_DIGEST_KEY = b"evenflow draws"
_UNIT = "1.1102230246251565E-16D"  # 2^-53


def draw_by_position(seed: int, purpose: str, streaming: bool = False) -> str:
    """Return SQL for a draw that depends on the row's partition and position.

    The expression is not deterministic: use it once, as a column, and refer to that column. A retry repeats
    the draws if the order of the rows is fixed.
    """
    salt = salt_for(seed, purpose)
    if streaming:  # streams have no row id; rand(seed) depends on the position as well
        # Spark gives it a new seed for every micro-batch. Compiled code has the seed in it, so that the query
        # would be compiled for each; Spark does not compile this function.
        return f"zip_with(array(0), array(0), (one, other) -> rand({salt}L))[0]"
    return draw_by_content(f"xxhash64({salt}L, monotonically_increasing_id())")


def draw_by_content(content: str) -> str:
    """Return SQL for a draw that depends on a 64-bit hash of the row."""
    return f"shiftrightunsigned({content}, 11) * {_UNIT}"


def salt_for(seed: int, purpose: str) -> int:
    """Return a 63-bit salt derived from the caller's seed and the purpose."""
    digest = blake2b(f"{seed} {purpose}".encode(), digest_size=8, key=_DIGEST_KEY).digest()
    return int.from_bytes(digest, "little") >> 1
