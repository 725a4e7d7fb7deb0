"""Helpers for tests on Spark: a local standalone cluster, tasks that fail once, lost shuffle files.

evenflow's own fault tests use them; use them to test your pipelines too.
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

PATIENCE = 300.0  # default time-out in seconds


def wait_for(state: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Poll a condition until it holds, so that tests wait for states and never for a fixed time.

    Parameters
    ----------
    state
        Called repeatedly until its result is truthy.
    what
        What is awaited, for the error.
    patience
        Time-out in seconds; after that, an ``EvenflowError`` is raised.

    Returns
    -------
    object
        The truthy result of ``state``.

    Examples
    --------
    >>> files = iter([[], [], ["part-0.parquet"]])
    >>> wait_for(lambda: next(files), "the first file")
    ['part-0.parquet']
    """
    until = time.monotonic() + patience
    while not (reached := state()):
        if time.monotonic() > until:
            raise EvenflowError(f"timed out after {patience:.0f} seconds waiting for {what}.")
        time.sleep(0.02)
    return reached


OWN_FOLDERS = ("work", "tmp", "local")  # of a worker on a machine of its own, as in docker/Dockerfile


class LocalCluster:
    """A Spark standalone cluster on the loopback interface, with executors in their own processes.

    Use it as a context manager: ``with LocalCluster() as cluster: spark = local_session(cluster.master)``.

    Parameters
    ----------
    workers
        Number of Spark workers.
    cores
        Cores per worker.
    memory
        Memory per worker, in Spark's notation.
    apart
        Give each worker a working directory, a ``TMPDIR`` and local directories of its own, below
        ``worker-N`` of the folder, as on machines that share nothing.

    Attributes
    ----------
    master
        The master URL, once the cluster has started.
    folder
        Logs and, under ``local``, the executors' files, such as shuffle files; deleted with the cluster.

    Examples
    --------
    >>> LocalCluster(workers=3).workers
    3
    """

    def __init__(self, workers: int = 2, cores: int = 1, memory: str = "1g", apart: bool = False):
        self.workers = workers
        self.apart = apart
        self.cores = cores
        self.memory = memory
        self.master = ""
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder = tempfile.TemporaryDirectory(prefix="evenflow-cluster-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)

    def __enter__(self) -> LocalCluster:
        try:
            log = self._start("master", "org.apache.spark.deploy.master.Master")
            self.master = self._match(log, r"Starting Spark master at (spark://\S+)")
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
                self._match(log, r"(Successfully registered with master)")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        for process in reversed(self._processes):  # a terminated Worker stops its executors
            process.terminate()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
        self._folder.cleanup()

    def executors(self) -> list[int]:
        """Return the process ids of all running executors."""
        ours = {process.pid for process in self._processes}
        listed = subprocess.run(
            ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        rows = [line.split(None, 2) for line in listed]
        return [int(row[0]) for row in rows if int(row[1]) in ours and "CoarseGrainedExecutor" in row[2]]

    def kill_executor(self) -> int:
        """Kill an executor with SIGKILL, like a machine failure, and return its process id."""
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
        home_of_its_own = self.folder / name if self.apart else None
        if home_of_its_own is not None:
            for folder in OWN_FOLDERS:
                (home_of_its_own / folder).mkdir(parents=True)
            settings |= {
                "SPARK_LOCAL_DIRS": str(home_of_its_own / "local"), "TMPDIR": str(home_of_its_own / "tmp"),
            }  # fmt: skip
        options = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        started = [str(home / "bin" / "spark-class"), command[0], *options, *command[1:]]
        silent: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        with log.open("wb") as out:
            self._processes.append(
                subprocess.Popen(
                    started, env={**os.environ, **settings}, stdout=out, cwd=home_of_its_own, **silent
                )
            )
        return log

    def _match(self, log: Path, pattern: str) -> str:
        """Wait until a log matches a pattern, and return the first group."""

        def search() -> str | None:
            if any(process.poll() is not None for process in self._processes):
                raise EvenflowError(f"{log.stem} of the cluster ended: {log.read_text()[-500:]}")
            found = re.search(pattern, log.read_text())
            return found.group(1) if found else None

        return str(wait_for(search, f"{pattern!r} in the log of {log.stem}"))


def once(marker: Path) -> bool:
    """Return True once per marker file, across all processes.

    Parameters
    ----------
    marker
        A path that does not exist yet, on a file system shared by the processes.

    Returns
    -------
    bool
        True for the first call, False for all others.

    Examples
    --------
    >>> marker = Path(tempfile.mkdtemp()) / "failed"
    >>> once(marker), once(marker)
    (True, False)
    """
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


Act = Callable[[Any], None]  # takes the task's TaskContext; if it raises, the task fails


def acting(df: DataFrame, *, before: Act | None = None, after: Act | None = None) -> DataFrame:
    """Run a function in every task of a frame.

    Parameters
    ----------
    df
        The frame.
    before, after
        Called with the ``TaskContext`` before the first and after the last row; if they raise, the task
        fails.

    Returns
    -------
    DataFrame
        The same rows.
    """

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
    """Make the first attempt of a task fail, after all of its rows.

    Parameters
    ----------
    df
        The frame.
    partition
        The partition whose task fails.

    Returns
    -------
    DataFrame
        The same rows.
    """

    def fail(task: Any) -> None:
        if task.partitionId() == partition and task.attemptNumber() == 0:
            raise RuntimeError("deliberate failure of the first attempt")

    return acting(df, after=fail)


def losing_shuffle_files(df: DataFrame, folder: Path, marker: Path) -> DataFrame:
    """Delete all shuffle files in the first task, once, and fail it.

    Spark then has to run the previous stage again.

    Parameters
    ----------
    df
        The frame.
    folder
        Folder of the shuffle files, such as ``LocalCluster.folder``.
    marker
        A path that does not exist yet; it ensures that this happens only once.

    Returns
    -------
    DataFrame
        The same rows.
    """

    def lose(task: Any) -> None:
        if once(marker):
            for path in folder.rglob("shuffle_*"):
                path.unlink(missing_ok=True)
            raise RuntimeError("deliberate loss of shuffle files")

    return acting(df, before=lose)
