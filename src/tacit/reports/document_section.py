"""The first page of a printed report: what an ethics board files about a run."""

from __future__ import annotations

from tacit.reports.privacy_statement import MEANING, StatementItem, privacy_statement
from tacit.reports.run_record import RunRecord
from tacit.reports.verification_section import digests
from tacit.runs import recipe_line
from tacit.runs.metrics import headline
from tacit.tasks import datasets

_NO_PURPOSE = "Not stated."
_NO_ASSUMPTIONS = "Everything that the guarantee needs is proven or enforced. The limitations below apply."


def description_items(run: RunRecord) -> list[StatementItem]:
    """What was trained, on which data, and the recipe that chose the settings, if one did."""
    items = [StatementItem("Data", data_text(run)), StatementItem("Method", method_text(run))]
    if name := run.config.get("recipe"):
        items.append(StatementItem("Recipe", recipe_line(str(name)).removeprefix("Recipe: ")))
    return items


def document_items(run: RunRecord, purpose: str) -> list[StatementItem]:
    """Purpose, data, method, guarantee and assumptions of a run, and the digests that identify it."""
    statement = dict(privacy_statement(run))
    guarantee = [f"{run.privacy.line}.", statement.get(MEANING, ""), statement.get("Notes", "")]
    return [
        StatementItem("Purpose", purpose or _NO_PURPOSE),
        StatementItem("Data", data_text(run)),
        StatementItem("Method", f"{method_text(run)} {statement.get('Releases', '')}".strip()),
        StatementItem("Guarantee", " ".join(filter(None, guarantee))),
        StatementItem("Assumptions", statement.get("Assumptions", _NO_ASSUMPTIONS)),
        StatementItem("Result", _result_text(run)),
        StatementItem("Identification", _identification(run)),
    ]


def data_text(run: RunRecord) -> str:
    """The data set by name, its columns, and how many records the nodes hold."""
    data, sharding = run.config.get("data", {}), run.config.get("sharding", {})
    name = str(data.get("name", "not recorded"))
    described = datasets.describe().get(name, "") if "path" not in data else ""
    text = f"{name}: {described.rstrip('.')}" if described else name
    if "path" in data:
        text += f", {data['path']}"
    columns = data.get("columns")
    if isinstance(columns, dict) and columns:
        used = [name for name, rule in columns.items() if rule != "drop"]
        text += f". Columns used: {', '.join(used)}"
        dropped = [name for name in columns if name not in used]
        text += f". Columns dropped: {', '.join(dropped)}" if dropped else ""
    sizes = [int(row["records"]) for row in run.nodes]
    if sizes:
        nodes = f"{len(sizes):,} node{'s' if len(sizes) > 1 else ''}"
        spread = f", {min(sizes):,} to {max(sizes):,} per node" if len(sizes) > 1 else ""
        text += f". {sum(sizes):,} training records at {nodes}{spread}"
    by = f" ({sharding['column']})" if "column" in sharding else ""
    return f"{text}. Divided among the nodes: {sharding['name']}{by}." if "name" in sharding else f"{text}."


def _result_text(run: RunRecord) -> str:
    """The headline metrics beside the trivial predictor."""
    measured, trivial = run.result.get("metrics") or {}, run.result.get("trivial") or {}
    text = headline(measured, trivial)
    return f"{text[:1].upper()}{text[1:]}." if text else "Not measured."


def _identification(run: RunRecord) -> str:
    """The digests that bind the signatures to this run."""
    found = digests(run)
    listed = [f"{name} {found[name]}" for name in ("config", "releases") if name in found]
    return f"SHA-256 digests in the ledger: {'; '.join(listed)}." if listed else "The ledger is not in the folder."


def method_text(run: RunRecord) -> str:
    """The algorithm, its graph and rounds, and the model."""
    model = run.config.get("model", {})
    text = f"{run.result['algorithm']} without a server, {run.graph['description']}, {run.result['rounds']:,} rounds"
    return f"{text}, model {model['name']}." if isinstance(model, dict) and "name" in model else f"{text}."
