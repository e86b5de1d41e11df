"""Tables prepared cell by cell in plain Python, from the description in docs/data.md. Nothing of Tacit is used."""

import math
from datetime import datetime


def number(cell, decimal="."):
    """The number in a cell, or None."""
    cell = cell.strip()
    if cell.lower() in ("true", "false"):
        return float(cell.lower() == "true")
    if "_" in cell or (decimal == "." and "," in cell) or (decimal == "," and "." in cell):
        return None
    try:
        value = float(cell.replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def seconds(cell, form=None):
    """The seconds between a date and 1970, or None."""
    try:
        moment = datetime.strptime(cell.strip(), form) if form else datetime.fromisoformat(cell.strip())
    except ValueError:
        return None
    if moment.tzinfo is not None:
        offset = moment.utcoffset().total_seconds()
        moment = moment.replace(tzinfo=None)
    else:
        offset = 0
    return math.floor((moment - datetime(1970, 1, 1)).total_seconds() - offset)


def scaled(value, low, high, log=False):
    """[low, high] as [−1, 1], clamped."""
    value = min(max(value, low), high)
    share = math.log1p(value - low) / math.log1p(high - low) if log else (value - low) / (high - low)
    return min(max(2 * share - 1, -1.0), 1.0)


def category(cell, values, decimal="."):
    """The position of a cell in a list, or None."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        found = number(cell, decimal)
        return next((i for i, value in enumerate(values) if value == found), None)
    texts = [str(value) for value in values]
    if cell.strip() in texts:
        return texts.index(cell.strip())
    truth = [i for i, text in enumerate(texts) if text.lower() in ("true", "false")]
    return next((i for i in truth if texts[i].lower() == cell.strip().lower()), None)


def prepared(row, columns, missing="middle", decimal="."):
    """The prepared inputs of one record: a dict from column names to texts."""
    result = []
    for name in sorted(columns):
        declared = columns[name]
        if "range" in declared:
            value = number(row[name], decimal)
            bounds = declared["range"]
            part = [0.0 if value is None else scaled(value, *bounds, log=declared.get("scale") == "log")]
        elif "date" in declared:
            value = seconds(row[name], declared.get("format"))
            part = [0.0 if value is None else scaled(value, *map(seconds, declared["date"]))]
        elif "categories" in declared:
            value = category(row[name], declared["categories"], decimal)
            part = [float(i == value) for i in range(len(declared["categories"]))]
        else:
            continue
        result += part
        if declared.get("missing", missing) == "indicator":
            result.append(float(value is None))
    return result


def target(row, columns, decimal="."):
    """The target of one record."""
    flags = []
    for name in sorted(columns):
        declared = columns[name]
        if "label" in declared:
            return category(row[name], declared["label"], decimal) or 0
        if "target" in declared:
            value = number(row[name], decimal)
            return 0.0 if value is None else scaled(value, *declared["target"])
        if "count" in declared:
            low, high = declared["count"]
            return min(max(number(row[name], decimal) or 0.0, low), high)
        if "flag" in declared:
            flags.append(float(category(row[name], declared["flag"], decimal) == 1))
    return flags
