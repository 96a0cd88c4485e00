"""The tables of the store, by the version of the file that brought them."""

from __future__ import annotations

_REPLIES = """
CREATE TABLE generation (key BLOB PRIMARY KEY, request BLOB NOT NULL, generation BLOB NOT NULL,
  digest BLOB NOT NULL, created REAL NOT NULL);
CREATE TABLE damaged (key BLOB NOT NULL, request BLOB, generation BLOB, digest BLOB, created REAL,
  found REAL NOT NULL);
CREATE TABLE lease (key BLOB PRIMARY KEY, pid INTEGER NOT NULL, start_time TEXT NOT NULL,
  boot_id TEXT NOT NULL, since REAL NOT NULL) WITHOUT ROWID
"""
_ACCOUNTS = """
CREATE TABLE account (name TEXT PRIMARY KEY,
  known_usd TEXT NOT NULL, known_calls INTEGER NOT NULL, known_tokens INTEGER NOT NULL,
  possible_usd TEXT NOT NULL, possible_calls INTEGER NOT NULL, possible_tokens INTEGER NOT NULL,
  open_usd TEXT NOT NULL, open_calls INTEGER NOT NULL, open_tokens INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE reservation (number INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL,
  key BLOB NOT NULL, usd TEXT NOT NULL, calls INTEGER NOT NULL, tokens INTEGER NOT NULL,
  state TEXT NOT NULL, outcome TEXT NOT NULL, pid INTEGER NOT NULL, start_time TEXT NOT NULL,
  boot_id TEXT NOT NULL, since REAL NOT NULL);
CREATE INDEX reservation_state ON reservation (account, state);
CREATE INDEX reservation_key ON reservation (key)
"""
# SHA-256 of the shards whose rows are all here: they need not be read again
_SHARDS = "CREATE TABLE imported (digest BLOB PRIMARY KEY, since REAL NOT NULL) WITHOUT ROWID"

VERSIONS = (_REPLIES, _ACCOUNTS, _SHARDS)
VERSION = len(VERSIONS)


def upgrades(version: int) -> list[str]:
    """The statements that bring a file of an earlier version up to date; 0 is an empty file."""
    return [statement for tables in VERSIONS[version:] for statement in tables.split(";")]
