"""Shared fixtures for tests and doctests: hypothesis profiles, the real streams, one Spark session."""

from __future__ import annotations

import gc
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import evenflow.schemes  # noqa: F401  (before pytest collects its files, so that classes exist once)
from evenflow import java
from evenflow.errors import EvenflowError
from extent import ALL, INTERPRETED

settings.register_profile(
    "evenflow", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("thorough", parent=settings.get_profile("evenflow"), max_examples=400)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "evenflow"))

SHARED_CLASSES = Path(__file__).parent / ".cache" / "spark-classes.jsa"  # make test writes it
_sharing = f' -Xlog:disable "-XX:SharedArchiveFile={SHARED_CLASSES}"' if SHARED_CLASSES.exists() else ""
os.environ.setdefault("JDK_JAVA_OPTIONS", java.SHORT_RUNS + _sharing)  # for every JVM that a test starts


def data_folder() -> Path | None:
    """Return the folder of real streams: EVENFLOW_DATA, or shared/data beside the checkout."""
    for folder in (os.environ.get("EVENFLOW_DATA"), Path(__file__).parents[1] / "shared" / "data"):
        if folder and Path(folder).is_dir():
            return Path(folder)
    return None


@pytest.fixture(scope="session")
def real_streams() -> Path:
    """The folder of real streams; without it, a test that needs them is skipped."""
    folder = data_folder()
    if folder is None:
        pytest.skip("the real streams are not here; set EVENFLOW_DATA to their folder to run this test")
    return folder


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session for all tests of a process."""
    from evenflow.spark.session import local_session
    from java_names import remember_java_names

    remember_java_names()
    with pytest.MonkeyPatch.context() as environment:  # of the JVM, whose Python daemon is one of the tests
        environment.setenv("PYTHONPATH", str(Path(__file__).parent / "tests"), prepend=os.pathsep)
        session = local_session(
            **{
                "spark.app.name": "evenflow-tests",
                "spark.driver.extraJavaOptions": "-Xms1g -Xmn600m",  # or it collects garbage all the time
                "spark.evenflow.compareWithHashing": 1,
                "spark.python.daemon.module": "preloaded_daemon",
                "spark.sql.shuffle.partitions": 4,
                **({} if ALL else INTERPRETED),
            }
        )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The folder of jars that make setup-kafka resolves; without it, a test that needs it is skipped."""
    jars = Path(os.environ.get("EVENFLOW_KAFKA", Path(__file__).parent / ".cache" / "kafka"))
    if not jars.is_dir():
        pytest.skip("the jars of Kafka are not here; make setup-kafka resolves them")
    return jars


@pytest.fixture(scope="session")
def broker(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real Kafka broker on loopback."""
    from evenflow.testing.kafka import Broker

    started = Broker(tmp_path_factory.mktemp("kafka"), kafka_jars / "broker")
    started.start()
    yield started
    started.kill()


@pytest.fixture(scope="session")
def spark_kafka(spark: Any, broker: Any, kafka_jars: Path) -> Any:
    """The session, with Spark's Kafka connector."""
    for jar in sorted((kafka_jars / "connector").glob("*.jar")):
        spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.fixture(scope="session")
def moto() -> Iterator[Any]:
    """An S3 server in this process."""
    from storage.s3_server import moto_server

    with moto_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3(moto: Any) -> Iterator[Any]:
    """An S3 server: versitygw, a process of its own, where it is installed (make faults), else moto."""
    from storage.s3_server import versity_server, versitygw

    command = versitygw()
    if command is None:
        yield moto
        return
    with versity_server(command) as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real browser without a window; a test that needs it says so where there is none."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("there is no browser here; apt-get install chromium chromium-driver to run this test")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium, which drives it, is missing")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    window.set_page_load_timeout(60)
    yield window
    window.quit()


@pytest.fixture(scope="module")
def rocks(spark: Any) -> Iterator[Any]:
    """The session, with the state store that merging in Python needs, and few partitions."""
    from evenflow.spark.grouped.streaming_merge import PROVIDER, ROCKS_DB

    changed = {PROVIDER: ROCKS_DB, "spark.sql.shuffle.partitions": "2"}
    before = {name: spark.conf.get(name) for name in changed}
    for name, value in changed.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture
def same_settings(spark: Any) -> Iterator[None]:
    """Settings of the session that are afterwards as they were before."""
    before = dict(spark.conf.getAll)
    yield
    for name, value in dict(spark.conf.getAll).items():
        if name.startswith(("spark.sql.", "spark.evenflow.")) and before.get(name) != value:
            spark.conf.set(name, before[name]) if name in before else spark.conf.unset(name)


@pytest.fixture
def compiled(spark: Any, same_settings: None) -> None:
    """Queries that are compiled, for tests of some hundred thousand rows."""
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")


@pytest.fixture
def no_broadcast(spark: Any) -> Iterator[None]:
    """Joins of small frames that shuffle, as those of large ones do."""
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark examples in docstrings of the Spark packages as tests that need a JVM."""
    for item in items:
        if isinstance(item, pytest.DoctestItem) and _names_in(item) & {"spark", "df"}:
            item.add_marker(pytest.mark.spark)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    """Skip what evenflow refuses on an older Spark; the reason is the refusal (make matrix counts them)."""
    try:
        return (yield)
    except EvenflowError as error:
        if needs_newer_spark(error):
            pytest.skip(f"refused: {error}")
        raise


def needs_newer_spark(error: EvenflowError) -> bool:
    """Return whether evenflow refuses something on this Spark that a newer one has."""
    import pyspark

    found = re.search(r"needs Spark (\d+)\.(\d+) or newer", str(error))
    running = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    return found is not None and running < (int(found[1]), int(found[2]))


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking through all modules and tests again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _frames_of_examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    """Give docstring examples that name them a session ``spark`` and a skewed frame ``df``."""
    if isinstance(request.node, pytest.DoctestItem) and request.node.dtest:
        names = _names_in(request.node)
        if names & {"spark", "df"}:
            session = request.getfixturevalue("spark")
            doctest_namespace["spark"] = session
            doctest_namespace["df"] = skewed_frame(session)


def _names_in(item: pytest.DoctestItem) -> set[str]:
    examples = item.dtest.examples if item.dtest else []
    return {word for example in examples for word in re.findall(r"\w+", example.source)}


def skewed_frame(session: Any, rows: int = 10_000) -> Any:
    """Return rows (user_id, value) of which half belong to user 0."""
    return session.range(rows).selectExpr("if(id % 2 = 0, 0, id % 500) as user_id", "id as value")
