"""Runs several simulations in parallel processes, with the same results as sequentially."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import partial

from evenflow.simulator.result import Result
from evenflow.simulator.run import Simulation
from evenflow.simulator.setup import Configuration, SimulationSetup
from evenflow.spec import check_count

Progress = Callable[[int, int, Result], None]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during several simulations; ``results`` has the finished ones, and None for the others."""

    def __init__(self, results: list[Result | None]):
        done = sum(result is not None for result in results)
        super().__init__(f"interrupted after {done} of {len(results)} simulations")
        self.results = results


def simulate_many(
    configurations: Sequence[Configuration],
    jobs: int = 1,
    progress: Progress | None = None,
    during: Callable[[int, int, int], None] | None = None,
) -> list[Result]:
    """Run several simulations, optionally in parallel processes.

    A script that uses more than one job needs ``if __name__ == "__main__":``, since each process imports it
    again.

    Parameters
    ----------
    configurations
        The arguments of each simulation.
    jobs
        Number of processes.
    progress
        Called as ``progress(done, total, result)`` after each simulation, in order of completion.
    during
        In one process: called as ``during(index, messages, total)`` after every chunk of a simulation.

    Returns
    -------
    list of Result
        The results, in the order of the configurations.

    Raises
    ------
    Interrupted
        On Ctrl-C, which stops all processes; it has the finished results.

    Examples
    --------
    >>> stream = "zipf:z=1.4,keys=100,messages=1000,seed=1"
    >>> results = simulate_many([Configuration(name, stream, workers=4) for name in ("key", "shuffle")])
    >>> [result.scheme for result in results]
    ['key', 'shuffle']
    """
    check_count("jobs", jobs, 1, "use a number of processes, 1 or more")
    results: list[Result | None] = [None] * len(configurations)
    try:
        if jobs == 1 or len(configurations) < 2:
            for index, configuration in enumerate(configurations):
                chunk_done = None if during is None else partial(during, index)
                results[index] = result = _run(configuration, chunk_done)
                if progress is not None:
                    progress(index + 1, len(results), result)
        else:
            _run_in_processes(configurations, min(jobs, len(configurations)), progress, results)
    except KeyboardInterrupt:
        raise Interrupted(results) from None
    return [result for result in results if result is not None]


def _run(configuration: Configuration, progress: Callable[[int, int], None] | None = None) -> Result:
    return Simulation(SimulationSetup(configuration)).run(progress=progress)


def _run_in_processes(
    configurations: Sequence[Configuration],
    jobs: int,
    progress: Progress | None,
    results: list[Result | None],
) -> None:
    context = multiprocessing.get_context("spawn")  # fork would copy threads that hold locks
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_leave_interrupts_to_the_parent)
    try:
        indices: dict[Future[Result], int] = {
            pool.submit(_run, configuration): index for index, configuration in enumerate(configurations)
        }
        for done, future in enumerate(as_completed(indices), 1):
            results[indices[future]] = result = future.result()
            if progress is not None:
                progress(done, len(results), result)
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()  # a running simulation has nothing to save
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
