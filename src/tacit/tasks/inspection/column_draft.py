"""The draft of one column's declaration, from its name and its stored type. Both are public."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from tacit.tasks.data.columns import DROP
from tacit.tasks.data.identifiers import looks_like_identifier
from tacit.tasks.data.table_source import ColumnType
from tacit.tasks.inspection.toml_text import inline, key_text

Role = Literal["label", "target"]
REPLACE = "replace by public knowledge"
_UNKNOWN_TYPE = "if it contains numbers"
_IDENTIFIER = "the name suggests an identifier"
_DATES = {"date", "day", "time", "datetime", "timestamp", "dob", "birthday", "birthdate"}
_FREE_TEXTS = {"note", "notes", "comment", "comments", "remark", "remarks", "text", "freetext", "description", "letter"}
_CATEGORIES = {"sex", "gender", "type", "status", "category", "group", "class", "ward", "department", "diagnosis"}
_CATEGORIES |= {"region", "country", "city", "colour", "color", "clinic", "hospital", "centre", "center", "site"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TEMPLATES = {
    "label": '{ label = ["FIRST", "SECOND"] }',
    "target": "{ target = [LOW, HIGH] }",
    "number": "{ range = [LOW, HIGH] }",
    "date": '{ date = ["FIRST", "LAST"] }',
    "text": '{ categories = ["FIRST", "SECOND"] }',
}


@dataclass(frozen=True)
class ColumnDraft:
    """The draft of a declaration.

    Attributes:
        name: The column.
        declaration: The declaration; None if the user has to complete the template.
        comment: Why, or what to do.
        template: TOML text with words in capitals for what is not known.
    """

    name: str
    declaration: str | dict[str, Any] | None
    comment: str
    template: str = ""

    @property
    def line(self) -> str:
        """The line of `[data.columns]`. A template is a comment, so that the column stays undeclared.

        >>> print(ColumnDraft("age", {"range": [0, 110]}, "years").line)
        age = { range = [0, 110] }  # years
        >>> print(ColumnDraft("body temp", None, "replace", "{ range = [LOW, HIGH] }").line)
        # "body temp" = { range = [LOW, HIGH] }  # replace
        """
        if self.declaration is None:
            return f"# {key_text(self.name)} = {self.template}  # {self.comment}"
        comment = f"  # {self.comment}" if self.comment else ""
        return f"{key_text(self.name)} = {inline(self.declaration)}{comment}"


def template(name: str, kind: Literal["label", "target", "number", "date", "text"], comment: str) -> ColumnDraft:
    """Return a draft that the user has to complete."""
    return ColumnDraft(name, None, comment, _TEMPLATES[kind])


def draft_from_name(name: str, stored: ColumnType | None, role: Role | None) -> ColumnDraft:
    """Return a draft from a column's name and type, without its cells.

    Args:
        name: The name of the column.
        stored: The type that the file states; None for text files.
        role: How the column is the target, if it is.

    >>> draft_from_name("patient_id", None, None).declaration, draft_from_name("smoker", "truth", None).declaration
    ('drop', {'categories': [False, True]})
    >>> draft_from_name("visit_date", None, None).template
    '{ date = ["FIRST", "LAST"] }'
    """
    if role is not None:
        if role == "label" and stored == "truth":
            return ColumnDraft(name, {"label": [False, True]}, "the target")
        order = ", in the order of the classes" if role == "label" else ""
        return template(name, role, f"the target{order}; {REPLACE}")
    if (dropped := draft_without_cells(name, stored)) is not None:
        return dropped
    if stored == "truth":
        return ColumnDraft(name, {"categories": [False, True]}, "")
    if stored == "date" or (stored is None and looks_like_date(name)):
        return template(name, "date", f'{REPLACE}, such as "2015-01-31"')
    if stored == "text" or (stored is None and _words(name) & _CATEGORIES):
        return template(name, "text", REPLACE)
    return template(name, "number", REPLACE if stored == "number" else f"{_UNKNOWN_TYPE}; {REPLACE}")


def draft_without_cells(name: str, stored: ColumnType | None) -> ColumnDraft | None:
    """Return the draft of a column that is not used, whatever its cells contain; None for other columns."""
    if looks_like_identifier(name):
        return ColumnDraft(name, DROP, _IDENTIFIER)
    if stored == "other":
        return ColumnDraft(name, DROP, "cells of this type cannot be used")
    if stored in (None, "text") and _words(name) & _FREE_TEXTS:
        return ColumnDraft(name, DROP, "the name suggests free text")
    return None


def looks_like_date(name: str) -> bool:
    """Return whether a column, by its name, contains dates.

    >>> [name for name in ("date", "visitDate", "admission_time", "days", "daytime", "age") if looks_like_date(name)]
    ['date', 'visitDate', 'admission_time']
    """
    return bool(_words(name) & _DATES)


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}
