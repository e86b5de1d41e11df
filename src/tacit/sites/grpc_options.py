"""Names and options of the gRPC service, for both ends of a connection."""

from tacit.sites.wire import MAX_MESSAGE_BYTES

SERVICE, METHOD = "tacit.sites.Sites", "Exchange"
_CHANNEL_OPTIONS = (
    # Chosen by measurement (`benchmarks/transport.py`): one frame per message, and windows for several messages.
    ("grpc.http2.max_frame_size", 4 << 20),
    ("grpc.http2.lookahead_bytes", 16 << 20),
    ("grpc.http2.write_buffer_size", 16 << 20),
    ("grpc.http2.bdp_probe", 0),
    # Detect a broken connection within seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.so_reuseport", 0),
    # Limit what a stranger can hold open.
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.max_concurrent_streams", 8),
)


def channel_options(max_bytes: int = MAX_MESSAGE_BYTES) -> tuple[tuple[str, int], ...]:
    """Return the gRPC options of both ends of a connection."""
    sizes = (("grpc.max_receive_message_length", max_bytes), ("grpc.max_send_message_length", max_bytes))
    return (*_CHANNEL_OPTIONS, *sizes)
