"""Keyed streams: generators and files, read in chunks of key ids."""

from evenflow.streams.base import Chunk, Stream
from evenflow.streams.countries import Countries
from evenflow.streams.election import Election
from evenflow.streams.evolving import Evolving
from evenflow.streams.files import FileStream
from evenflow.streams.generator import Generator
from evenflow.streams.moving import Burst, Drift
from evenflow.streams.spelling import GENERATORS, open_stream, open_table
from evenflow.streams.zipf import Uniform, Zipf

__all__ = [
    "GENERATORS",
    "Burst",
    "Chunk",
    "Countries",
    "Drift",
    "Election",
    "Evolving",
    "FileStream",
    "Generator",
    "Stream",
    "Uniform",
    "Zipf",
    "open_stream",
    "open_table",
]
