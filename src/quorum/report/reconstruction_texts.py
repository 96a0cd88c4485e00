"""How the pages of a reconstruction write names, shares, metrics and what is not available."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quorum.report.charts import decimal, digits_for, percent
from quorum.report.escape import visible_text
from quorum.report.reconstruction_reading import Scalar
from quorum.report.reconstruction_records import Paired

Fact = tuple[str, str]

SOURCES = {
    "fit": "Fit",
    "equal_weights": "Equal weights",
    "pool_mean": "Pool mean",
    "uniform": "Uniform",
}
_METRICS = {
    "mse": "MSE",
    "rmse": "RMSE",
    "mae": "MAE",
    "jensen_shannon": "Jensen–Shannon",
    "earth_movers": "Earth mover’s",
    "n_active": "Active (weight above 0)",
    "effective_size": "Effective size",
}
_SPLITS = {"cv": "cross-validation", "test": "test", "train": "training"}
_LABELS = {
    "lam": "λ",
    "lam_rule": "λ chosen by",
    "n_active": "Active (weight above 0)",
    "effective_size": "Effective size (Kish)",
    "gap": "Optimality gap",
    "raw_sum": "Sum of weights, raw",
    "raw_min": "Smallest weight, raw",
    "is_unique": "Solution is unique",
    "n_train": "Training questions",
    "n_test": "Test questions",
    "by": "Split by",
    "largest_similarity": "Largest text similarity across the split",
    "test": "Test",
    "mean_mass": "Mean mass on the options",
}
VERDICTS = {
    "closer": "closer",
    "further": "further",
    "unclear": "no clear difference",
    "unknown": "not known",
}


def source_name(source: str) -> str:
    """A fit's or baseline's name, with a capital."""
    return SOURCES.get(source) or words(source)


def metric_name(metric: str) -> str:
    """A metric's name, with a capital."""
    return _METRICS.get(metric) or words(metric)


def split_name(split: str) -> str:
    """What a split is called in running text."""
    return _SPLITS.get(split) or visible_text(split)


def words(name: str) -> str:
    """A field's name as words: ``max_weight`` → ``Max weight``, ``n_answers`` → ``Answers``."""
    text = name.removeprefix("n_").replace("_", " ")
    return visible_text(text[:1].upper() + text[1:])


def scalar(value: Scalar) -> str:
    """A value as text: numbers with three figures, yes and no, ``not available`` for null."""
    if value is None:
        return "not available"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if isinstance(value, float):
        if value == round(value) and abs(value) < 1e9:
            return f"{value:,.0f}".replace("-", "−")
        tiny = 0.0 < abs(value) < 1e-3 or abs(value) >= 1e9
        return f"{value:.3g}".replace("-", "−") if tiny else decimal(value, row_digits([value]))
    return visible_text(value)


def facts(items: Mapping[str, Scalar]) -> list[Fact]:
    """Every entry as a fact; ``x_reason``, else ``reason``, is said with ``x`` where that is null.

    So stand also ``y x`` and ``y reason``, as a nested mapping ``y`` is written.
    """
    found = []
    for name, value in items.items():
        reason_of = name.removesuffix("_reason") if name.endswith("_reason") else ""
        if reason_of in items or name.split(" ")[-1] == "reason":
            continue
        shown = scalar(value)
        general = " ".join([*name.split(" ")[:-1], "reason"])
        reason = items.get(f"{name}_reason") or items.get(general)
        if value is None and reason:
            shown += f": {scalar(reason)}"
        found.append((_LABELS.get(name) or words(name), shown))
    return found


def share(value: float | None) -> str:
    """A share 0..1 in per cent with one decimal, without the sign; empty where there is none."""
    return "" if value is None else decimal(100 * value, 1)


@dataclass(slots=True)
class Reasons:
    """The reasons of one table's missing values, each written once below it under a number."""

    found: dict[str, int] = field(default_factory=dict)

    def shown(self, value: float | None, digits: int, reason: str) -> str:
        """The number, or ``n/a`` with the number of its reason."""
        return decimal(value, digits) if value is not None else self.missing(reason)

    def missing(self, reason: str) -> str:
        """``n/a`` with the number of a reason."""
        text = visible_text(reason) or "no reason was recorded"
        return f"n/a [{self.found.setdefault(text, len(self.found) + 1)}]"

    def lines(self) -> list[Fact]:
        """The numbers and their reasons."""
        return [(f"[{number}]", text) for text, number in self.found.items()]


def row_digits(values: Iterable[float | None]) -> int:
    """Decimals that show the largest magnitude of a row with three figures."""
    return max(0, digits_for(values) - 1)


def difference(row: Paired, digits: int, level: float) -> str:
    """A paired difference with its interval, or why there is none."""
    if row.difference is None:
        return f"not available: {visible_text(row.reason) or 'no reason was recorded'}"
    text = decimal(row.difference, digits, signed=True)
    if row.low is None or row.high is None:
        why = f" ({visible_text(row.reason)})" if row.reason else ""
        return f"{text}, no interval{why}"
    ends = " to ".join(decimal(end, digits, signed=True) for end in (row.low, row.high))
    return f"{text} ({percent(level)} interval {ends})"
