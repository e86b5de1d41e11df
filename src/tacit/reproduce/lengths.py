"""Seeds and lengths of the runs in a table. Rows that differ in them get columns: nothing is mixed silently."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tacit.reproduce.results import ResultRow, SeedSummary


def table_note(rows: Sequence[ResultRow]) -> str:
    """What the rows of a table have in common: seeds and length. Runs shorter than the paper's are marked."""
    summaries = all_summaries(rows)
    counts = _seed_counts(rows)
    sentences = []
    if counts:
        sentences.append(f"Seeds: {counts[0]}." if len(counts) == 1 else "Rows differ in their number of seeds.")
    if _is_uneven(rows):
        sentences.append("**Rows differ in length**: see the column “rounds”. Differences are between equal lengths.")
    elif length := length_range(summaries):
        sentences.append(f"Rounds: {length}.")
    if any(each.is_short for each in summaries):
        sentences.append("**Shorter than the published runs.**")
    missing = sum(not all_summaries([row]) for row in rows)
    if missing:
        sentences.append(f"{missing} of {len(rows)} rows are not run.")
    return " ".join(sentences)


def uneven_columns(rows: Sequence[ResultRow], row: ResultRow) -> dict[str, str | None]:
    """The columns of a row with its seeds and its length, each if the rows differ in it."""
    return {
        **({"seeds": _row_text(row, lambda each: str(len(each.seeds)))} if len(_seed_counts(rows)) > 1 else {}),
        **({"rounds": _row_text(row, length_text)} if _is_uneven(rows) else {}),
    }


def length_range(summaries: Sequence[SeedSummary]) -> str:
    """The lengths of runs in words; empty for runs without rounds."""
    known = sorted((each for each in summaries if each.rounds is not None), key=lambda each: each.rounds or 0)
    words = list(dict.fromkeys(length_text(each) for each in known))
    return words[0] if len(words) == 1 else f"{words[0]} to {words[-1]}" if words else ""


def length_text(summary: SeedSummary) -> str:
    """The rounds of runs in words.

    >>> length_text(SeedSummary({}, {}, 1, None, None, "run", 1e-4, [], [], rounds=500, published_rounds=2000))
    '500 of 2,000'
    >>> length_text(SeedSummary({}, {}, 1, None, None, "run", 1e-4, [], [], rounds=500, fewest_rounds=12))
    '12 of 500'
    """
    if summary.rounds is None:
        return "–"
    done = summary.rounds if summary.fewest_rounds is None else summary.fewest_rounds
    planned = max(summary.rounds, summary.published_rounds or 0)
    return f"{done:,}" if done >= planned else f"{done:,} of {planned:,}"


def all_summaries(rows: Sequence[ResultRow]) -> list[SeedSummary]:
    """The runs of all rows and calibrations."""
    return [each for row in rows for each in (row.paper, row.guaranteed, row.plain) if each is not None]


def _seed_counts(rows: Sequence[ResultRow]) -> list[int]:
    return sorted({len(each.seeds) for each in all_summaries(rows) if each.seeds})


def _is_uneven(rows: Sequence[ResultRow]) -> bool:
    """Whether runs differ in length. Lengths in proportion to those of the experiment's file do not."""
    summaries = [each for each in all_summaries(rows) if each.rounds is not None]
    return len({(round(each.share, 2), each.is_short) for each in summaries}) > 1


def _row_text(row: ResultRow, text: Callable[[SeedSummary], str]) -> str | None:
    """What is the same for all runs of a row, or the values for its calibrations."""
    return " / ".join(dict.fromkeys(text(each) for each in all_summaries([row]))) or None
