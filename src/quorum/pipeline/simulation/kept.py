"""Finished simulations, kept beside the generation store, a file each, by what they rest on.

DVC removes a stage's outputs before it runs, so what a killed run has finished must lie elsewhere.
A file says what its content must be: a damaged one is computed again, never believed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quorum.digests import digest
from quorum.pipeline import artifacts
from quorum.runtime.store import store_path


@dataclass(frozen=True, slots=True)
class Kept:
    """The folder of finished simulations.

    Args:
        folder: ``.cache/quorum/simulations`` as a rule.
    """

    folder: Path

    @classmethod
    def beside_the_store(cls) -> Kept:
        """Where all runs of a checkout keep theirs."""
        return cls(store_path().parent / "simulations")

    def get(self, key: str) -> Mapping[str, object] | None:
        """What was found under a key; None where nothing is, or where it is damaged."""
        found = self._read(key)
        return None if found is None or isinstance(found, str) else found

    def is_damaged(self, key: str) -> bool:
        """Whether there is a file that is not what it says."""
        return isinstance(self._read(key), str)

    def put(self, key: str, result: Mapping[str, object]) -> None:
        """Keeps a result: the file is there complete, or not at all."""
        whole = {"key": key, "digest": digest(result), "result": result}
        artifacts.write_text(self._path(key), artifacts.json_text(whole))

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def _read(self, key: str) -> Mapping[str, object] | str | None:
        """The result, a text that says what is wrong with the file, or None without one."""
        try:
            found = json.loads(self._path(key).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            return "is not JSON"
        if not isinstance(found, dict) or set(found) != {"key", "digest", "result"}:
            return "is not a simulation"
        if found["key"] != key or found["digest"] != digest(found["result"]):
            return "has another digest"
        result: Mapping[str, object] = found["result"]
        return result
