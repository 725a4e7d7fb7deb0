"""evenflow simulate --scheme jump_hash:Jump,key,fill:split=no --stream zipf:z=1,messages=1e6 --workers 10"""
from typing import NamedTuple

import numpy as np
from evenflow import Router, Scheme, register
from evenflow.kernels import kernel
from evenflow.keys import mix

State = NamedTuple("State", [("loads", np.ndarray)])

class JumpRouter(Router):
    def __init__(self, scheme, place):
        super().__init__(scheme, place)
        self.state = State(np.zeros(place.workers, np.int64))
    def _route(self, keys, times, out): route(keys, out, self.state.loads, self.place.salt)

@kernel
def route(keys, out, loads, salt):  # Lamping and Veach, A fast, minimal memory, consistent hash algorithm
    for i in range(keys.size):
        bits, out[i], jump = mix(keys[i] ^ salt), -1, 0
        while jump < loads.size:
            out[i], bits = jump, bits * np.uint64(2862933555777941757) + np.uint64(1)
            jump = int((out[i] + 1) * (2147483648.0 / ((bits >> np.uint64(33)) + 1.0)))
        loads[out[i]] += 1

@register
class Jump(Scheme):
    name, summary, splits_keys, plannable = "jump", "jump hash: few keys move when workers join", False, True
    def new_router(self, place): return JumpRouter(self, place)
