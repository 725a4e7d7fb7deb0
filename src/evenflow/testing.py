"""Helpers for tests on Spark: a real cluster on this machine, tasks that fail once, files that vanish.

evenflow's own fault tests use them; they are for tests of your pipelines too.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.errors import EvenflowError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PATIENCE = 300.0  # seconds until a state that should come is given up


def wait_for(state: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Return what ``state`` returns once that is true; tests wait for states, never for time."""
    until = time.monotonic() + patience
    while not (reached := state()):
        if time.monotonic() > until:
            raise EvenflowError(f"{what} did not come within {patience:.0f} seconds.")
        time.sleep(0.02)
    return reached


class LocalCluster:
    """A Spark standalone cluster on loopback: a Master and Workers, executors in processes of their own.

    ``with LocalCluster() as cluster: spark = local_session(cluster.master)``. ``folder`` holds logs and,
    under ``local``, what executors write, shuffle files included; it goes with the cluster.
    """

    def __init__(self, workers: int = 2, cores: int = 1, memory: str = "1g"):
        self.workers = workers
        self.cores = cores
        self.memory = memory
        self.master = ""
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder = tempfile.TemporaryDirectory(prefix="evenflow-cluster-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)

    def __enter__(self) -> LocalCluster:
        try:
            log = self._start("master", "org.apache.spark.deploy.master.Master")
            self.master = self._said(log, r"Starting Spark master at (spark://\S+)")
            logs = [
                self._start(
                    f"worker-{number}",
                    "org.apache.spark.deploy.worker.Worker",
                    *("--cores", str(self.cores), "--memory", self.memory),
                    *("--work-dir", str(self.folder / f"work-{number}"), self.master),
                )
                for number in range(self.workers)
            ]
            for log in logs:
                self._said(log, r"(Successfully registered with master)")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        for process in reversed(self._processes):  # a Worker that is asked to end ends its executors
            process.terminate()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
        self._folder.cleanup()

    def executors(self) -> list[int]:
        """Return the process numbers of all executors that run now."""
        ours = {process.pid for process in self._processes}
        listed = subprocess.run(
            ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        rows = [line.split(None, 2) for line in listed]
        return [int(row[0]) for row in rows if int(row[1]) in ours and "CoarseGrainedExecutor" in row[2]]

    def kill_executor(self) -> int:
        """End one executor as a machine that fails would, at once; return its process number."""
        executor: int = wait_for(self.executors, "an executor")[0]
        os.kill(executor, signal.SIGKILL)
        return executor

    def _start(self, name: str, *command: str) -> Path:
        import pyspark

        home = Path(pyspark.__file__).parent
        log = self.folder / f"{name}.log"
        settings = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
        }
        with log.open("wb") as out:
            self._processes.append(
                subprocess.Popen(
                    [
                        str(home / "bin" / "spark-class"),
                        command[0],
                        *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
                        *command[1:],
                    ],
                    env={**os.environ, **settings},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            )
        return log

    def _said(self, log: Path, pattern: str) -> str:
        """Wait until a log says something, and return it."""

        def said() -> str | None:
            if any(process.poll() is not None for process in self._processes):
                raise EvenflowError(f"{log.stem} of the cluster ended: {log.read_text()[-500:]}")
            found = re.search(pattern, log.read_text())
            return found.group(1) if found else None

        return str(wait_for(said, f"{pattern!r} in the log of {log.stem}"))


def once(marker: Path) -> bool:
    """Return True to the first caller of all processes that asks with this marker, False to all others."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


Act = Callable[[Any], None]  # takes the task's TaskContext; if it raises, the task fails


def acting(df: DataFrame, *, before: Act | None = None, after: Act | None = None) -> DataFrame:
    """Return ``df`` with something done in each of its tasks, before the first row or after the last."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        if before is not None:
            before(task)
        yield from batches
        if after is not None:
            after(task)

    return df.mapInArrow(pass_on, df.schema)


def failing_once(df: DataFrame, partition: int = 0) -> DataFrame:
    """Return ``df`` with a task that fails at its first attempt, when all of its rows have passed."""

    def fail(task: Any) -> None:
        if task.partitionId() == partition and task.attemptNumber() == 0:
            raise RuntimeError("this attempt fails on purpose")

    return acting(df, after=fail)


def losing_shuffle_files(df: DataFrame, folder: Path, marker: Path) -> DataFrame:
    """Return ``df`` whose first task deletes, once, all shuffle files below ``folder``, then fails.

    What the files held has to be computed again: Spark runs the stage before once more.
    """

    def lose(task: Any) -> None:
        if once(marker):
            for path in folder.rglob("shuffle_*"):
                path.unlink(missing_ok=True)
            raise RuntimeError("shuffle files are lost on purpose")

    return acting(df, before=lose)
