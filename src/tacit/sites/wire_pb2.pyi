from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MessageKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NONE: _ClassVar[MessageKind]
    HELLO: _ClassVar[MessageKind]
    MIX: _ClassVar[MessageKind]
    SWAP: _ClassVar[MessageKind]
    MAX: _ClassVar[MessageKind]
    MEAN: _ClassVar[MessageKind]
    ACKNOWLEDGE: _ClassVar[MessageKind]
    MISSED: _ClassVar[MessageKind]
    REJOIN: _ClassVar[MessageKind]
    REFUSED: _ClassVar[MessageKind]
    CLOSE: _ClassVar[MessageKind]
    HELLO_REPLY: _ClassVar[MessageKind]
NONE: MessageKind
HELLO: MessageKind
MIX: MessageKind
SWAP: MessageKind
MAX: MessageKind
MEAN: MessageKind
ACKNOWLEDGE: MessageKind
MISSED: MessageKind
REJOIN: MessageKind
REFUSED: MessageKind
CLOSE: MessageKind
HELLO_REPLY: MessageKind

class Envelope(_message.Message):
    __slots__ = ("version", "network", "sender", "receiver", "round", "kind", "sequence", "reply_to", "text", "payload")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REPLY_TO_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    version: int
    network: bytes
    sender: str
    receiver: str
    round: int
    kind: MessageKind
    sequence: int
    reply_to: MessageKind
    text: str
    payload: bytes
    def __init__(self, version: _Optional[int] = ..., network: _Optional[bytes] = ..., sender: _Optional[str] = ..., receiver: _Optional[str] = ..., round: _Optional[int] = ..., kind: _Optional[_Union[MessageKind, str]] = ..., sequence: _Optional[int] = ..., reply_to: _Optional[_Union[MessageKind, str]] = ..., text: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...
