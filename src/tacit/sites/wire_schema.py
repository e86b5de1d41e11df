"""The messages of wire.proto as protobuf classes.

The classes are made from a descriptor, `wire.binpb`, and not by code that protoc generates. Generated code needs a
protobuf that is at least as new as its compiler, and at most one major version newer. A descriptor works with all
versions that have the functions below. Tacit can therefore be installed beside libraries that need another protobuf.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _schema() -> descriptor_pb2.FileDescriptorProto:
    data = files("tacit.sites").joinpath("wire.binpb").read_bytes()
    return descriptor_pb2.FileDescriptorSet.FromString(data).file[0]


SCHEMA = _schema()
"""The descriptor of wire.proto."""
_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(SCHEMA.SerializeToString())
Envelope: Any = message_factory.GetMessageClass(_pool.FindMessageTypeByName("tacit.sites.Envelope"))
"""The class of the message `Envelope`."""
