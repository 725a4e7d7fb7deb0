"""Every mutant: what is broken, by which edits, and the figures whose claims must notice."""

from __future__ import annotations

from collections.abc import Callable

from mutants.mutant import Edit, Mutant

_SOLVED = "state.choices[0] = solve_choices(shares, size, state.loads.size, epsilon, distinct)"
_D, _W, _RR, _PKG = "d-choices", "w-choices", "round-robin-head", "partial-key"
_HEAD = (_D, _W, _RR)
_CG = ("CG", "CG, binary signals", "CG, binary signals, slots of 1000")
_PORC = ("PoRC", *_CG)


def _of(paper: str, *touches: str) -> Callable[..., Mutant]:
    """Return a constructor of mutants of one paper, whose figures are numbers or names."""

    def mutant(name: str, idea: str, *edits: Edit, figures: tuple[int | str, ...],
               touches: tuple[str, ...] = touches, survives: str = "") -> Mutant:  # fmt: skip
        found = tuple(
            f"{paper}/fig{part}" if isinstance(part, int) else f"{paper}/{part}" for part in figures
        )
        return Mutant(name, idea, edits, found, touches, survives)

    return mutant


_choices, _heterogeneous, _functions = _of("choices"), _of("heterogeneous"), _of("functions")
_fish, _dynamic = _of("evolving", "fish"), _of("dynamic", "dynamic-key")


def _utility_of(algorithm: str, utility: int) -> Edit:
    """Make one algorithm compare placements by the utility of another number."""
    old = "UTILITIES.index(utility)]"
    return Edit("schemes/key_placement.py", old, f'{utility} if algorithm == "{algorithm}" else {old}')


_ONLY_MIGRATION = Edit(
    "schemes/key_placement.py",
    "    if which == _A:\n        return rho\n",
    "    if which == _A:\n        return rho\n    if which == 5:\n        return gamma\n",
)


def _without_old(algorithm: str) -> tuple[Edit, ...]:
    """Hide the old map from one algorithm: every placement counts as a move, readj starts from the ring."""
    file = "schemes/key_placement.py"
    if algorithm == "readj":
        return (Edit(file, "np.where(old < workers, old, ring)", "ring"),)
    hidden = f'np.full(old.size, -1, np.int32) if algorithm == "{algorithm}" else old.astype(np.int32)'
    return (Edit(file, "old=old.astype(np.int32),", f"old={hidden},"),)


CHOICES = (
    _choices("dc-all-workers", "D-C gives the head all workers instead of solving for d",
             Edit("schemes/d_choices.py", _SOLVED, "state.choices[0] = state.loads.size"),
             figures=("head", 5), touches=(_D,)),
    _choices("dc-two-workers", "D-C gives the head two workers instead of solving for d",
             Edit("schemes/d_choices.py", _SOLVED, "state.choices[0] = 2"),
             figures=("head", 10, 13, 14), touches=(_D,)),
    _choices("dc-solves-once", "D-C keeps the d of its first look at the head",
             Edit("schemes/d_choices.py", "state.choices[1] = total + min(total, state.sketch.keys.size)",
                  "state.choices[1] = 2**62"),
             figures=("head",), touches=(_D,)),
    _choices("dc-first-key-only", "D-C's solver tests Prop. 4.1 for the hottest key alone",
             Edit("schemes/choices_solver.py", "            if h > size:\n", "            if h > 0:\n"),
             figures=(9,), touches=(_D,)),
    _choices("head-threshold-half", "a key is hot from half of theta on",
             Edit("schemes/head.py", "return 1 / (5 * workers) if", "return 1 / (10 * workers) if"),
             figures=("head", 3), touches=_HEAD),
    _choices("head-threshold-times-5", "a key is hot from five times theta on",
             Edit("schemes/head.py", "return 1 / (5 * workers) if", "return 1 / workers if"),
             figures=("head", 3), touches=_HEAD),
    _choices("sketch-a-fifth", "SpaceSaving has a fifth of its counters",
             Edit("schemes/head.py", "return max(1000, 10 * workers,", "return max(200, 2 * workers,"),
             figures=("head", 3), touches=_HEAD),
    _choices("sketch-never-replaces", "SpaceSaving keeps the keys it has, once it is full for a while",
             Edit("sketches/space_saving.py", "    entry = c.bucket_first[c.ends[1]]\n    table_remove",
                  "    entry = c.bucket_first[c.ends[1]]\n    if c.total[0] > 10 * c.keys.size:\n"
                  "        return entry\n    table_remove"),
             figures=(11, 12), touches=_HEAD),
    _choices("wc-random", "W-C sends head keys to workers at random",
             Edit("schemes/w_choices.py", "worker = least_of_all(loads, state.cursor, offset)",
                  "worker = np.int64(mix(np.uint64(state.sketch.total[0])) % np.uint64(loads.size))"),
             Edit("schemes/w_choices.py", "from evenflow.schemes.base import RouterPlace",
                  "from evenflow.keys import mix\nfrom evenflow.schemes.base import RouterPlace"),
             figures=(7, 10, 13, 14), touches=(_W,)),
    _choices("wc-round-robin", "W-C sends head keys to all workers in turn, as RR does",
             Edit("schemes/w_choices.py", "worker = least_of_all(loads, state.cursor, offset)",
                  "worker = state.cursor[1]\n            state.cursor[1] = (worker + 1) % loads.size"),
             figures=(7, 8, 10), touches=(_W,)),
    _choices("wc-tail-one-choice", "D-C, W-C and RR hash tail keys to one worker",
             Edit("schemes/head.py", "return other if loads[other] < loads[worker] else worker",
                  "return worker"),
             figures=(7,), touches=_HEAD),
    _choices("pkg-one-choice", "PKG takes the first of its two candidates always",
             Edit("schemes/partial_key.py", "if loads[other] < loads[worker]:", "if loads[other] < 0:"),
             figures=(8, 10, 14), touches=(_PKG,)),
    _choices("pkg-heavier", "PKG takes the more loaded of its two candidates",
             Edit("schemes/partial_key.py", "if loads[other] < loads[worker]:",
                  "if loads[other] > loads[worker]:"),
             figures=(10,), touches=(_PKG,)),
    _choices("rr-by-load", "RR sends head keys to the least loaded worker, as W-C does",
             Edit("schemes/round_robin_head.py", "            worker = turn\n",
                  "            worker = np.int64(np.argmin(loads))\n"),
             figures=(7, 8), touches=(_RR,)),
)  # fmt: skip

HETEROGENEOUS = (
    _heterogeneous("porc-unbounded", "PoRC never rehashes, however full a worker is",
                   Edit("schemes/random_choices.py", "if loads[worker] >= capacity:", "if capacity < 0:"),
                   figures=(4, "tree"), touches=_PORC),
    _heterogeneous("porc-epsilon-times-10", "PoRC allows ten times epsilon",
                   Edit("schemes/random_choices.py", "self.place.salt, float(self.scheme.epsilon))",
                        "self.place.salt, 10 * float(self.scheme.epsilon))"),
                   figures=(4, "bound"), touches=_PORC),
    _heterogeneous("porc-epsilon-a-tenth", "PoRC allows a tenth of epsilon",
                   Edit("schemes/random_choices.py", "self.place.salt, float(self.scheme.epsilon))",
                        "self.place.salt, float(self.scheme.epsilon) / 10)"),
                   figures=(4,), touches=_PORC),
    _heterogeneous("porc-least-loaded", "PoRC sends what overflows to the least loaded worker",
                   Edit("schemes/random_choices.py",
                        "worker = _overflow(key, hashed, loads, capacity, cache, salt)",
                        "worker = np.int64(np.argmin(loads))"),
                   figures=(4, 5, "hitters"), touches=_PORC),
    _heterogeneous("summary-says-exact", "SpaceSaving says that its counts are exact",
                   Edit("sketches/space_saving.py", "if c.ends[0] == self.capacity else 0", "* 0"),
                   figures=("hitters",)),
    _heterogeneous("ch-unbounded", "bounded-load hashing never skips a full worker",
                   Edit("schemes/bounded_load.py", "while filled[ring.owners[position]] >= capacity:",
                        "while capacity < 0:"),
                   figures=(4,), touches=("CH",)),
    _heterogeneous("potc-one-choice", "PoTC takes the first of its two workers always",
                   Edit("schemes/two_choices.py", "if loads[other] < loads[worker]", "if loads[other] < 0"),
                   figures=(4,), touches=("PoTC",)),
    _heterogeneous("cg-never-moves", "CG never moves a virtual worker",
                   Edit("schemes/consistent.py", "        if report.signal is None:\n",
                        "        if report.signal is None or True:\n"),
                   figures=(8, 14, 6), touches=_CG),
    _heterogeneous("cg-moves-at-random", "CG moves virtual workers between workers drawn at random",
                   Edit("schemes/consistent.py", "    virtual = a.top[giver]\n",
                        "    drawn = mix(np.uint64(a.counts[0]))\n"
                        "    taker = np.int64(drawn % np.uint64(a.held.size))\n"
                        "    giver = np.int64((drawn >> np.uint64(32)) % np.uint64(a.held.size))\n"
                        "    if a.held[giver] <= 1:\n        return\n"
                        "    virtual = a.top[giver]\n"),
                   Edit("schemes/consistent.py", "from evenflow.schemes.base import BusySignals,",
                        "from evenflow.keys import mix\nfrom evenflow.schemes.base import BusySignals,"),
                   figures=(8, 14, 9), touches=_CG),
    _heterogeneous("cg-ignores-capacity", "CG's workers signal as if all had the same capacity",
                   Edit("schemes/consistent.py", "capacity = np.asarray(capacity, np.float64) * seconds",
                        "capacity = np.full(work.shape, np.mean(capacity)) * seconds"),
                   figures=(8, 14), touches=_CG),
    _heterogeneous("cg-moves-backwards", "CG moves virtual workers from idle to busy workers",
                   Edit("schemes/consistent.py", "    virtual = a.top[giver]\n",
                        "    giver, taker = taker, giver\n    if a.held[giver] <= 1:\n        return\n"
                        "    virtual = a.top[giver]\n"),
                   figures=(8, 14), touches=_CG),
    _heterogeneous("cg-never-idle", "CG's workers never signal idle",
                   Edit("schemes/consistent.py", "    signal[work + noise < idle * capacity] = IDLE\n", ""),
                   Edit("schemes/consistent.py", "    signal[work < idle * capacity] = PERHAPS * IDLE\n", ""),
                   figures=(8, 12, 14), touches=_CG),
    _heterogeneous("cg-noise", "CG moves virtual workers on noise: every signal counts as sure",
                   Edit("schemes/consistent.py", "certainty: float = 3.0", "certainty: float = 0.0"),
                   Edit("schemes/consistent.py", "patience: int = 20", "patience: int = 1"),
                   figures=(13,), touches=("CG",)),
    _heterogeneous("cg-one-virtual-worker", "CG has one virtual worker per worker",
                   Edit("schemes/consistent.py", "self._start(scheme.virtual_workers * place.workers)",
                        "self._start(place.workers)"),
                   figures=(8, 14), touches=_CG),
)  # fmt: skip

_WIDTH = "        width = max(width, d, least)\n"
EVOLVING = (
    _fish("chk-all-workers", "CHK gives every hot key all workers",
          Edit("schemes/fish.py", _WIDTH, "        width = state.loads.size\n"), figures=(15,)),
    _fish("chk-two-workers", "CHK gives every hot key two workers",
          Edit("schemes/fish.py", _WIDTH, "        width = 2\n"), figures=(10, 18)),
    _fish("counters-ignored", "D-C and W-C have as many counters as they like, whatever is asked",
          Edit("schemes/head.py", "    if capacity is not None:\n", "    if capacity is None:\n"),
          Edit("schemes/head.py", "        return capacity\n", "        return 1000\n"),
          figures=(3,), touches=(_D, _W)),
    _fish("chk-not-by-frequency", "CHK gives every hot key d_min workers, however hot it is",
          Edit("schemes/fish.py", _WIDTH, "        width = least\n"), figures=("epochs", 15)),
    _fish("fish-no-decay", "FISH counts without decay",
          Edit("schemes/fish.py", "decay: float = 0.2", "decay: float = 1.0"), figures=("epochs", 10)),
    _fish("fish-forgets", "FISH forgets all counts at the end of an epoch",
          Edit("schemes/fish.py", "decay: float = 0.2", "decay: float = 0.0"), figures=("epochs", 12)),
    _fish("fish-epochs-times-10", "FISH's epochs are ten times longer",
          Edit("schemes/fish.py", "epoch: int = 1000", "epoch: int = 10000"), figures=("epochs",)),
    _fish("fish-no-inference", "FISH never subtracts what workers have served",
          Edit("schemes/fish.py", "left = state.queued[worker] - whole", "left = state.queued[worker]"),
          figures=(16,)),
    _fish("fish-ignores-speed", "FISH takes all workers to be equally fast",
          Edit("schemes/fish.py", "state.cost[:] = sources * seconds",
               "state.cost[:] = sources * np.mean(seconds)"), figures=(16,)),
    _fish("fish-no-floor", "FISH divides counts by the decayed total alone, and one message can be hot",
          Edit("schemes/fish.py", "return max(sketch.sums[TOTAL], float(rules.epoch))",
               "return sketch.sums[TOTAL]"),
          Edit("schemes/fish.py", "FEWEST = 2.0", "FEWEST = 0.0"), figures=(11,)),
    _fish("fish-threshold-times-8", "a key is hot for FISH from 2/n on",
          Edit("schemes/fish.py", "return 1 / (4 * workers) if self.theta is None",
               "return 2 / workers if self.theta is None"), figures=(10, 13)),
    _fish("fish-no-ring", "FISH takes candidates modulo n although a ring was asked for",
          Edit("schemes/fish.py", "ringed = scheme.ring and place.workers > 1", "ringed = False"),
          figures=(17,)),
)  # fmt: skip

DYNAMIC = (
    _dynamic("dkg-no-scale-down", "DKG never takes a worker away from a key",
             Edit("schemes/dynamic_key.py", "elif width > 2 and below >= 2:", "elif width < 0:"),
             figures=("widths",)),
    _dynamic("dkg-no-scale-up", "DKG never gives a key a third worker",
             Edit("schemes/dynamic_key.py", "if width < rules.limit and", "if width < 0 and"),
             figures=("table3", "widths", 12)),
    _dynamic("dkg-key-space-a-tenth", "DKG's key space has a tenth of its size",
             Edit("schemes/dynamic_key.py", "expected_keys: int = 100", "expected_keys: int = 10"),
             figures=("widths",)),
    _dynamic("dkg-every-key", "DKG widens keys of every age, not old ones alone",
             Edit("schemes/dynamic_key.py", "(at >= 0 or space.space[item] == OLD)", "(at >= -1)"),
             Edit("schemes/dynamic_key.py",
                  "if state.space.space[item] == OLD and _percent(state, worker) >= rules.threshold:",
                  "if _percent(state, worker) >= rules.threshold:"),
             figures=("widths",)),
    _dynamic("dkg-all-at-once", "DKG widens a key without a limit and without waiting a minute",
             Edit("schemes/dynamic_key.py", "now - state.checked[item] >= rules.check_every", "now >= 0"),
             Edit("schemes/dynamic_key.py", "if width < rules.limit and", "if width < n and"),
             figures=("widths",)),
    _dynamic("dkg-threshold-low", "DKG's threshold is the ideal load, without its square root",
             Edit("schemes/dynamic_key.py", "return ideal + math.sqrt(ideal)", "return ideal"),
             figures=("table1", "table3")),
)  # fmt: skip

_RESOURCE = 'return frequencies if function == "L" else frequencies * frequencies'
_PLACED = (3,)
FUNCTIONS = (
    *(_functions(f"{name}-no-migration-cost", f"{name} ignores what its placements migrate",
                 _utility_of(name, 0), figures=_PLACED) for name in ("scan", "redist", "readj")),
    *(_functions(f"{name}-no-balance-cost", f"{name} ignores the balance of its placements",
                 _utility_of(name, 5), _ONLY_MIGRATION, figures=_PLACED)
      for name in ("scan", "redist", "readj")),
    *(_functions(f"{name}-no-old-map", f"{name} does not know where keys were", *_without_old(name),
                 figures=_PLACED) for name in ("scan", "redist", "readj")),
    _functions("ring-one-point", "the ring has one point per worker, no virtual nodes",
               Edit("schemes/consistent_hash.py", "replicas: int = 1000", "replicas: int = 1"),
               figures=_PLACED),
    _functions("lossy-never-pruned", "lossy counting never drops a key",
               Edit("sketches/lossy_counting.py", "        if stays:\n", "        if stays or True:\n"),
               Edit("sketches/lossy_counting.py",
                    "capacity = min(capacity, _most_entries", "capacity = max(2 * capacity, _most_entries"),
               figures=(9,)),
    _functions("window-never-slid", "lossy counting never restarts a counter: it counts from the beginning",
               Edit("sketches/lossy_counting.py", "if counters > 1 and into == 0:", "if counters < 0:"),
               figures=("window",)),
    _functions("quadratic-as-linear", "a quadratic resource costs a key its frequency",
               Edit("schemes/cost_model.py", _RESOURCE, "return frequencies"), figures=(1, "thresholds")),
    _functions("constant-as-linear", "a constant resource costs a key its frequency",
               Edit("schemes/cost_model.py", "return np.ones_like(frequencies)", "return frequencies"),
               figures=(4,)),
    _functions("utility-without-logarithm", "U^APLM adds the migration, not its logarithm",
               Edit("schemes/key_placement.py", "return rho + math.log(1 + gamma)", "return rho + gamma"),
               figures=(7,)),
    _functions("sigma-times-10", "keys are tracked from ten times the threshold on",
               Edit("schemes/cost_model.py", "share = self.sigma * tolerance(alpha, n) / n",
                    "share = 10 * self.sigma * tolerance(alpha, n) / n"),
               figures=(3, 11)),
    _functions("alpha-ignored", "keys are tracked as if the tolerance were 1.2",
               Edit("schemes/cost_model.py", "return alpha * workers / (alpha + workers - 1) - 1",
                    "return 1.2 * workers / (1.2 + workers - 1) - 1"), figures=("tolerance",)),
    _functions("readj-no-swaps", "readj only moves keys, it never exchanges two",
               Edit("schemes/key_placement.py",
                    "if s.moves[other] >= MOST_MOVES or b.frequencies[other] == b.frequencies[key]:",
                    "if s.moves[other] >= 0:"), figures=("fig1-run", 3)),
    _functions("removed-to-first", "readj puts the keys of a removed channel on the first one",
               Edit("schemes/key_placement.py", "np.where(old < workers, old, ring)",
                    "np.where(old < workers, old, 0)"), figures=("removal",),
               survives="readj moves the keys on from wherever they begin, and what a removed channel held "
                        "has to migrate in any case"),
)  # fmt: skip

QUICK = ("quadratic-as-linear", "dkg-no-scale-down", "window-never-slid")  # in make test
MUTANTS = (*CHOICES, *HETEROGENEOUS, *FUNCTIONS, *EVOLVING, *DYNAMIC)  # in the order of the papers
