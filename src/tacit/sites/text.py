"""Text from other parties, made safe for one line of a log or an error message."""


def printable(text: str, limit: int = 80) -> str:
    """Return `text` as one line of printable characters, cut to `limit` characters.

    >>> printable("two\\nlines")
    'two\\\\nlines'
    """
    plain = text if text.isprintable() else ascii(text)[1:-1]
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"
