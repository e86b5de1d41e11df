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
    "eavesdropper": "An attacker who reads every message between the nodes.",
    "guaranteed": "An upper bound on ε, computed from the ledger of everything that the nodes have released.",
    "claimed": "The ε of the paper’s own formula. Only the guaranteed ε is an upper bound for this run.",
    "simulated": "The noise is derived from a known seed, so the run shows the guarantee but protects nobody.",
    "false positives": "Cases in which the attacker decides that a record was used although it was not.",
    "lower bound": "An ε that an attack has shown. The true ε is at least as large, with the stated confidence.",
    "trivial predictor": "A predictor that ignores the inputs. A model that is not better has learned nothing useful.",
}
_TERMS = re.compile(rf"(?<!\w)({'|'.join(GLOSSARY)})(?!\w)", re.IGNORECASE)


def term_id(term: str) -> str:
    """The id of the element that explains a term.

    >>> term_id("lower bound")
    'term-lower-bound'
    """
    return f"term-{term.lower().replace(' ', '-')}"


def mark_terms(text: str) -> Markup:
    """The text, escaped, with the first occurrence of each term as a button that shows its explanation.

    The page opens the explanation on hover, on keyboard focus and on touch.

    >>> print(mark_terms("δ <b>"))
    <button type="button" class="term" popovertarget="term-δ" aria-describedby="term-δ">δ</button> &lt;b&gt;
    """
    from markupsafe import Markup, escape  # in the extra `report`

    marked: set[str] = set()

    def mark(found: re.Match[str]) -> str:
        term = found[0].lower()
        if term in marked:
            return found[0]
        marked.add(term)
        explained = escape(term_id(term))
        attributes = f'class="term" popovertarget="{explained}" aria-describedby="{explained}"'
        return f'<button type="button" {attributes}>{found[0]}</button>'

    return Markup(_TERMS.sub(mark, str(escape(text))))
