"""``quorum store``: what replies there are, whether they are sound, sharing them, throwing away."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from quorum.cli.output import print_json, print_table
from quorum.cli.settings import Commands, project_root
from quorum.errors import InputError, RefusedError, SettingsError
from quorum.pipeline.experiments import nearest_project

if TYPE_CHECKING:
    from quorum.runtime.store import GenerationStore
    from quorum.runtime.upkeep import Holding

_RUN = (
    "RUN is a folder (a project, a copy of its data, an export), an experiment's name or a git "
    "revision."
)


def add(commands: Commands) -> None:
    """Adds the command, which has five of its own."""
    parser = commands.add_parser(
        "store",
        help="look at the kept replies, check, share and prune them",
        description="Looks after the store: the file in which each reply is kept under the digest "
        "of its request, so that nothing is paid for twice.",
    )
    own = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_ls(own)
    _add_check(own)
    _add_export(own)
    _add_import(own)
    _add_prune(own)
    for added in own.choices.values():
        added.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )


def _add_ls(own: Commands) -> None:
    parser = own.add_parser(
        "ls",
        help="replies by backend and model",
        description="Prints how many replies the store has of each model, their tokens, room and "
        "dates.",
    )
    parser.add_argument("--json", action="store_true", help="print them as JSON")
    parser.set_defaults(command=_ls)


def _add_check(own: Commands) -> None:
    parser = own.add_parser(
        "check",
        help="read every row; exit 3 if any is damaged",
        description="Checks the file, the digest of each row, and each key against its request. "
        "A damaged row is set aside, so that its request is asked again. Exit code 3 if any is.",
    )
    parser.set_defaults(command=_check)


def _add_export(own: Commands) -> None:
    parser = own.add_parser(
        "export",
        help="write replies into a shard",
        description="Writes all replies, or those that runs rest on, into a file for others.",
        epilog=f"{_RUN} example: quorum store export replies.jsonl.gz --run HEAD",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the shard, a .jsonl.gz")
    parser.add_argument(
        "--run",
        dest="runs",
        metavar="RUN",
        action="append",
        default=[],
        help="only what this run rests on; may be given several times",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")
    parser.set_defaults(command=_export)


def _add_import(own: Commands) -> None:
    parser = own.add_parser(
        "import",
        help="take over replies from shards or runs",
        description="Takes over the replies that the store lacks. Each line is checked; a wrong "
        "one ends the import, and nothing of its file is taken over. Where the store has another "
        "reply to the same request, its own stays.",
        epilog=f"{_RUN} example: quorum store import replies.jsonl.gz",
    )
    parser.add_argument("sources", metavar="SHARD|RUN", nargs="+", help="a shard, or a run's")
    parser.set_defaults(command=_import)


def _add_prune(own: Commands) -> None:
    parser = own.add_parser(
        "prune",
        help="remove replies that nothing rests on",
        description="Prints which replies would go: those that no commit, branch, tag or "
        "experiment of this repository rests on, nor the workspace, nor an unfinished run, and "
        "that are not young. Removes them with --yes.",
    )
    parser.add_argument("--yes", action="store_true", help="remove them")
    parser.add_argument(
        "--keep-days",
        metavar="N",
        type=int,
        default=7,
        help="keep what came in the last N days (default 7)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="go on where it is unknown what a commit rests on; that is not kept",
    )
    parser.set_defaults(command=_prune)


def _ls(args: argparse.Namespace) -> None:
    from quorum.pipeline.artifacts import shown
    from quorum.runtime.upkeep import holdings, n_set_aside

    with _opened() as store:
        rows = _shown(holdings(store.packed()))
        n_damaged = n_set_aside(store)
    if args.json:
        print_json({"store": store.path, "rows": rows, "n_damaged": n_damaged})
        return
    _print(f"Store {shown(Path(store.path))}", rows)
    n = sum(int(str(row["replies"])) for row in rows)
    sys.stdout.write(f"{_replies(n)}; damaged rows set aside so far: {n_damaged:,}\n")


def _check(_: argparse.Namespace) -> None:
    from quorum.runtime.upkeep import check

    with _opened() as store:
        found = check(store)
    sys.stdout.write(f"{_replies(found.n_replies)} sound, {len(found.damaged):,} damaged\n")
    if found.problems:
        raise RefusedError(
            f"store {store.path}",
            f"SQLite finds it damaged: {found.problems[0]}",
            mend="Save what is sound: quorum store export FILE; then move the store aside",
        )
    if found.damaged:
        keys = ", ".join(key[:12] for key in found.damaged[:3]) + ", …" * (len(found.damaged) > 3)
        raise RefusedError(
            f"store {store.path}",
            f"damaged rows were set aside: {keys}",
            mend="The next run takes them from a shard that has them, or asks again",
        )


def _export(args: argparse.Namespace) -> None:
    from quorum.pipeline.keeping import export_replies

    with _opened() as store:
        n_rows, n_missing = export_replies(
            store, args.file, args.runs, nearest_project(), force=args.force
        )
    sys.stdout.write(f"Wrote {_replies(n_rows)} to {args.file}\n")
    if n_missing:
        raise RefusedError(
            str(args.file),
            f"is without {_replies(n_missing)} of the runs, which the store lacks",
            mend="Run: quorum store import RUN; then export again",
        )


def _import(args: argparse.Namespace) -> None:
    from quorum.pipeline.keeping import import_replies, told_conflicts
    from quorum.runtime.store import GenerationStore, store_path

    with GenerationStore(store_path()) as store:
        for source in args.sources:
            found = import_replies(store, source, nearest_project())
            sys.stdout.write(f"{source}: {_replies(found.n_rows)}, {found.n_new:,} new\n")
            if found.conflicts:
                sys.stdout.write(f"{source}: {told_conflicts(found.conflicts)}\n")


def _prune(args: argparse.Namespace) -> None:
    from quorum.pipeline.keeping import days_ago, roots
    from quorum.runtime.upkeep import holdings, loose, prune

    if args.keep_days < 0:
        raise SettingsError("--keep-days", "is negative", got=args.keep_days, allowed="0 or more")
    before = days_ago(args.keep_days)
    with _opened() as store:
        found = roots(project_root(), Path(store.path), force=args.force)
        n_all = len(store)
        going = loose(store, found.keys, before)
        sys.stdout.write(
            f"Kept: {_replies(n_all - len(going))} of {found.n_commits:,} commits and "
            f"experiments, the workspace and {found.n_unfinished:,} unfinished runs, or of the "
            f"last {args.keep_days} days\n"
        )
        if "QUORUM_STORE" in os.environ:
            sys.stdout.write("QUORUM_STORE is set: what other checkouts rest on is not kept\n")
        if not going:
            sys.stdout.write("Nothing to remove\n")
            return
        _print("To be removed", _shown(holdings(store.packed(going))))
        if not args.yes:
            sys.stdout.write("Nothing was removed; add --yes to remove them\n")
            return
        n_gone = prune(store, found.keys, before)
    sys.stdout.write(f"Removed {_replies(n_gone)}\n")


@contextmanager
def _opened() -> Iterator[GenerationStore]:
    """The store, which must be there: looking at it makes none.

    Raises:
        InputError: There is none.
    """
    from quorum.runtime.store import GenerationStore, store_path

    path = store_path()
    if not path.is_file():
        raise InputError(
            str(path), "there is no store yet", mend="Run: dvc repro, or quorum store import"
        )
    with GenerationStore(path) as store:
        yield store


def _shown(held: Sequence[Holding]) -> list[dict[str, object]]:
    return [
        {
            "backend": row.backend,
            "model": row.model,
            "replies": row.n_replies,
            "input_tokens": row.input_tokens,
            "output_tokens": row.output_tokens,
            "bytes": row.n_bytes,
            "oldest": _day(row.oldest),
            "newest": _day(row.newest),
        }
        for row in held
    ]


def _print(title: str, rows: list[dict[str, object]]) -> None:
    if rows:
        print_table(title, rows)


def _replies(n: int) -> str:
    return f"{n:,} {'reply' if n == 1 else 'replies'}"


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(moment))
