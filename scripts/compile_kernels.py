"""Compile the kernels of all schemes once, instead of once in each process of the tests.

python scripts/compile_kernels.py

numba keeps compiled kernels beside the modules; where they are, this takes two seconds.
"""

from __future__ import annotations

import evenflow as ef
from evenflow.simulator import simulate

STREAM = "zipf:z=1.4,keys=1000,messages=1e4"

if __name__ == "__main__":
    for name in ef.list_schemes():
        simulate(name, STREAM, workers=5)
        router = ef.scheme(name).router(5)
        router.route(ef.hash_keys([1, 2, 3]))
        ef.Router.from_bytes(router.to_bytes()).route(ef.hash_keys([1, 2, 3]))
