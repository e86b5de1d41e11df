"""Terms of a report, each with one sentence that explains it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

GLOSSARY = {
    "ε": "The privacy loss: the probability of any outcome changes by at most a factor e^ε, plus δ. Smaller is better.",
    "δ": "The probability that is added to the factor e^ε. It must be much smaller than 1 ÷ number of records.",
    "record": "One row of the data, such as one patient or one image.",
    "adversary": "The attacker against whom the guarantee holds, and what this attacker sees.",
    "guaranteed": "An upper bound on ε, computed from the ledger of everything that the nodes have released.",
    "claimed": "The ε of the paper’s own formula. Only the guaranteed ε is an upper bound for this run.",
    "simulated": "The noise is derived from a known seed, so the run shows the guarantee but protects nobody.",
}
_TERMS = re.compile(rf"(?<!\w)({'|'.join(GLOSSARY)})(?!\w)", re.IGNORECASE)


def mark_terms(text: str) -> Markup:
    """The text, escaped, with the first occurrence of each term marked as one that has an explanation.

    >>> print(mark_terms("ε <b>")[:10], mark_terms("ε <b>")[-14:])
    <abbr titl bbr> &lt;b&gt;
    """
    from markupsafe import Markup, escape  # in the extra `report`

    marked: set[str] = set()

    def mark(found: re.Match[str]) -> str:
        term = found[0].lower()
        if term in marked:
            return found[0]
        marked.add(term)
        return f'<abbr title="{escape(GLOSSARY[term])}">{found[0]}</abbr>'

    return Markup(_TERMS.sub(mark, str(escape(text))))
