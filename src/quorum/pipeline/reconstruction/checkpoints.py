"""What a reconstruction run is, and what of it is on disk while it lasts.

The run's folder lies beside the store, one a digest of what the run is: resolved settings, content
of survey, bank and templates, and the model. A changed setting is another folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

from quorum.config.reconstruction_views import GenerateView
from quorum.digests import canonical_json, digest
from quorum.pipeline import artifacts
from quorum.pipeline.reconstruction.questions import Targets
from quorum.pipeline.reconstruction.replies import ReplyRow, parse_rows, rows_text
from quorum.reconstruction.active import ActiveGeneration
from quorum.reconstruction.bank import bank_yaml
from quorum.reconstruction.elicitation import Elicitation
from quorum.reconstruction.personas import ENDOWMENT_COLUMNS, endowment_rows
from quorum.reconstruction.survey import Option, Question
from quorum.records import Target
from quorum.runtime.checkpoint import FOLDER, resume, save

LOOP = "active_generation.json"
RESPONSES = "responses.csv"
REPLIES = "generations"
RESPONSE_COLUMNS = ("persona_id", "question_id", "shares")


def identity(
    view: GenerateView, questions: Sequence[Question], targets: Targets | None, target: Target
) -> dict[str, str]:
    """What a run is, by name: settings as they are, contents as digests.

    Args:
        view: Settings of ``generate``.
        questions: The questions that are asked.
        targets: Shares of the train questions, where they decide who is asked (``active_only``).
        target: The model.
    """
    settings = asdict(view)
    settings.pop("bank")
    settings.pop("partial")  # a raised cap goes on with the same run
    found = dict(_flat("", settings))
    found["survey"] = digest([asdict(q) for q in questions])
    found["bank"] = digest(list(view.bank or ()))
    found["templates"] = _templates(cast("Elicitation", view.elicitation.make()))
    found["model"] = digest([target.backend, target.model, dict(target.identity)])
    if targets is not None:
        found["targets"] = digest([asdict(targets)["shares"], dict(targets.refused)])
    return found


def _templates(elicitation: Elicitation) -> str:
    """Digest of the words of a prompt around persona, question and options."""
    question = Question("question", "Question?", (Option("1", "one"), Option("2", "two")))
    ask = elicitation.asks("A persona.", question, "persona", 0)[0]
    return digest([[m.role, m.content] for m in ask.request.messages])


def run_folder(store: Path, identity: Mapping[str, str]) -> Path:
    """The folder of a run, beside the store."""
    return store.parent / "runs" / digest(dict(identity))[:16]


class Checkpoint:
    """The checkpoint of one run.

    Args:
        folder: The run's folder, which holds the ledger as well.
        identity: What the run is.
    """

    def __init__(self, folder: Path, identity: Mapping[str, str]) -> None:
        self.folder = folder
        self._identity = identity

    def load(self, active: ActiveGeneration, explicit: str | None) -> dict[str, list[ReplyRow]]:
        """Brings a fresh loop to where the run was; the replies that it rests on, by persona.

        Raises:
            RefusedError: See `quorum.runtime.checkpoint.resume`.
        """
        files = resume(self.folder, self._identity, None if explicit is None else Path(explicit))
        if files is None:
            self.save(active, {})
            return {}
        active.restore(json.loads(files[LOOP]))
        found: dict[str, list[ReplyRow]] = {}
        for line in files[REPLIES + ".jsonl"].split("\n"):
            if line:
                persona, row = json.loads(line)
                found.setdefault(persona, []).extend(parse_rows([row], persona))
        if explicit is not None:
            self.save(active, found)  # before the first call, in the run's own folder
        return found

    def save(self, active: ActiveGeneration, replies: Mapping[str, Sequence[ReplyRow]]) -> None:
        """Writes the state after a round."""
        lines = [
            canonical_json([persona, json.loads(line)]) + "\n"
            for persona, rows in sorted(replies.items())
            for line in rows_text(rows).split("\n")
            if line
        ]
        answers = [
            {
                "persona_id": persona,
                "question_id": question,
                "shares": None if shares is None else " ".join(map(repr, shares)),
            }
            for persona, by_question in active.answers.items()
            for question, shares in by_question.items()
        ]
        files = {
            LOOP: artifacts.json_text(active.state()),
            "endowments.csv": artifacts.csv_text(
                ENDOWMENT_COLUMNS, endowment_rows(active.personas)
            ),
            RESPONSES: artifacts.csv_text(RESPONSE_COLUMNS, answers),
            "attribute_bank.learned.yaml": bank_yaml(active.learned_bank),
            REPLIES + ".jsonl": "".join(lines),
        }
        save(self.folder / FOLDER, self._identity, files)


def _flat(prefix: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        return [
            pair
            for key, inner in value.items()
            for pair in _flat(f"{prefix}.{key}".lstrip("."), inner)
        ]
    return [(prefix, canonical_json(value))]
