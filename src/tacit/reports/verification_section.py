"""Whether a run was verified, when, and what its ledger records about it, for the page."""

from __future__ import annotations

from tacit.reports.privacy_statement import StatementItem
from tacit.reports.run_record import RunRecord
from tacit.runs import RecordedFacts, Verification


def verification_items(run: RunRecord) -> list[StatementItem]:
    """One line per fact. A page that the run itself has written states that the run is not verified yet."""
    verification, facts = run.verification, run.facts
    several = (
        f"This is the mean of {run.seeds} runs, and all of them are verified. The privacy statement and the lines "
        f"below are those of the run with the largest ε, {run.folder}."
    )
    items = [StatementItem("Runs", several if run.seeds > 1 else "")]
    if verification is None:
        text = f"Written by the run at its end. To verify it: tacit report {run.folder}"
        items.append(StatementItem("Not verified", text))
    else:
        items += [
            StatementItem("Verified", f"{_date(verification.time)} (UTC). {_sentence(verification)}"),
            StatementItem("Not checked", " ".join(f"{_capitalised(line)}." for line in verification.unchecked)),
            StatementItem("Signature", _signature(verification)),
        ]
    if facts is not None:
        items += [
            StatementItem("Run", _times(facts)),
            StatementItem("Extended", _extensions(facts)),
            StatementItem("Software", _software(facts)),
        ]
    return [item for item in items if item.text]


def dated_line(run: RunRecord) -> str:
    """The day of the run and the version of Tacit; empty if the ledger is not in the folder."""
    facts = run.facts
    if facts is None:
        return ""
    first, last = _date(facts.starts[0].time), _date(facts.ended or facts.starts[-1].time)
    return f"{first if first == last else f'{first} to {last}'} · Tacit {facts.starts[-1].tacit}"


def digests(run: RunRecord) -> dict[str, str]:
    """SHA-256 digests of the config, the inputs, the releases and the files, as the ledger records them."""
    if run.facts is None:
        return {}
    found = {"config": run.facts.config_digest, **run.facts.inputs, "releases": run.facts.releases_digest or ""}
    return {name: digest for name, digest in (found | dict(sorted(run.facts.files.items()))).items() if digest}


def _sentence(verification: Verification) -> str:
    return f"These agree with the ledger: {'; '.join(verification.checked)}."


def _signature(verification: Verification) -> str:
    if verification.signed_by is None:
        return "None. Without a signature, a verification shows that the files agree, and not who has written them."
    return f"Valid, by the key {verification.signed_by}. Compare the key with the one that the signer has published."


def _times(facts: RecordedFacts) -> str:
    again = len(facts.starts) - 1
    resumed = f", resumed {again} time{'s' if again > 1 else ''}" if again else ""
    noise = f"derived from seed {facts.seed} (simulated)" if facts.simulated else "secret"
    return f"Started {facts.starts[0].time}, ended {facts.ended}{resumed}. Noise: {noise}."


def _extensions(facts: RecordedFacts) -> str:
    return " ".join(f"By {each.rounds:,} rounds after round {each.round:,}, {each.time}." for each in facts.extensions)


def _software(facts: RecordedFacts) -> str:
    used = dict.fromkeys(f"Tacit {each.tacit}, torch {each.torch}, Python {each.python}" for each in facts.starts)
    return "; ".join(used)


def _date(time: str) -> str:
    return time[:10]


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
