"""The lease on a state: one query at a time, without locks of an operating system or clocks that agree.

An object in the state names the holder and changes with every beat of it. Whoever wants the state and finds
it held watches that object, by a clock of its own: if it changes, the state is in use; if it does not for as
long as a lease lasts, or the holder is known to be dead, the lease is taken over by compare-and-set, with the
next epoch. The old holder may only be paused, so the new one also commits its epoch to the table
(:meth:`~evenflow.spark.state.table.StateTable.claim`): what the old one then tries to commit is refused.

The process that commits holds it: the one that called ``start`` or, on Spark Connect, the server's process
for the batch function, from its first batch on.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import getnode, uuid4

from evenflow.errors import EvenflowError
from evenflow.storage import Location, StorageError, open_storage

log = logging.getLogger("evenflow.spark.state")

LEASE = "_lease"
HOLDER = "holder.json"
BEAT_SECONDS = 3.0
LEASE_SECONDS = 15.0  # without a beat, after which another query may take it over
_POLL_SECONDS = 0.3


class Lease:
    """The lease of one query on one state."""

    def __init__(self, root: Location, token: str):
        self.root, self.token = root, token
        self.storage = open_storage(root / LEASE)  # of its own: its requests are no batch's
        self.is_active: Callable[[], bool] = lambda: True
        self.on_beat: Callable[[], None] | None = None  # what else to look after, beside the batches
        self.epoch = 0
        self.contested = False  # the holder before may be alive, and not know that it lost the lease
        self._version: str | None = None
        self._confirmed = 0.0
        self._lost = ""
        self._changing = threading.Lock()
        self._ended = threading.Event()

    def acquire(self) -> None:
        """Take the lease; raise an error if the state is in use."""
        found, version = self._read()
        free = found is None or not found["token"] or found["token"] == self.token
        dead = found is not None and not free and _is_dead(found)
        if found is not None and not free and not dead:
            self._watch(found)
        self.epoch = (0 if found is None else int(found["epoch"])) + 1
        self.contested = not free
        self._version = self.storage.swap(HOLDER, self._content(), version)
        if self._version is None:
            raise _in_use(self.root, "another process, which was faster")
        self._confirmed = time.monotonic()
        threading.Thread(target=self._beat, name=f"lease {self.token[:8]}", daemon=True).start()

    def ensure(self) -> None:
        """Raise an error if the lease is lost; ask the store only if it was not heard of for a while."""
        if not self._lost and time.monotonic() - self._confirmed > LEASE_SECONDS / 2:
            self._renew()
        if self._lost:
            raise EvenflowError(
                f"the state at {self.root} was taken over by another query ({self._lost}), because this one "
                f"was silent for more than {LEASE_SECONDS:g} seconds; what it has not committed is refused. "
                "Stop one of the two queries."
            )

    @property
    def is_released(self) -> bool:
        """Whether this process has let it go."""
        return self._ended.is_set()

    def release(self) -> None:
        """Let another query take the lease at once."""
        self._ended.set()
        with self._changing, contextlib.suppress(OSError):
            if not self._lost:
                self.storage.swap(HOLDER, self._content(token=""), self._version)
            self._lost = self._lost or "this one has ended"

    def _watch(self, found: dict[str, Any]) -> None:
        """Return if the holder shows no sign of life for the time of a lease, by this process's clock."""
        deadline = time.monotonic() + float(found["seconds"])
        while time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            now = self._read()[0]
            if now is not None and not now["token"]:
                raise _in_use(self.root, "another process, which has just ended; start again")
            if now != found:
                raise _in_use(self.root, f"process {found['process']} on {found['host']}")

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            if not self.is_active():
                self.release()
                return
            with contextlib.suppress(OSError):  # `ensure` tries again
                self._renew()
            try:
                if self.on_beat is not None:
                    self.on_beat()
            except OSError:
                pass  # the next beat tries again
            except Exception:
                log.exception(
                    "what has to be done beside the batches failed; the lease is renewed all the same"
                )

    def _renew(self) -> None:
        with self._changing:
            if self._lost or self._ended.is_set():
                return
            version = self.storage.swap(HOLDER, self._content(), self._version)
            if version is None:
                found, newer = self._read()
                if found is None:
                    version = self.storage.swap(HOLDER, self._content(), None)  # it was deleted
                elif found["token"] == self.token:
                    version = newer
                else:
                    self._lost = f"process {found['process']} on {found['host']}"
                    return
            if version is not None:
                self._version, self._confirmed = version, time.monotonic()

    def _read(self) -> tuple[dict[str, Any] | None, str | None]:
        try:
            content, version = self.storage.read_version(HOLDER)
        except FileNotFoundError:
            return None, None
        try:
            return dict(json.loads(content)), version
        except ValueError:
            return {"token": "", "epoch": 0}, version

    def _content(self, token: str | None = None) -> bytes:
        """Return the holder's description, different with every beat."""
        described = {
            "token": self.token if token is None else token,
            "epoch": self.epoch,
            "beat": uuid4().hex,
            "seconds": LEASE_SECONDS,
            "host": os.uname().nodename,
            "process": os.getpid(),
            "machine": _machine(),
            "started": _started(os.getpid()),
        }
        return json.dumps(described).encode()


def _machine() -> str:
    """Return what identifies the processes that this one can see: the machine's boot, and the container."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + os.readlink("/proc/self/ns/pid")
    except OSError:
        return f"{getnode():x}"


def _started(process: int) -> str | None:
    """Return when a process started, "" if that cannot be told; None if there is no such process."""
    try:
        state, *rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else rest[18]
    except FileNotFoundError:
        with contextlib.suppress(PermissionError):
            try:
                os.kill(process, 0)
            except ProcessLookupError:
                return None
        return ""


def _is_dead(found: dict[str, Any]) -> bool:
    """Return whether the holder was a process of this machine that has ended."""
    return found["machine"] == _machine() and _started(int(found["process"])) != found["started"]


_HELD: dict[str, Lease] = {}


def take_lease(root: Location, token: str) -> Lease:
    """Return the lease of the query with this token, acquired if it is not held yet."""
    held = _HELD.get(str(root))
    if held is not None:
        if held.token == token and not held.is_released:
            held.ensure()
            return held
        if held.token != token and held.is_active():
            raise _in_use(root, f"this process ({os.getpid()})")
        release_lease(root, held.token)
    lease = Lease(root, token)
    try:
        lease.acquire()
    except StorageError:
        raise
    except OSError as error:
        raise EvenflowError(
            f"cannot write to the state at {root}: {error.strerror}; make room, or the directory writable, "
            "and start the query again."
        ) from error
    _HELD[str(root)] = lease
    return lease


def track_lease_holder(root: Location, token: str, is_active: Callable[[], bool]) -> None:
    """Set the check whether the query that holds the lease is still active."""
    held = _HELD.get(str(root))
    if held is not None and held.token == token:
        held.is_active = is_active


def release_lease(root: Location, token: str) -> None:
    """Release the lease if the query with this token holds it."""
    held = _HELD.get(str(root))
    if held is not None and held.token == token:
        held.release()
        del _HELD[str(root)]


def _in_use(root: Location, holder: str) -> EvenflowError:
    return EvenflowError(
        f"the state at {root} is in use by another query ({holder}), and a state allows one query at a time; "
        "stop that query, or use another path for this one."
    )
