"""Names of columns that identify a person or a record."""

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PERSON = "patient|person|subject|customer|client|member|user|employee|student|participant|record|row"
# the words of a name, in lower case, with one space between them
_IDENTIFIER = re.compile(
    r"|index|row ?names?|unnamed"
    rf"|({_PERSON})"
    rf"|({_PERSON}|case|visit|encounter|admission|hospital|insurance) ?(id|no|nr|num|number|key|code|hash|pseudonym)"
    r"|(id|uuid) .*"
    r"|(.* )?(id|ids|uuid|guid|mrn|ssn|iban|passport|pseudonym|login|barcode|phone|mobile|telephone|fax|e ?mail|mail)"
    r"|(.* )?(name|surname|(fore|first|last|full|user)name|address|street)"
)


def looks_like_identifier(name: str) -> bool:
    """Return whether a column, by its name, identifies a person or a record. Its cells are not examined.

    >>> names = ("PatientID", "mrn", "e-mail", "last_name", "", "Unnamed: 0", "patient no", "patientid", "id_2")
    >>> all(looks_like_identifier(name) for name in names)
    True
    >>> any(looks_like_identifier(name) for name in ("age", "paid", "patient_age", "p0", "number_of_visits", "grid"))
    False
    """
    words = " ".join(_WORD.findall(name)).lower()
    return bool(_IDENTIFIER.fullmatch(words)) and (bool(words) or not name.strip())
