"""Run a Kafka broker on this machine until Ctrl-C, to try things out; its data are gone afterwards.

python scripts/broker.py [PORT]

``make broker`` resolves its jars first. The port is 9092 by default.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from pathlib import Path

from evenflow.testing.kafka import Broker

JARS = Path(__file__).parents[1] / ".cache" / "kafka"

if __name__ == "__main__":
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with tempfile.TemporaryDirectory(prefix="evenflow-broker-") as folder:
        broker = Broker(Path(folder) / "broker", JARS / "broker", int((sys.argv[1:] or ["9092"])[0]))
        broker.start()
        try:
            jars = ",".join(str(jar) for jar in sorted((JARS / "connector").glob("*.jar")))
            print(f"A broker is at {broker.servers}, until Ctrl-C. For a Spark without the connector:")
            print(f"export PYSPARK_SUBMIT_ARGS='--jars {jars} pyspark-shell'", flush=True)
            ended.wait()
        finally:
            broker.kill()
