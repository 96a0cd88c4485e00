"""One tiny request to a backend: does it answer, and what can it do."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import cast

from quorum.backends.base import Backend
from quorum.config.compose import Settings
from quorum.config.parts import backend_part
from quorum.config.stages import runtime_view
from quorum.digests import canonical_json
from quorum.errors import BackendError, QuorumError, SettingsError
from quorum.records import Generation, Message, Request, Usage

_TIMEOUT_S = 60.0
_OPTIONS = {"temperature": 0.0, "max_tokens": 16, "seed": 0}
_HELLO = Request((Message("user", "Reply with the word ok."),), _OPTIONS)
_LETTER = Request(
    (Message("user", "Which letter comes first in the alphabet, A or B? Answer with one letter."),),
    choices=("A", "B"),
)
_SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
_FORM = Request(
    (Message("user", 'Reply with the JSON {"ok": true}.'),),
    {**_OPTIONS, "max_tokens": 32, "schema": canonical_json(_SCHEMA)},
)
_CAPABILITIES = {
    "choice_probs": "probabilities of answers (elicitation=logprob)",
    "continuation": "log-likelihood of a given reply (value=logprob)",
    "structured": "replies bound to a JSON schema",
    "seed": "the same seed gives the same draw",
    "deterministic": "temperature 0 gives the same reply every time",
    "prefix_reuse": "a shared beginning is cheaper the second time",
    "empty_message": "takes a message without text",
    "batch": "takes batches (backend.mode=batch)",
    "priced": "calls cost money",
}


def doctor(root: Path, settings: Settings, *, is_thorough: bool = False) -> dict[str, object]:
    """What a backend answers to one tiny request, and what it can do.

    Nothing is written, and the store is not asked: the request really goes out.

    Args:
        root: The project's folder, as ``project``.
        settings: Checked settings; only the backend and its model are used.
        is_thorough: Also try what is declared and can be tried (probabilities of answers, a
            schema): one more tiny request each.

    Returns:
        ``project``, ``backend``, ``model``, ``identity``, ``works``, ``problem`` and ``exit_code``
        (of the first request that failed; None and 0 where none did), ``reply``,
        ``finish_reason``, ``model_version``, ``seconds``, ``usage`` (of all requests together),
        ``limits`` (of the answer's headers, if it has any), and ``capabilities``: rows of
        ``name``, ``has``, ``checked`` (declared, tried or failed) and ``what``.

    Raises:
        SettingsError: The backend cannot be made, or answers surveys only.
    """
    part = backend_part(settings)
    made = part.make(**runtime_view(settings).backend)
    if hasattr(made, "seat"):
        raise SettingsError(
            "backend", "people of a table answer: there is nothing to try", got=part.name
        )
    found = asyncio.run(examine(cast("Backend", made), is_thorough=is_thorough))
    return {"project": root.name, **found}


async def examine(backend: Backend, *, is_thorough: bool = False) -> dict[str, object]:
    """``doctor`` for a backend that is there; it is closed afterwards."""
    can = backend.capabilities
    checked = dict.fromkeys(_CAPABILITIES, "declared")
    reply: Generation | None = None
    problem: QuorumError | None = None
    spent: list[Usage] = []
    requests = [("", _HELLO)]
    if is_thorough:
        requests += [("choice_probs", _LETTER)] if can.choice_probs else []
        requests += [("structured", _FORM)] if can.structured else []
    try:
        for name, request in requests:
            answer, failure = await _try(backend, name, request)
            problem = problem or failure
            if answer is not None:
                spent.append(answer.usage)
                reply = reply or answer
            if name:
                checked[name] = "tried" if failure is None else "failed"
            elif failure is not None:
                break  # nothing else will do
    finally:
        await backend.close()
    return {**_identity(backend), **_outcome(reply, problem, spent), **_table(backend, checked)}


async def _try(
    backend: Backend, name: str, request: Request
) -> tuple[Generation | None, QuorumError | None]:
    where = f"backend {backend.target.backend}"
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            answer = await backend.complete(request)
    except TimeoutError:
        return None, BackendError(where, f"no reply within {_TIMEOUT_S:g} s")
    except QuorumError as error:
        return None, error
    if name == "choice_probs" and answer.choice_probs is None:
        return answer, BackendError(where, "the letters are not among the tokens that it lists")
    if name == "structured" and not _fits(answer.text):
        return answer, BackendError(where, "the reply does not keep to the schema", got=answer.text)
    return answer, None


def _fits(text: str) -> bool:
    return "".join(text.split()) in ('{"ok":true}', '{"ok":false}')


def _identity(backend: Backend) -> dict[str, object]:
    target = backend.target
    return {
        "backend": target.backend,
        "model": target.model,
        "identity": dict(target.identity),
    }


def _outcome(
    reply: Generation | None, problem: QuorumError | None, spent: list[Usage]
) -> dict[str, object]:
    total = {
        field.name: sum(getattr(usage, field.name) for usage in spent)
        for field in dataclasses.fields(Usage)
    }
    return {
        "works": problem is None,
        "problem": None if problem is None else str(problem),
        "exit_code": 0 if problem is None else problem.exit_code,
        "reply": None if reply is None else reply.text[:80],
        "finish_reason": None if reply is None else reply.finish_reason,
        "model_version": None if reply is None else reply.model_version,
        "seconds": None if reply is None else round(reply.seconds, 3),
        "usage": total,
    }


def _table(backend: Backend, checked: dict[str, str]) -> dict[str, object]:
    limits = getattr(backend, "observed_limits", None)
    rows = [
        {
            "name": name,
            "has": bool(getattr(backend.capabilities, name)),
            "checked": checked[name],
            "what": what,
        }
        for name, what in _CAPABILITIES.items()
    ]
    return {
        "limits": None if limits is None else dataclasses.asdict(limits),
        "capabilities": rows,
    }
