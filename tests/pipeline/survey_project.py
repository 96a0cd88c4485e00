"""A small survey and a scripted model whose answers hang on who is asked."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import yaml

QUESTIONS = {
    "q1": ("media", "How often do you read a paper?", 1, ["Daily", "Weekly", "Never"]),
    "q2": ("media", "How often do you watch the news?", 1, ["Daily", "Weekly", "Never"]),
    "q3": ("votes", "Did you vote last time?", 0, ["Yes", "No"]),
    "q4": ("votes", "Will you vote next time?", 0, ["Yes", "No"]),
    "q5": ("trust", "Whom do you trust most?", 0, ["Courts", "Police", "Press", "Nobody"]),
    "q6": ("trust", "Whom do you trust least?", 0, ["Courts", "Police", "Press", "Nobody"]),
    "q7": ("money", "Is it enough?", 1, ["More than enough", "Enough", "Too little"]),
    "q8": ("money", "Will it be enough?", 1, ["More than enough", "Enough", "Too little"]),
}
SHARES = {2: [0.7, 0.3], 3: [0.5, 0.3, 0.2], 4: [0.4, 0.3, 0.2, 0.1]}
BANK = [
    {
        "id": "age",
        "label": "Age",
        "phrase": "You are {value}.",
        "values": ["young", "old", "neither young nor old"],
        "group": "core",
    },
    {
        "id": "place",
        "label": "Place",
        "phrase": "You live in {value}.",
        "values": ["a town", "a village", "the woods"],
        "group": "core",
    },
    {
        "id": "mood",
        "label": "Mood",
        "phrase": "You are {value} today.",
        "values": ["glad", "sad", "tired"],
        "group": "thematic",
    },
    {
        "id": "habit",
        "label": "Habit",
        "phrase": "You often {value}.",
        "values": ["sing", "argue", "walk"],
        "group": "theoretical",
    },
]
RULES = [
    {
        "contains": "traits on which people differ",
        "reply": '{"attributes": [{"label": "Luck", "values": ["much", "little"]}]}',
    },
    {"regex": r"(?s)young\..*sing", "reply": "B"},
    {"contains": "You are old", "reply": "A"},
    {"contains": "a village", "reply": "B"},
    {"contains": "sad", "reply": "C"},
    {"contains": "the woods", "finish_reason": "refusal", "reply": "No."},
    {"reply": "A"},
]  # fmt: skip
POOL = {
    "use": "default",
    "size": 18,
    "burn_in": 1,
    "round_size": 4,
    "learn_every": 2,
    "attributes": 3,
}


def csv_of(rows: list[dict[str, object]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def survey_rows(shift: float = 0.0, test: dict[str, list[float]] | None = None):
    """The survey as rows; ``shift`` moves share from the first option to the last one."""
    rows = []
    for name, (topic, text, ordinal, options) in QUESTIONS.items():
        shares = list((test or {}).get(name, SHARES[len(options)]))
        shares[0] -= shift
        shares[-1] += shift
        rows += [
            {
                "question_id": name,
                "topic": topic,
                "ordinal": ordinal,
                "question_text": text,
                "option_label": str(k),
                "option_text": option,
                "share": round(share, 6),
                "n": 1000,
            }
            for k, (option, share) in enumerate(zip(options, shares, strict=True), start=1)
        ]
    return rows


def write_survey(root: Path, rows=None, name: str = "own") -> None:
    """data/surveys/NAME.csv, its groups, conf/input/NAME.yaml and a small bank."""
    rows = survey_rows() if rows is None else rows
    (root / f"data/surveys/{name}.csv").write_text(csv_of(rows), encoding="utf-8")
    by_group = [
        {"group_by": "sex", "group": group, **{k: row[k] for k in keys}, "share": row["share"]}
        for group, shift in (("f", 0.1), ("m", -0.1))
        for row in survey_rows(shift)
        for keys in (("question_id", "option_label", "n"),)
    ]
    (root / f"data/surveys/{name}_groups.csv").write_text(csv_of(by_group), encoding="utf-8")
    section = yaml.safe_load((root / "conf/input/us2020.yaml").read_text(encoding="utf-8"))
    section |= {
        "name": name,
        "path": f"data/surveys/{name}.csv",
        "groups": f"data/surveys/{name}_groups.csv",
        "refused": None,
        "title": "A small survey",
    }
    (root / f"conf/input/{name}.yaml").write_text(yaml.safe_dump(section), encoding="utf-8")
    bank = {"name": "small", "attributes": BANK}
    (root / "conf/bank/small.yaml").write_text(yaml.safe_dump(bank), encoding="utf-8")


def params(**changes: object) -> dict[str, object]:
    """Settings of a small reconstruction on the scripted backend."""
    pool = {**POOL, **changes.pop("pool", {})}
    backend = {"rules": RULES, **changes.pop("backend", {})}
    return {
        "study": "reconstruction",
        "bank": "small",
        "pool": pool,
        "backend": backend,
        **changes,
    }
