from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NONE: _ClassVar[Kind]
    HELLO: _ClassVar[Kind]
    MIX: _ClassVar[Kind]
    SWAP: _ClassVar[Kind]
    MAX: _ClassVar[Kind]
    MEAN: _ClassVar[Kind]
    RECEIVED: _ClassVar[Kind]
    MISSED: _ClassVar[Kind]
    ABSENT: _ClassVar[Kind]
    REFUSED: _ClassVar[Kind]
    GOODBYE: _ClassVar[Kind]
    HEARD: _ClassVar[Kind]
NONE: Kind
HELLO: Kind
MIX: Kind
SWAP: Kind
MAX: Kind
MEAN: Kind
RECEIVED: Kind
MISSED: Kind
ABSENT: Kind
REFUSED: Kind
GOODBYE: Kind
HEARD: Kind

class Envelope(_message.Message):
    __slots__ = ("version", "network", "sender", "receiver", "round", "kind", "sequence", "about", "text", "payload")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    version: int
    network: bytes
    sender: str
    receiver: str
    round: int
    kind: Kind
    sequence: int
    about: Kind
    text: str
    payload: bytes
    def __init__(self, version: _Optional[int] = ..., network: _Optional[bytes] = ..., sender: _Optional[str] = ..., receiver: _Optional[str] = ..., round: _Optional[int] = ..., kind: _Optional[_Union[Kind, str]] = ..., sequence: _Optional[int] = ..., about: _Optional[_Union[Kind, str]] = ..., text: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...
