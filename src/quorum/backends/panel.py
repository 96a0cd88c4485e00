"""Respondents of a table answer instead of a model: real people, or anybody's own responses.

A request names its respondent, its question and the options' labels as shown in its options; the
reply is the letter of the option that the respondent chose. A refusal ends with ``refusal`` and has
no text; a missing answer is an empty reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from quorum.backends.base import Capabilities
from quorum.errors import BackendError
from quorum.records import Generation, Request, Target

REFUSED = "refused"
SHOWN_SEPARATOR = "\n"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Answers = Mapping[str, Mapping[str, str | None]]  # respondent → question → text, REFUSED, None


@dataclass(frozen=True)
class Panel:
    """A table of answers as a backend.

    Args:
        path: The table, a row a person, a column a question.
        id_column: Column that tells people apart.
        attributes: Columns that people may be counted by.
        refused: Cells that mean: asked, and refused to answer.
    """

    path: str
    id_column: str
    attributes: tuple[str, ...]
    refused: tuple[str, ...]
    _answers: Answers = field(default_factory=dict, repr=False)
    _table: str = field(default="", repr=False)

    def seat(self, answers: Answers, table: str) -> Panel:
        """The panel with its people.

        Args:
            answers: By respondent and question: the label of an option, ``refused``, or None
                where there is no answer.
            table: Digest of the table, part of the identity of every reply.
        """
        return replace(self, _answers=answers, _table=table)

    @property
    def target(self) -> Target:
        """The table, by the digest of what it holds."""
        return Target("panel", "respondents", {"table": self._table})

    @property
    def capabilities(self) -> Capabilities:
        """It answers closed questions and nothing else."""
        return Capabilities(seed=True, deterministic=True)

    @property
    def lanes(self) -> int:
        """One: an answer is a look-up."""
        return 1

    async def complete(self, request: Request, lane: int = 0) -> Generation:  # noqa: ARG002
        """The respondent's answer."""
        return self.reply(request)

    def reply(self, request: Request) -> Generation:
        """The respondent's answer, at once.

        Raises:
            BackendError: The request names no respondent and question of the table.
        """
        respondent = str(request.options.get("respondent"))
        question = str(request.options.get("question"))
        try:
            answer = self._answers[respondent][question]
        except KeyError as error:
            raise BackendError(
                "backend panel",
                "answers the questions of its table and nothing else",
                got=request.messages[-1].content[:60] if request.messages else "",
                mend="Use it with study=reconstruction",
            ) from error
        if answer == REFUSED:
            return Generation("", finish_reason="refusal")
        if answer is None:
            return Generation("")
        labels = str(request.options["shown"]).split(SHOWN_SEPARATOR)
        return Generation(LETTERS[labels.index(answer)])

    async def close(self) -> None:
        """Nothing to close."""
