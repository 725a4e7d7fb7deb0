"""Read a topic: records decoded into columns, those that cannot be decoded refused or set aside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenflow.errors import EvenflowError
from evenflow.kafka.address import KafkaAddress
from evenflow.kafka.avro import read_schema
from evenflow.spark.kafka.avro_fields import avro_fields, decoded
from evenflow.spark.routing.key_columns import quoted

REFUSE = "refuse"
_SAMPLE = 1000  # records that the columns of JSON values are inferred from
_CORRUPT = "_evenflow_undecodable"
_MARK = f"{EvenflowError.__module__}.{EvenflowError.__name__}: "


class Records(NamedTuple):
    """Decoded records, and those that cannot be decoded as they are (None if they are refused)."""

    rows: DataFrame
    bad: DataFrame | None


def connector(spark: SparkSession) -> str:
    """Return the coordinate of the Kafka connector for this Spark."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"


def load(
    spark: SparkSession, address: KafkaAddress, *, streaming: bool, options: Mapping[str, Any] | None = None
) -> DataFrame:
    """Return the raw records of a topic, from the first one on unless the address says otherwise."""
    reader = spark.readStream if streaming else spark.read
    given: dict[str, Any] = {"startingOffsets": "earliest"}
    given |= {"subscribe": address.topic, **address.spark_options(), **(options or {})}
    if not streaming and given["startingOffsets"] == "latest":  # what a table cannot start from
        given["startingOffsets"] = "earliest"
    try:
        return reader.format("kafka").options(**given).load()
    except AnalysisException as error:
        if "kafka" not in str(error).lower() or "data source" not in str(error).lower():
            raise
        raise EvenflowError(
            f"this Spark has no Kafka connector; start it with --packages {connector(spark)}, or set "
            "spark.jars.packages to that."
        ) from error


def decode(records: DataFrame, address: KafkaAddress, schema: T.StructType | None, bad: str) -> Records:
    """Return records as columns: fields of the value, and ``key`` and ``timestamp`` unless it has them.

    ``schema`` has the fields of JSON and Avro values. ``bad`` is "refuse", which fails the query at the first
    value that has not these fields, or anything else, which sets such records aside. Keys are text, or
    binary if values are.
    """
    if address.value == "binary":
        return Records(records.select("key", "timestamp", "value"), None)
    key = F.col("key").cast("string").alias("key")
    text = F.col("value").cast("string")
    if address.value == "text":
        return Records(records.select(key, "timestamp", text.alias("value")), None)
    assert schema is not None
    fields = T.StructType([*schema.fields, T.StructField(_CORRUPT, T.StringType())])
    if address.is_avro:
        read = read_schema(address.value)
        value = decoded(F.col("value"), read, address.skip, fields, _CORRUPT)
    else:
        value = F.from_json(text, fields, {"columnNameOfCorruptRecord": _CORRUPT})
    parsed = records.withColumn(_CORRUPT, value)
    undecodable = F.col(f"{_CORRUPT}.{_CORRUPT}").isNotNull()
    own = [
        column
        for name, column in (("key", key), ("timestamp", F.col("timestamp")))
        if name not in schema.names
    ]
    columns = [*own, *(F.col(f"{_CORRUPT}.{quoted(name)}").alias(name) for name in schema.names)]
    if bad == REFUSE:
        fine = F.when(undecodable, F.raise_error(_refusal(address)).cast("boolean")).otherwise(True)
        return Records(parsed.where(fine).select(*columns), None)
    aside = parsed.where(undecodable).drop(_CORRUPT)
    return Records(parsed.where(~undecodable).select(*columns), aside)


def _refusal(address: KafkaAddress) -> Column:
    line = F.char(F.lit(10))  # a line break in the plan's text would hide the operators below it
    where = ("record at offset ", F.col("offset"), " of partition ", F.col("partition"))
    what, how = "a JSON object of the expected fields", "declare the fields with schema="
    if address.is_avro:
        what = f"an Avro record of the schema {address.value}"
        how = "check the schema, or skip=5 for records of a schema registry"
    parts = [line, _MARK, "the ", *where, f" of {address.name} is not {what}; keep such records aside with "]
    parts += [f"--bad-records FOLDER, or {how}.", line]
    return F.concat(*(part if isinstance(part, Column) else F.lit(part) for part in parts))


def value_fields(spark: SparkSession, address: KafkaAddress) -> T.StructType | None:
    """Return the fields of values: as declared, or of JSON inferred from a sample by Spark's own rules."""
    if address.is_avro:
        return avro_fields(read_schema(address.value))
    if address.value != "json":
        return None
    if address.schema is not None:
        return _declared(address.schema)
    rows = (
        load(spark, address, streaming=False).select(F.col("value").cast("string")).limit(_SAMPLE).collect()
    )
    found = [text for (text,) in rows if text is not None and _is_object(text)]
    if not found:
        what = "is empty" if not rows else f"has no JSON objects among its first {len(rows)} records"
        raise EvenflowError(
            f"{address.name} {what}, so its fields cannot be inferred; declare them, as in "
            "?schema=user string, amount double, or read it with ?value=text."
        )
    ddl = spark.range(1).select(F.schema_of_json(F.lit(f"[{','.join(found)}]"))).first()
    assert ddl is not None
    kind = T.DataType.fromDDL(ddl[0])
    assert isinstance(kind, T.ArrayType)
    assert isinstance(kind.elementType, T.StructType)
    return kind.elementType


def _declared(schema: str) -> T.StructType:
    try:
        found = T.StructType.fromDDL(schema)
    except PySparkException as error:
        raise EvenflowError(
            f"schema is {schema!r}; declare columns as in schema=user string, amount double."
        ) from error
    assert isinstance(found, T.StructType)
    return found


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
