"""evenflow simulate --scheme own_scheme:Sticky,key,fill --stream zipf:z=1,messages=1e6 --workers 10"""
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from evenflow import Router, Scheme
from evenflow.kernels import kernel
from evenflow.keys import candidate

State = NamedTuple("State", [("loads", np.ndarray)])  # all of a router's state; saved automatically

class StickyRouter(Router):
    def __init__(self, scheme, place):
        super().__init__(scheme, place)
        self.state = State(np.zeros(place.workers, np.int64))
    def _route(self, keys, times, out):
        route(keys, out, self.state.loads, self.place.salt, 1 + self.scheme.slack, self.routed)

@dataclass(frozen=True)
class Sticky(Scheme):
    slack: float = 0.1  # fields are parameters: own_scheme:Sticky:slack=0.2
    name, summary = "sticky", "a key's first candidate, or the second if the first is too full"
    def new_router(self, place): return StickyRouter(self, place)

@kernel
def route(keys, out, loads, salt, limit, routed):  # compiled; one worker per row
    for i in range(keys.size):
        full = loads[candidate(keys[i], 0, salt, loads.size)] * loads.size > limit * (routed + i + loads.size)
        out[i] = candidate(keys[i], 1 if full else 0, salt, loads.size)
        loads[out[i]] += 1
