"""Draws: the number in [0, 1) that picks one of a key's homes, or the rows of a sample.

A draw must not repeat what a column of the user's was made with. Spark's ``rand(seed)`` does: two of one seed
are equal, row by row. So draws hang on the row's position and on a constant of ours that nobody else has.
"""

from __future__ import annotations

from hashlib import blake2b

# what a constant is for; those of two purposes have nothing in common
HOME, CONTENT, FIRST_SAMPLE, SECOND_SAMPLE = "home", "content", "first sample", "second sample"
_OURS = b"evenflow draws"
_UNIT = "1.1102230246251565E-16D"  # 2^-53


def draw_by_position(seed: int, purpose: str, streaming: bool = False) -> str:
    """Return a number in [0, 1) that hangs on the row's partition and position, as SQL.

    It may stand once in a projection, like all that is not deterministic: what it is used for refers to the
    column. A retry repeats it where the order of rows is fixed.
    """
    constant = own_constant(seed, purpose)
    if streaming:  # Spark has no position in streams; rand counts rows too
        return f"rand({constant}L)"
    return draw_by_content(f"xxhash64({constant}L, monotonically_increasing_id())")


def draw_by_content(content: str) -> str:
    """Return a number in [0, 1) that hangs on 64 bits of what the row holds, as SQL."""
    return f"shiftrightunsigned({content}, 11) * {_UNIT}"


def own_constant(seed: int, purpose: str) -> int:
    """Return 63 bits that hang on the caller's seed and the purpose."""
    digest = blake2b(f"{seed} {purpose}".encode(), digest_size=8, key=_OURS).digest()
    return int.from_bytes(digest, "little") >> 1
