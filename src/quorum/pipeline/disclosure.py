"""What a run has to disclose: gathered from its files; what is not there is said with a reason."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import cast

from quorum.errors import InputError
from quorum.pipeline import artifacts
from quorum.pipeline.inspection import Inspection, attributions_of, diagnostics_of
from quorum.pipeline.runs import Run
from quorum.report.disclosure import Item, disclosure_text, md, md_code, md_table
from quorum.report.document import Attribution
from quorum.report.reconstruction_records import Diagnostics
from quorum.runtime.codec import unpack_request
from quorum.runtime.shards import SHARD, read_shard
from quorum.runtime.store import PackedRow

Section = tuple[str, str]
_QUESTION_COLUMNS = ("question_id", "split", "question_text", "option_label", "option_text")


def disclosure(run: Run, seen: Inspection) -> str:
    """The text of disclosure.md; ``seen`` is the run's summary.

    Raises:
        InputError: A file that is there cannot be used.
    """
    items, sections = _STUDIES[run.study](run)
    notes = "".join(f"- {md(note)}\n" for note in seen.notes)
    if notes:
        sections.append(("Notes of the run", notes))
    return disclosure_text(seen.title, seen.label, [*_common(run), *items], sections)


def _common(run: Run) -> list[Item]:
    record = run.record
    source = cast("Mapping[str, object]", record["input"])
    model = record.get("model")
    found = cast("Mapping[str, object]", model) if isinstance(model, Mapping) else {}
    versions = cast("Mapping[str, object]", record["versions"])
    return [
        _item("Data", source.get("title"), "the input has no title"),
        _item("Licence of the data", source.get("licence"), "the input names none"),
        _item("Whom to name", source.get("attribution"), "the input names nobody"),
        _item("How to cite the data", source.get("citation"), "the input says nothing"),
        _item("Who answered", _model(found), "no model: see the label above"),
        _item("Version that the provider named", _versions(run), "the backend names none"),
        _item("Dates of the calls", _dates(run), "no reply and no call is on record"),
        _item("Run", run.run_id, ""),
        _item("Digest of the settings", record["settings_digest"], ""),
        _item("Seed", record["seed"], ""),
        _item("Software", ", ".join(f"{k} {versions[k]}" for k in sorted(versions)), ""),
        _item("Ended", f"{record['finished']}, by {record.get('stop_reason')}", ""),
    ]


def _item(name: str, answer: object, reason: str) -> Item:
    return name, None if answer in (None, "", "None") else str(answer), reason


def _model(model: Mapping[str, object]) -> str | None:
    if not model:
        return None
    identity = model.get("identity")
    about = f" ({json.dumps(identity, sort_keys=True)})" if isinstance(identity, Mapping) else ""
    return f"{model.get('backend')}: {model.get('model')}{about}"


def _versions(run: Run) -> str | None:
    """What the replies say has answered, most frequent first."""
    folder = run.path("generations")
    if folder is None:
        return None
    counts = Counter(
        str(row.get("model_version"))
        for path in sorted(folder.glob("*.jsonl"))
        for row in artifacts.read_jsonl(path)
        if row.get("model_version")
    )
    return ", ".join(f"{name} ({n} replies)" for name, n in counts.most_common()) or None


def _dates(run: Run) -> str | None:
    """First and last day on which a reply came, however long ago it was paid for."""
    kept = [_day(row.created) for row in _shard(run)]
    called = [row["time"][:10] for row in run.read_table("usage.csv", ["time"]) or []]
    days = sorted(kept or called)
    return f"{days[0]} to {days[-1]}" if days else None


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _shard(run: Run) -> Iterator[PackedRow]:
    """The rows of the store that the run rests on; none where the run has no such file."""
    path = run.path(SHARD)
    return iter(()) if path is None else read_shard(path, run.where(SHARD))


def _wording(run: Run, title: str) -> Section:
    """One request as it was sent."""
    row = next(_shard(run), None)
    if row is None:
        return title, "Not recorded (the run's files hold no request).\n"
    messages = json.loads(unpack_request(row.request))["messages"]
    return title, md_code("\n\n".join(f"[{role}]\n{content}" for role, content in messages))


def _attribution(run: Run) -> tuple[list[Item], list[Section]]:
    found = attributions_of(run)
    if found is None:
        return [("Prompts", None, "attributions.jsonl is missing")], []
    first = found[0].texts if found else {}
    finished = Counter(item.texts["base_finish_reason"] for item in found)
    items: list[Item] = [
        _item("Prompts", len(found), ""),
        _item("What an absent part is replaced by", first.get("absence"), "no prompt"),
        _item("How replies are compared", first.get("value_function"), "no prompt"),
        _item("Estimator and estimand", _estimator(found), "no prompt"),
        _item("How base generations ended", _counts(finished), "no prompt"),
        _item("Settings of the replies", _settings(run, "generation"), "no config.resolved.yaml"),
    ]
    prompts = [
        f"{md(a.snapshot)}, {md(role)}:\n\n{md_code(content)}"
        for a in found
        for role, content in a.messages
    ]
    return items, [
        ("Exact wording of the prompts", "\n".join(prompts)),
        _wording(run, "One request as it was sent (parts may be absent)"),
    ]


def _estimator(found: list[Attribution]) -> str | None:
    names = sorted({f"{a.texts['estimator']}, {a.texts['estimand']}" for a in found})
    return "; ".join(names) or None


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))


def _settings(run: Run, group: str) -> str | None:
    """A group of the settings on one line."""
    settings = run.settings()
    if settings is None or group not in settings:
        return None
    return json.dumps(settings[group], sort_keys=True, ensure_ascii=False)


def _reconstruction(run: Run) -> tuple[list[Item], list[Section]]:
    found = diagnostics_of(run)
    if found is None:
        return [("Survey", None, "diagnostics.json is missing")], []
    survey = found.survey
    counts = ", ".join(f"{reason} {n}" for reason, n in found.cleaning_counts) or "none"
    items: list[Item] = [
        _item("Population", survey.get("population"), "the input names none"),
        _item("Field dates of the survey", survey.get("field_dates"), "the input names none"),
        _item("Mode of the survey", survey.get("mode"), "the input names none"),
        _item("Respondents", "people of a table" if found.is_panel else "personas of a model", ""),
        _item("How options are ordered", _orders(found), "the elicitation states no orders"),
        _item("How answers are asked for", found.elicitation.get("name"), "not recorded"),
        _item("Invalid, refused and missing answers", counts, ""),
        _item("Personas kept after cleaning", found.cleaning.get("n_personas_kept"), "unknown"),
        _item("Cleaning policy", found.cleaning.get("policy"), "unknown"),
        _item("Prediction policy", found.policy, ""),
        _item("Level of the intervals", found.level, ""),
        _item("Held-out questions", found.split.get("n_test"), "unknown"),
        _item("Test", "sealed: nobody has read it" if found.is_sealed else "open", ""),
        _item("Persona attributes", _settings(run, "pool"), "no config.resolved.yaml"),
    ]
    template = "The persona's text, as it was sent" if not found.is_panel else "Nobody was asked"
    sections = [("Weights", md_table(_weights(run, found))), _questions(run)]
    if not found.is_panel:
        sections.append(_wording(run, template))
    return items, sections


def _orders(found: Diagnostics) -> str | None:
    n = found.elicitation.get("orders")
    if n is None:
        return None
    return f"{n} orders a question and persona: scales forward and reversed, others rotated"


def _weights(run: Run, found: Diagnostics) -> list[dict[str, object]]:
    """Range of the ensemble weights and active personas, a target each."""
    by_target: dict[str, list[float]] = {}
    for row in run.read_table("weights.csv", ["target", "weight"]) or []:
        try:
            by_target.setdefault(row["target"], []).append(float(row["weight"]))
        except ValueError as error:
            where = run.where("weights.csv")
            raise InputError(where, "a weight is no number", got=row["weight"]) from error
    return [
        {
            "target": target.name,
            "ensemble": target.fit.get("ensemble"),
            "active personas": target.fit.get("n_active"),
            "effective size": target.fit.get("effective_size"),
            "smallest weight": min(by_target.get(target.name, []), default=None),
            "largest weight": target.fit.get("max_weight"),
            "mass": target.fit.get("mass"),
        }
        for target in found.targets
    ]


def _questions(run: Run) -> Section:
    title = "Exact wording of questions and options"
    found = run.read_table("questions.csv", _QUESTION_COLUMNS)
    if found is None:
        return title, "Not recorded (questions.csv is missing).\n"
    rows: dict[str, dict[str, object]] = {}
    for row in found:
        shown = rows.setdefault(
            row["question_id"],
            {
                "question": row["question_id"],
                "split": row["split"],
                "wording": row["question_text"],
                "options": "",
            },
        )
        option = f"{row['option_label']}: {row['option_text']}" if row["option_text"] else ""
        parts = [str(shown["options"]), option or row["option_label"]]
        shown["options"] = " / ".join(part for part in parts if part)
    return title, md_table(list(rows.values()))


def _simulation(run: Run) -> tuple[list[Item], list[Section]]:
    return [_item("Sweep", _settings(run, "sweep"), "no config.resolved.yaml")], []


_STUDIES = {
    "attribution": _attribution,
    "reconstruction": _reconstruction,
    "simulation": _simulation,
}
