"""Tables of the documentation that are made from the project: settings, re-runs, values."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

import yaml
from docs_pages import ROOT

from quorum.config.compose import compose, read_params
from quorum.config.families import option_fields, part_class
from quorum.config.schema import GROUPS, LEAVES, Input, SurveyInput, describe
from quorum.config.stages import views

STAGES = ("partition", "generate", "score", "aggregate", "budget")
_ATTRIBUTE = {
    "id": "mood",
    "label": "Mood",
    "phrase": "You are {value} today.",
    "values": ["glad", "sad"],
    "group": "core",
}
_LOGPROB = {"use": "logprob"}
Change = tuple[str, Mapping[str, object]]
CHANGES: dict[str, tuple[Change, ...]] = {}
CHANGES["attribution"] = (
    ("`input`", {"input": "gallery"}),
    ("`partition`", {"partition": "words"}),
    ("`absence`", {"absence": "pad"}),
    ("`estimator`, other plan", {"estimator": "mc"}),
    ("`estimator: neyman_cc`", {"estimator": "neyman_cc"}),
    ("`estimator.estimand`", {"estimator": {"estimand": "banzhaf"}}),
    ("`estimator.control_variate`", {"estimator": {"control_variate": "linear"}}),
    ("`value`, of texts", {"value": "chrf"}),
    ("`value.reference`", {"value": {"reference": "target"}}),
    ("`value: logprob`", {"value": "logprob"}),
    ("`normaliser`", {"normaliser": "abs_sum"}),
    ("`generation.max_tokens`", {"generation": {"max_tokens": 8}}),
    ("`generation.temperature`", {"generation": {"temperature": 0.5}}),
    ("`backend`", {"backend": "scripted"}),
    ("`backend.engines`", {"backend": {"engines": 1}}),
    ("`seed`", {"seed": 1}),
    ("`budget.fraction`", {"budget": {"fraction": 0.2}}),
    ("`budget.max_usd`, other caps", {"budget": {"max_usd": 5}}),
    ("`budget.on_cap`", {"budget": {"on_cap": "partial"}}),
    ("`prices.*`", {"prices": {"genai_prices": True}}),
    ("`runtime.*`", {"runtime": {"max_inflight": 2}}),
    ("`report.level`", {"report": {"level": 0.95}}),
)
CHANGES["reconstruction"] = (
    ("`input`", {"input": "ipip25"}),
    ("`input.population`", {"input": {"use": "us2020", "population": "citizens"}}),
    ("`split.by`, `split.train_share`", {"split": {"by": "question"}}),
    ("`split.max_questions`", {"split": {"max_questions": 10}}),
    ("`split.test`", {"split": {"test": "sealed"}}),
    ("`target.groups`", {"target": {"groups": ["party"]}}),
    ("`bank`", {"bank": {"use": "general", "attributes": [_ATTRIBUTE]}}),
    ("`pool: quick`", {"pool": "quick"}),
    ("`pool.*`", {"pool": {"size": 60}}),
    ("`elicitation`", {"elicitation": "choice"}),
    ("`elicitation.calibration`", {"elicitation": {**_LOGPROB, "calibration": "contextual"}}),
    ("`elicitation.elicit_test`", {"elicitation": {**_LOGPROB, "elicit_test": "active_only"}}),
    ("`cleaning`", {"cleaning": "drop_question"}),
    ("`ensemble`", {"ensemble": "lasso"}),
    ("`ensemble.policies`", {"ensemble": {"use": "simplex", "policies": ["raw"]}}),
    ("`backend`", {"backend": "panel"}),
    ("`backend.engines`", {"backend": {"engines": 1}}),
    ("`seed`", {"seed": 1}),
    ("`budget.max_usd`, other caps", {"budget": {"max_usd": 5}}),
    ("`budget.on_cap`", {"budget": {"on_cap": "partial"}}),
    ("`prices.*`", {"prices": {"genai_prices": True}}),
    ("`runtime.*`", {"runtime": {"max_inflight": 2}}),
    ("`report.level`", {"report": {"level": 0.95}}),
    ("`value`, of the other study", {"value": "chrf"}),
)


CHANGES["simulation"] = (
    ("`sweep`, other kind", {"sweep": "estimators"}),
    ("`sweep.replicates`", {"sweep": {"use": "survey", "replicates": 2}}),
    ("`sweep.grid`", {"sweep": {"use": "survey", "grid": {"s": [1, 2]}}}),
    ("`sweep.grid`, another part", {"sweep": {"use": "survey", "grid": {"ensemble": ["ridge"]}}}),
    ("`seed`", {"seed": 1}),
    ("`runtime.*`", {"runtime": {"executor": "processes"}}),
    ("`report.level`", {"report": {"level": 0.95}}),
    ("`value`, of another study", {"value": "chrf"}),
    ("`backend`", {"backend": "scripted"}),
)


def table(name: str, *args: str) -> list[str]:
    """The lines of a generated table."""
    makers: dict[str, Callable[..., list[str]]] = {
        "settings": settings_table,
        "options": options_table,
        "shared": shared_table,
        "reruns": reruns_table,
        "values": values_table,
        "run": run_table,
        "rebuilt": rebuilt_table,
        "control": control_table,
    }
    return makers[name](*args)


def rows_of(head: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def settings_table(group: str, option: str = "") -> list[str]:
    """The settings that every option of a group has, or of the top level (``leaves``).

    With the name of a survey's input: what a survey has besides.
    """
    if group == "leaves":
        known = dict(_commented(ROOT / "conf" / "config.yaml"))
        rows = [_row(key, LEAVES[key], *known[key]) for key in LEAVES]
        return rows_of(["setting", "default", "allowed", "meaning"], rows)
    family, rules = GROUPS[group]
    files = sorted((ROOT / "conf" / group).glob("*.yaml"))
    chosen = option or _chosen(group)
    path = next(file for file in files if file.stem == chosen)
    hints = dict(typing.get_type_hints(rules, include_extras=True)) if rules else {}
    if option:
        of_surveys = typing.get_type_hints(SurveyInput, include_extras=True)
        hints = {k: v for k, v in of_surveys.items() if k not in typing.get_type_hints(Input)}
    rows = [
        _row(f"{group}.{key}", hints[key], default, text)
        for key, (default, text) in _commented(path)
        if key in hints and not (key == "name" and family is None)
    ]
    return rows_of(["setting", "default", "allowed", "meaning"], rows)


def options_table(group: str, own_only: str = "") -> list[str]:
    """The options of a group with their settings; ``own_only``: but for those of `shared_table`."""
    family, rules = GROUPS[group]
    common = set(typing.get_type_hints(rules)) if rules else set()
    shared = _shared(group) if own_only else {}
    rows = []
    for path in sorted((ROOT / "conf" / group).glob("*.yaml")):
        if family is None:
            rows.append([f"`{path.stem}`", _cell(dict(_commented(path))["name"][1])])
            continue
        part = part_class(family, path.stem)
        hints = typing.get_type_hints(part, include_extras=True)
        known = dict(_commented(path, group))
        first_line = (part.__doc__ or "").partition("\n")[0].rstrip(".").replace("``", "`")
        about = known.get("name", ("", ""))[1] or first_line
        told = [
            _option(key, hints[key], *known[key])
            for key in option_fields(part)
            if key in known
            and key not in common
            and (key, _shown(known[key][0]), known[key][1]) not in shared
        ]
        rows.append([f"`{path.stem}`", _cell(about), _cell("<br>".join(told))])
    head = [f"`{group}`", "what it is", "its own settings"]
    return rows_of(head if family is not None else head[:2], rows)


def shared_table(group: str) -> list[str]:
    """Settings that three or more options of a group have alike, and which have them."""
    rows = []
    for (key, default, text), names in _shared(group).items():
        hints = typing.get_type_hints(part_class(group, names[0]), include_extras=True)
        of = ", ".join(f"`{name}`" for name in names)
        head = [f"`{group}.{key}`", f"`{default}`", _cell(describe(hints[key])), _cell(text)]
        rows.append([*head, of])
    return rows_of(["setting", "default", "allowed", "meaning", "of"], rows)


def _shared(group: str) -> dict[tuple[str, str, str], list[str]]:
    """Key, default as shown and comment → the options that have them, three at least."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for path in sorted((ROOT / "conf" / group).glob("*.yaml")):
        fields = option_fields(part_class(group, path.stem))
        for key, (default, text) in _commented(path, group):
            if key in fields:
                found.setdefault((key, _shown(default), text), []).append(path.stem)
    return {what: names for what, names in found.items() if len(names) > 2}


def _option(key: str, annotation: object, default: object, text: str) -> str:
    allowed = describe(annotation)
    choices = allowed.removeprefix("a list of ").split(" | ")
    is_told = len(choices) > 1 and all(choice in text for choice in choices)
    if not text or is_told or text.startswith(choices[0]):
        return f"`{key}` = `{_shown(default)}`: {text or allowed}"
    return f"`{key}` = `{_shown(default)}`: {text} ({allowed})"


def reruns_table(study: str = "attribution") -> list[str]:
    """Which stages a changed setting re-runs: told by the files of the stages and dvc.yaml."""
    base = {**read_params(ROOT / "params.yaml"), "study": study}
    before = {view.FILE: view.dump() for view in views(ROOT, compose(ROOT, base))}
    rows = []
    for label, change in CHANGES[study]:
        settings = compose(ROOT, {**base, **{key: _with(base, key, change[key]) for key in change}})
        after = {view.FILE: view.dump() for view in views(ROOT, settings)}
        direct = {stage for stage in STAGES if before[f"{stage}.json"] != after[f"{stage}.json"]}
        rows.append([label, *_marks(direct)])
    return rows_of(["changed", *STAGES], rows)


def values_table(snapshot: str) -> list[str]:
    """Players of a snapshot of the committed run, with value and interval, by rank."""
    text = _committed("data/report/plots/values.csv")
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["snapshot"] == snapshot]
    assert rows, f"the committed run has no snapshot {snapshot}"
    cells = [
        [
            row["rank"],
            f"`{row['label'].partition(': ')[2]}`",
            _signed(row["value"]),
            f"{_signed(row['low'])} to {_signed(row['high'])}",
        ]
        for row in rows
    ]
    return rows_of(["rank", "player", "value", "90 % interval"], cells)


def run_table() -> list[str]:
    """The scalars of the committed run."""
    scalars = yaml.safe_load(_committed("data/report/metrics.json"))["attribution"]
    names = ("n_snapshots", "n_coalitions", "n_requests", "mean_payoff_span", "mean_standard_error")
    rows = [[f"`{name}`", f"{scalars[name]:.3g}"] for name in names]
    return rows_of(["metric", "value"], rows)


def rebuilt_table(*names: str) -> list[str]:
    """Targets of recorded runs (docs/runs), the fit beside its baselines."""
    from docs_record import RUNS, settings_of

    rows = []
    for name in names:
        record = json.loads((RUNS / f"{name}.json").read_text(encoding="utf-8"))
        assert record["settings"] == settings_of(record["params"]), (
            f"docs/runs/{name}.json: its settings have changed; run it again and record it"
        )
        for target in record["targets"]:
            said = target["target"].partition("=")[2] or target["target"]
            label = said if len(names) == 1 else f"{record['n_personas']} personas"
            paired = target["paired"]["pool_mean"]
            rows.append(
                [
                    label,
                    *(f"{target[key]:.4f}" for key in ("test_mse", "pool_mean", "uniform")),
                    " to ".join(f"{paired[end]:+.4f}".replace("-", "−") for end in ("low", "high")),
                    f"{100 * target['coverage']:.0f} %",
                ]
            )
    head = ["", "fit", "pool mean", "uniform", "fit − pool mean", "in 90 % interval"]
    return rows_of(head, rows)


def control_table(name: str) -> list[str]:
    """What the position-bias audit of a recorded run says."""
    from docs_record import RUNS

    record = json.loads((RUNS / f"{name}.json").read_text(encoding="utf-8"))
    audit = record["position_bias"]
    firsts = [row for row in audit["positions"] if row["position"] == 1]
    (four,) = (row for row in firsts if row["n_options"] == 4)
    rows = [
        ["variance of answers that an option's place on the list explains", "position"],
        ["variance that the option itself explains", "content"],
    ]
    cells = [[text, f"{100 * audit['variance'][key]:.0f} %"] for text, key in rows]
    cells += [
        ["first of four options, mean probability", f"{100 * four['mean']:.0f} %"],
        [
            "distance between an answer and the one to the reversed list, 0 to 1",
            f"{audit['reversal']['mean']:.2f}",
        ],
        [
            "probability that the model gave to the letters at all",
            f"{100 * record['mean_mass']:.0f} %",
        ],
    ]
    return rows_of(["audit", ""], cells)


def _committed(name: str) -> str:
    """A file as git has it: a run in the workspace does not change what the pages rest on."""
    command = ["git", "show", f"HEAD:{name}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def _signed(text: str) -> str:
    return f"{float(text):+.2f}".replace("-", "−")


def _with(base: Mapping[str, object], key: str, value: object) -> object:
    old = base.get(key)
    if not isinstance(value, Mapping):
        return value
    section = {"use": old} if isinstance(old, str) else dict(cast("dict[str, object]", old or {}))
    return {**section, **value}


def _marks(direct: set[str]) -> Iterator[str]:
    pipeline = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    reached = set(direct)
    for stage in STAGES:
        deps = pipeline[stage]["deps"]
        if any(f"data/{earlier}/result" in deps for earlier in reached if earlier != stage):
            reached.add(stage)
        yield "●" if stage in direct else "○" if stage in reached else ""


def _chosen(group: str) -> str:
    config = yaml.safe_load((ROOT / "conf" / "config.yaml").read_text(encoding="utf-8"))
    return next(str(item[group]) for item in config["defaults"] if group in item)


def _row(name: str, annotation: object, default: object, text: str) -> list[str]:
    return [f"`{name}`", f"`{_shown(default)}`", _cell(describe(annotation)), _cell(text)]


def _shown(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _commented(path: Path, group: str = "") -> Iterator[tuple[str, tuple[object, str]]]:
    """Key, value and comment of each setting of a flat YAML file (or of one group of it)."""
    text = path.read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    inside = values.get(group, values) if group else values
    if not isinstance(inside, dict):
        return
    for line in text.splitlines():
        found = re.match(r"\s*(\w+):[^#]*?(?:#\s*(.*))?$", line)
        if found and found.group(1) in inside and found.group(1) != "defaults":
            yield found.group(1), (inside[found.group(1)], found.group(2) or "")
