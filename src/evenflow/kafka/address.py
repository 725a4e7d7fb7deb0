"""The address of a topic: ``kafka://HOST:PORT[,HOST:PORT...]/TOPIC[?option=value&...]``.

``value`` says how records are decoded: ``json`` (the default), ``text``, ``binary``, or the file of an Avro
schema, as in ``value=click.avsc``, with ``skip`` bytes before each value left out (5 of a schema registry).
``schema`` declares the columns of JSON values, as in ``schema=user string, amount double``; without it they
are inferred from a sample. Options of Spark's source, such as ``startingOffsets``, keep their names;
``client.NAME`` is a setting of every Kafka client, Spark's and ours, as in ``client.security.protocol=SSL``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from evenflow.errors import EvenflowError, nearest
from evenflow.kafka.avro import ENDING

SCHEME = "kafka://"
VALUES = ("json", "text", "binary")
_CLIENT = "client."
_OF_SPARK = (
    *(
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "endingOffsets",
        "endingTimestamp",
    ),
    *("failOnDataLoss", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions"),
    *(
        "groupIdPrefix",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
    ),
)


def is_kafka(source: str) -> bool:
    """Return whether a source or sink is meant to be a topic; `KafkaAddress.parse` says if it is one."""
    return source.lower().startswith("kafka:")


@dataclass(frozen=True)
class KafkaAddress:
    """A topic, its brokers and options.

    Examples
    --------
    >>> address = KafkaAddress.parse("kafka://localhost:9092/clicks?value=text&startingOffsets=latest")
    >>> address.servers, address.topic, address.value, address.options
    ('localhost:9092', 'clicks', 'text', {'startingOffsets': 'latest'})
    """

    servers: str
    topic: str
    value: str = "json"
    schema: str | None = None
    skip: int = 0
    options: dict[str, str] = field(default_factory=dict, repr=False)  # may hold secrets

    @classmethod
    def parse(cls, text: str) -> KafkaAddress:
        """Parse an address; an error names the part that is wrong."""
        parts = urlsplit(text)
        topic = unquote(parts.path.strip("/"))
        servers = parts.netloc.rpartition("@")[2]
        if not text.lower().startswith(SCHEME) or not servers or not topic or "/" in topic:
            raise EvenflowError(f"{without_secrets(text)!r} is not a topic; write kafka://HOST:9092/TOPIC.")
        if "@" in parts.netloc:
            raise EvenflowError(
                "a Kafka address has no user or password; pass them as options of the client, such as "
                "client.sasl.username=NAME."
            )
        for server in servers.split(","):
            host, colon, port = server.rpartition(":")
            if not colon or not host or not port.isdigit():
                raise EvenflowError(f"{server!r} is not a broker; write HOST:PORT, such as localhost:9092.")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        value, schema = options.pop("value", "json"), options.pop("schema", None)
        skip = options.pop("skip", "0")
        avro = value.endswith(ENDING)
        if value not in VALUES and not avro:
            known = nearest(value, (*VALUES, f"SCHEMA{ENDING}"))
            raise EvenflowError(f"value is {value!r}; {known}")
        if not skip.isdigit() or (skip != "0" and not avro):
            raise EvenflowError(
                f"skip is {skip!r}; it is the number of bytes before an Avro record, with value=FILE{ENDING}."
            )
        if schema is not None and value != "json":
            raise EvenflowError(f"schema declares JSON values, but value is {value!r}; omit one of them.")
        for name in options:
            if name not in _OF_SPARK and not name.startswith(_CLIENT):
                known = nearest(name, ("value", "schema", "skip", *_OF_SPARK))
                raise EvenflowError(f"a topic has no option {name!r}; {known}")
        return cls(servers, topic, value, schema, int(skip), options)

    @classmethod
    def parse_sink(cls, text: str) -> KafkaAddress:
        """Parse the address of a topic to write to; options that say how records are read are refused."""
        found = cls.parse(text)
        own = cls(found.servers, found.topic, options=found.options)
        reading = [name for name in ("value", "schema", "skip") if getattr(found, name) != getattr(own, name)]
        reading += [name for name in found.options if not name.startswith(_CLIENT)]
        if reading:
            raise EvenflowError(
                f"{reading[0]} says how records are read, but {found.name} is written to; omit it."
            )
        return found

    @property
    def is_avro(self) -> bool:
        """Whether values are Avro records, by the schema in the file ``value``."""
        return self.value.endswith(ENDING)

    @property
    def name(self) -> str:
        """The address without its options."""
        return f"{SCHEME}{self.servers}/{self.topic}"

    def spark_options(self) -> dict[str, str]:
        """Return the options of Spark's source or sink; those of the client become ``kafka.NAME``."""
        own = {name: value for name, value in self.options.items() if not name.startswith(_CLIENT)}
        return own | {f"kafka.{name}": value for name, value in self.client_options().items()}

    def client_options(self) -> dict[str, str]:
        """Return the settings of a Kafka client: the brokers and what was given as ``client.NAME``."""
        given = {
            name.removeprefix(_CLIENT): value
            for name, value in self.options.items()
            if name.startswith(_CLIENT)
        }
        return {"bootstrap.servers": self.servers, **given}


def without_secrets(text: str) -> str:
    """Return an address without its options, for messages.

    >>> without_secrets("kafka://localhost:9092/clicks?client.sasl.password=x")
    'kafka://localhost:9092/clicks'
    """
    return text.partition("?")[0]
