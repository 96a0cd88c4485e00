"""What the pages show of each target: the answer, its errors beside baselines, questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorum.report.charts import Scale, decimal, percent
from quorum.report.escape import visible_label, visible_text
from quorum.report.reconstruction_charts import View, forest, scatter
from quorum.report.reconstruction_records import (
    Diagnostics,
    Option,
    Paired,
    Question,
    Record,
    Target,
)
from quorum.report.reconstruction_texts import (
    SOURCES,
    VERDICTS,
    Reasons,
    difference,
    metric_name,
    row_digits,
    share,
    source_name,
    split_name,
)

LONG = 600  # graphemes of a text shown whole
SHORT = 64  # and beside many targets, where a list of the questions stands below
_LESS = ("unclear", "further", "unknown")
_SPLIT_ORDER = {"cv": 0, "test": 1, "train": 2}


def pick(target: Target, metric: str, split: str, source: str, policy: str) -> Record | None:
    """The record for a table that shows one policy and unit: of the fit, only that policy's."""
    found = [
        item
        for item in target.records
        if (item.metric, item.split, item.source) == (metric, split, source)
        and (source != "fit" or item.policy in (policy, ""))
    ]
    unit = target.fit.get("unit")
    return min(found, key=lambda r: (r.policy != policy, r.unit != unit), default=None)


def cv_mse(target: Target, policy: str) -> float | None:
    """The cross-validated error: its record's value, else that of the curve's chosen point."""
    record = pick(target, "mse", "cv", "fit", policy) or next(
        (item for item in target.records if (item.metric, item.source) == ("cv_mse", "fit")), None
    )
    if record is not None:
        return record.value
    return next((point.mse for point in target.cv if point.is_chosen), None)


def lead(target: Target) -> list[Paired]:
    """The paired differences that answer the question: of MSE, test before other splits."""
    rows = [row for row in target.paired if row.metric == "mse"] or list(target.paired)
    tested = [row for row in rows if row.split == "test"]
    known = [row for row in tested if row.difference is not None]
    return known or [row for row in rows if row.difference is not None] or tested or rows


def answer(target: Target, diagnostics: Diagnostics) -> View:
    """Did it work, in a word and a sentence for each baseline."""
    rows = lead(target)
    verdicts = [row.verdict() for row in rows]
    split = rows[0].split if rows else "test"
    head = _head(verdicts, is_sealed=diagnostics.is_sealed)
    if split != "test" and "unknown" not in verdicts:
        why = " (the test is sealed)" if diagnostics.is_sealed else ""
        head = f"So far, on {split_name(split)}{why}, {head[0].lower()}{head[1:]}"
    digits = row_digits([end for row in rows for end in (row.low, row.high)])
    lines = []
    for row in rows:
        name = source_name(row.against).lower()
        shown = difference(row, digits, diagnostics.level)
        if row.difference is None:
            lines.append(f"Against {name}: {shown}.")
        else:
            verdict = VERDICTS[row.verdict()]
            verdict += "" if row.verdict() == "unclear" else " to the target"
            lines.append(f"Against {name}: {verdict}; MSE of the fit minus theirs {shown}.")
    return {"head": head, "lines": lines, "sign": _sign(verdicts)}


def _head(verdicts: Sequence[str], *, is_sealed: bool) -> str:
    known = [verdict for verdict in verdicts if verdict != "unknown"]
    if not known:
        return "Not known: the test is sealed" if is_sealed else "Not known"
    if all(verdict == "closer" for verdict in known):
        return "Yes: closer to the target than every baseline compared"
    if "closer" in known:
        return "In part: closer to the target than some baselines, not all"
    if "further" in known:
        return "No: further from the target than a baseline"
    return "No clear difference from the baselines"


def _sign(verdicts: Sequence[str]) -> str:
    if verdicts and all(verdict == "closer" for verdict in verdicts):
        return "pos"
    return "neg" if "further" in verdicts and "closer" not in verdicts else "none"


def paired_rows(target: Target, scale: Scale, level: float) -> list[View]:
    """Every paired difference as a row: the leading ones first, then as they were written."""
    first = lead(target)
    rows = first + [row for row in target.paired if row not in first]
    digits = row_digits([end for row in rows for end in (row.difference, row.low, row.high)])
    return [
        {
            "against": source_name(row.against),
            "what": f"{metric_name(row.metric)}, {split_name(row.split)}",
            "shown": difference(row, digits, level),
            "verdict": VERDICTS[row.verdict()],
            "sign": {"closer": "pos", "further": "neg"}.get(row.verdict(), "none"),
            "blocks": "" if row.n_blocks is None else f"{row.n_blocks:,}",
            "chart": forest(scale, row),
        }
        for row in rows
    ]


def error_table(target: Target, diagnostics: Diagnostics) -> View:
    """Metrics with the baselines beside the fit; the cross-validated value left of the test's.

    Baselines are of the test, or of cross-validation while the test is sealed.
    """
    policy, reasons = diagnostics.policy, Reasons()
    metrics = list(dict.fromkeys(item.metric for item in target.records if item.split != "cv"))
    metrics += [m for m in dict.fromkeys(i.metric for i in target.records) if m not in metrics]
    columns = _error_columns(target, is_sealed=diagnostics.is_sealed)
    first = columns.index(("cv", "fit"))
    rows = []
    for metric in metrics:
        cells = [pick(target, metric, split, source, policy) for split, source in columns]
        values = [None if cell is None else cell.value for cell in cells]
        if metric == "mse" and cells[first] is None:
            values[first] = cv_mse(target, policy)
        if not any(cells) and values[first] is None:
            continue
        digits = row_digits(values)
        rows.append(
            (
                metric_name(metric),
                [
                    reasons.shown(value, digits, "not recorded" if cell is None else cell.reason)
                    for value, cell in zip(values, cells, strict=True)
                ],
            )
        )
    n_cv = sum(split == "cv" for split, _ in columns)
    return {
        "groups": [("cv", n_cv), ("test", len(columns) - n_cv)],
        "heads": [source_name(source) for _, source in columns],
        "rows": rows,
        "reasons": reasons.lines(),
        "policy": visible_text(policy),
    }


def _error_columns(target: Target, *, is_sealed: bool) -> list[tuple[str, str]]:
    """Columns (split, source): cross-validation stands left of the test."""
    fit, *baselines = _sources(target)
    if is_sealed:
        return [*(("cv", source) for source in (fit, *baselines)), ("test", fit)]
    return [("cv", fit), *(("test", source) for source in (fit, *baselines))]


def _sources(target: Target) -> list[str]:
    found = dict.fromkeys(item.source for item in target.records)
    return [*SOURCES, *(name for name in found if name not in SOURCES)]


def record_table(target: Target) -> View:
    """Every metric record: a row a metric, unit, policy and split, a column a source."""
    reasons, sources = Reasons(), _sources(target)
    groups: dict[tuple[str, str, str, str], dict[str, Record]] = {}
    for item in target.records:
        key = (item.metric, item.unit, item.policy, item.split)
        groups.setdefault(key, {}).setdefault(item.source, item)
    order = {metric: index for index, metric in enumerate(dict.fromkeys(key[0] for key in groups))}
    rows = []
    for key in sorted(groups, key=lambda k: (order[k[0]], *k[1:3], _SPLIT_ORDER.get(k[3], 3))):
        group = groups[key]
        found = [group.get(source) for source in sources]
        digits = row_digits([None if item is None else item.value for item in found])
        cells = [
            "" if item is None else reasons.shown(item.value, digits, item.reason) for item in found
        ]
        first = next(iter(group.values()))
        how = ", ".join(part for part in (key[3], key[1], key[2]) if part)
        n = "" if first.n_questions is None else f"{first.n_questions:,}"
        covered = "" if first.coverage is None else percent(first.coverage)
        rows.append((metric_name(key[0]), visible_text(how), [*cells, n, covered]))
    heads = [*(source_name(name) for name in sources), "Questions", "Coverage"]
    return {"groups": [], "heads": heads, "rows": rows, "reasons": reasons.lines()}


def counts_of_verdicts(diagnostics: Diagnostics) -> list[str]:
    """For several targets: against each baseline, how many are closer, unclear, further."""
    lines = []
    leads = [lead(target) for target in diagnostics.targets]
    for against in dict.fromkeys(row.against for rows in leads for row in rows):
        found = [row.verdict() for rows in leads for row in rows if row.against == against]
        line = (
            f"Closer than {source_name(against).lower()} in {found.count('closer')} of {len(leads)}"
        )
        rest = [f"{VERDICTS[w]} in {found.count(w)}" for w in _LESS if w in found]
        lines.append("; ".join([f"{line} targets", *rest]) + ".")
    return lines


def worst(target: Target, count: int = 5) -> list[Question]:
    """The questions with the largest error: of the test where it is open, else of training."""
    known = [question for question in target.questions if question.mse is not None]
    tested = [question for question in known if question.split == "test"] or known
    return sorted(tested, key=lambda q: (-(q.mse or 0.0), q.id))[:count]


def _worst_name(questions: Sequence[Question]) -> str:
    split = split_name(questions[0].split) if questions else ""
    return f"The {len(questions)} {split} questions with the largest MSE"


def question_views(
    questions: Iterable[Question], diagnostics: Diagnostics, policies: Sequence[str], limit: int
) -> list[View]:
    """Questions as row groups: a heading with its errors and a row an option, shares in %."""
    return [_question_view(item, diagnostics, policies, limit) for item in questions]


def _question_view(
    question: Question, diagnostics: Diagnostics, policies: Sequence[str], limit: int
) -> View:
    is_hidden = diagnostics.is_sealed and question.split == "test"
    about = [split_name(question.split)]
    if question.mse is not None:
        about.append(f"MSE {decimal(question.mse, 4)}")
    elif not is_hidden:
        why = visible_text(question.reason)
        about.append(f"MSE not available{': ' if why else ''}{why}")
    if question.total_variation is not None:
        about.append(f"total variation {share(question.total_variation)} %")
    if question.is_modal_right is not None:
        about.append("mode right" if question.is_modal_right else "mode wrong")
    if question.n is not None:
        about.append(f"n {question.n:,.0f}")
    if is_hidden:
        about.append("sealed: target not shown")
    return {
        "id": visible_label(question.id),
        "text": visible_label(question.text, limit=limit),
        "about": " · ".join(about),
        "options": [
            _option_view(option, policies, limit, is_hidden=is_hidden)
            for option in question.options
        ],
    }


def _option_view(option: Option, policies: Sequence[str], limit: int, *, is_hidden: bool) -> View:
    predicted = [option.predicted.get(policy) for policy in policies]
    has_interval = option.low is not None and option.high is not None
    missing = "sealed" if is_hidden else "n/a"
    bar = [("p", predicted[0] if predicted else None), ("t", option.target)]
    if has_interval:
        bar += [("l", option.low), ("h", option.high)]
    return {
        "label": visible_label(option.label, limit=24),
        "text": visible_label(option.text, limit=limit),
        "style": bar_style(bar),
        "target": share(option.target) or missing,
        "interval": f"{share(option.low)}–{share(option.high)}" if has_interval else "",
        "predicted": [share(value) or "n/a" for value in predicted],
        "pool_mean": share(option.pool_mean) or "n/a",
    }


def bar_style(parts: Iterable[tuple[str, float | None]]) -> str:
    """Custom properties of a bar drawn by the style sheet: shares in %, kept within 0..100."""
    return ";".join(
        f"--{name}:{min(100.0, max(0.0, 100 * value)):.1f}".removesuffix(".0")
        for name, value in parts
        if value is not None
    )


def target_view(target: Target, index: int, diagnostics: Diagnostics, scale: Scale) -> View:
    """All that report.html shows of a target."""
    return {
        "index": index + 1,
        "name": visible_label(target.name),
        "answer": answer(target, diagnostics),
        "paired": paired_rows(target, scale, diagnostics.level),
        "scatter": scatter(target.questions, diagnostics.policy),
        "errors": error_table(target, diagnostics),
        "worst": question_views(worst(target), diagnostics, [diagnostics.policy], LONG),
        "worst_name": _worst_name(worst(target)),
    }
