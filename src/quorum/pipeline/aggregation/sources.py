"""The runs of an aggregation: found by name, read, and told apart; none is written to."""

from __future__ import annotations

import glob
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from quorum.config.aggregation import Input, Scalar
from quorum.digests import canonical_json, digest
from quorum.errors import InputError, RefusedError
from quorum.pipeline.experiments import experiments
from quorum.pipeline.runs import Run, open_run

FILES = ("run.json", "metrics.json", "config.resolved.yaml")
# what a run is called, or what only describes its input: no setting
IDENTITY = ("run", "run_id", "revision")
DESCRIPTIONS = ("input.title", "input.licence", "input.attribution", "input.citation")


@dataclass(frozen=True, slots=True)
class Source:
    """What an aggregation reads of a run.

    Args:
        label: Its name in ids: ``run1``, ``run2``, … in the order of the inputs.
        name: As the specification or the pattern named it.
        revision: Its commit; None for a folder.
        run_id: Digest of settings, inputs and model.
        study: Which question it asked.
        answered_by: Who answered, in words for a reader.
        is_model_generated: Whether a model or rules answered: neither people nor a simulation.
        parameters: Its settings by dotted key, and who answered, in ``model`` and ``backend``.
        scalars: The numbers of metrics.json.
        records: Its metric records, as read.
        versions: Of quorum and packages.
        digests: SHA-256 of the files that were read.
        folders: Where those files lie.
    """

    label: str
    name: str
    revision: str | None
    run_id: str
    study: str
    answered_by: str
    is_model_generated: bool
    parameters: Mapping[str, Scalar]
    scalars: Mapping[str, object]
    records: Sequence[Mapping[str, object]]
    versions: Mapping[str, object]
    digests: Mapping[str, str]
    folders: frozenset[Path]

    def parameter(self, key: str) -> Scalar:
        """A setting; the name of a group's option for the group's key; None where it has none."""
        return self.parameters.get(self.full_key(key))

    def full_key(self, key: str) -> str:
        """``estimator`` is short for ``estimator.name``."""
        return key if key in self.parameters else f"{key}.name"


def read_sources(inputs: Sequence[Input], project: Path | None, where: str) -> list[Source]:
    """All runs that the inputs name, in their order, each once.

    Args:
        inputs: As the specification has them.
        project: The project's folder; None outside of one.
        where: The specification, for errors.

    Raises:
        InputError: A run is missing or broken, a pattern matches nothing.
        RefusedError: Two names lead to one run, or a run is another than the pinned one.
    """
    named: dict[str, Input] = {}
    for index, given in enumerate(inputs):
        for one in _expanded(given, project, f"{where}: inputs[{index}]"):
            named.setdefault(one.text, one)
    sources: list[Source] = []
    for one in named.values():
        with _opened(one, project) as run:
            source = _source(run, f"run{len(sources) + 1}", one)
        _check_id(source, one, sources, where)
        sources.append(source)
    return sources


def _opened(one: Input, project: Path | None) -> AbstractContextManager[Run]:
    return open_run(one.revision or one.text, project)


def _expanded(given: Input, project: Path | None, where: str) -> Iterator[Input]:
    if given.kind == "run":
        yield given
        return
    if given.kind == "folders":
        matches = glob.glob(given.text)  # noqa: PTH207 - takes patterns from the root as well
        found = sorted(path for path in matches if Path(path).is_dir())
        what, mend = "no folder matches", "Folders are named from the current one"
    else:
        names = experiments(project) if project is not None else {}
        found = [name for name in names if fnmatchcase(name, given.text)]
        what, mend = "no experiment matches", "See: dvc exp list; folders: {glob: PATTERN}"
    if not found:
        raise InputError(where, what, got=given.text, mend=mend)
    for text in found:
        yield Input("run", text)


def _check_id(source: Source, one: Input, earlier: Sequence[Source], where: str) -> None:
    if one.run_id is not None and one.run_id != source.run_id:
        raise RefusedError(
            f"{where}: {one.text}",
            "is another run than the one that was pinned",
            got=source.run_id[:12],
            allowed=one.run_id[:12],
            mend="Name that run's commit or export, or take run_id out",
        )
    for other in earlier:
        if other.run_id == source.run_id:
            raise RefusedError(
                f"{where}: inputs",
                f"{other.name} and {source.name} are the same run and would count twice",
                got=source.run_id[:12],
                allowed="each run once",
                mend="Name one of them",
            )


def _source(run: Run, label: str, one: Input) -> Source:
    paths = {name: run.path(name) for name in FILES}
    settings = run.settings()
    if settings is None:
        raise InputError(
            run.where("config.resolved.yaml"), "is missing", mend="Copy the whole run again"
        )
    model = run.record.get("model")
    answered = model if isinstance(model, Mapping) else {}
    identity = {"run": one.text, "run_id": run.run_id, "revision": run.revision}
    parameters = {**_flat(settings), **_derived(run, answered), **identity}
    found = [path for path in paths.values() if path is not None]
    return Source(
        label=label,
        name=one.text,
        revision=run.revision,
        run_id=run.run_id,
        study=run.study,
        answered_by=_answered_by(run, answered),
        is_model_generated=bool(answered) and answered.get("backend") != "panel",
        parameters=dict(sorted(parameters.items())),
        scalars=run.scalars,
        records=run.records,
        versions=cast("Mapping[str, object]", run.record["versions"]),
        digests={
            name: hashlib.sha256(path.read_bytes()).hexdigest()
            for name, path in paths.items()
            if path is not None
        },
        folders=frozenset(path.resolve().parent for path in found),
    )


def _derived(run: Run, answered: Mapping[object, object]) -> dict[str, Scalar]:
    """What run.json says of a run beside its settings: study, model, content of the inputs."""
    content = run.record.get("snapshots", run.record.get("sources"))
    found: dict[str, Scalar] = {"study": run.study}
    if content is not None:
        found["input.content"] = digest(content)[:12]
    if answered:
        found["model"] = str(answered.get("model"))
        found["model.identity"] = digest(answered.get("identity"))[:12]
    return found


def _answered_by(run: Run, answered: Mapping[object, object]) -> str:
    label = run.record.get("label")
    if not answered:
        return str(label or "nobody: simulated")
    told = label or "model-generated replies, not people's"
    return f"{answered.get('model')}: {told}"


def _flat(settings: Mapping[str, object], prefix: str = "") -> dict[str, Scalar]:
    """Settings by dotted key; a list is its JSON, one of groups the first digits of its digest."""
    found: dict[str, Scalar] = {}
    for name, value in settings.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            found |= _flat(value, f"{key}.")
        elif isinstance(value, list):
            is_short = all(not isinstance(item, Mapping | list) for item in value)
            found[key] = canonical_json(value) if is_short else digest(value)[:12]
        elif isinstance(value, float) and value.is_integer():
            found[key] = int(value)  # 1 and 1.0 are one value
        elif isinstance(value, float) and not math.isfinite(value):
            found[key] = str(value)
        else:
            found[key] = value if isinstance(value, str | bool | int | float | None) else str(value)
    return found
