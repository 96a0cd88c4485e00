"""Makes full payoff tables of a real generative model: every coalition of eight short prompts.

    python benchmarks/make_tables.py            # resumes where it stopped; about an hour, 2 cores
    python benchmarks/make_tables.py --finish   # only turns the replies into benchmarks/tables/

For each coalition the embedded model answers the masked prompt (greedy, 12 tokens) and scores the
base generation (teacher-forced). Two payoffs stand in each table: tf-idf cosine of the replies to
the base generation (one corpus), and mean log-likelihood of the base generation a token.
Replies are appended to a JSON-lines file a prompt below .cache/tables; payoffs are committed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

import numpy as np

from quorum.backends.embedded import Embedded
from quorum.digests import text_digest
from quorum.records import Message, Request

PROMPTS = {
    "capital": "Name the capital city of France and its main river",
    "spanish": "Translate to Spanish : good morning my dear old friend",
    "review": "Is this review positive : the food was cold today",
    "python": "Write a Python function that returns the sum of numbers",
    "leaves": "Why do leaves turn red in autumn ? Explain briefly",
    "arctic": "List three animals that live in the cold Arctic ocean",
    "parcel": "Customer : my parcel arrived broken . Reply very politely please",
    "apples": "Tom has 3 apples and buys 4 more . How many",
}
OPTIONS = {"max_tokens": 12, "temperature": 0.0, "seed": 0}
ROOT = Path(__file__).resolve().parents[1]
RAW = ROOT / ".cache" / "tables"
TABLES = Path(__file__).resolve().parent / "tables"


def masked(words: list[str], mask: int) -> str:
    """The prompt with the players of a coalition (player 0 the lowest bit)."""
    return " ".join(w for i, w in enumerate(words) if mask >> i & 1)


def read_rows(path: Path) -> dict[int, dict[str, object]]:
    """What is done already, by coalition; a torn last line is left out."""
    rows = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.endswith("}"):
                row = json.loads(line)
                rows[int(row["mask"])] = row
    return rows


async def fill(backend: Embedded, name: str, prompt: str) -> None:
    """Asks for every coalition of one prompt that is not there yet."""
    words = prompt.split(" ")
    path = RAW / f"{name}.jsonl"
    done = read_rows(path)
    grand = (1 << len(words)) - 1

    async def reply(mask: int, lane: int, continuation: str | None = None) -> object:
        messages = (Message("user", masked(words, mask)),)
        return await backend.complete(Request(messages, OPTIONS, continuation=continuation), lane)

    base = str((await reply(grand, 0)).text)
    todo = sorted((m for m in range(grand + 1) if m not in done), key=lambda m: masked(words, m))
    cut = -(-len(todo) // backend.lanes)

    with path.open("a", encoding="utf-8", newline="\n") as file:

        async def lane_of(lane: int) -> None:
            for mask in todo[lane * cut : (lane + 1) * cut]:
                text = (await reply(mask, lane)).text
                scored = (await reply(mask, lane, base)).token_logprobs
                file.write(json.dumps({"mask": mask, "text": text, "logprobs": scored}) + "\n")
                file.flush()

        async with asyncio.TaskGroup() as tasks:
            for lane in range(backend.lanes):
                tasks.create_task(lane_of(lane))
    print(f"{name}: {grand + 1} coalitions, base generation {base!r}", flush=True)


def finish(identity: dict[str, str]) -> None:
    """Turns complete sets of replies into tables."""
    from quorum.attribution.values.base import Reply
    from quorum.attribution.values.logprob import LogProb
    from quorum.attribution.values.tfidf import TfidfCosine

    for name, prompt in PROMPTS.items():
        n = len(prompt.split(" "))
        rows = read_rows(RAW / f"{name}.jsonl")
        if len(rows) < 1 << n:
            print(f"{name}: {len(rows)} of {1 << n} coalitions so far")
            continue
        base = str(rows[(1 << n) - 1]["text"])
        replies = [Reply(rows[m]["text"], tuple(rows[m]["logprobs"])) for m in range(1 << n)]
        tables = {"tfidf": TfidfCosine(), "logprob": LogProb()}
        for kind, value in tables.items():
            payoffs = np.round(value.payoffs(replies, base), 10)
            meta = {
                "prompt": prompt,
                "n": n,
                "value": kind,
                "base_generation": base,
                "options": OPTIONS,
                "identity": identity,
                "replies_digest": text_digest("\n".join(r.text for r in replies)),
            }
            np.savez_compressed(
                TABLES / f"{name}_{kind}.npz", payoffs=payoffs, meta=np.array(json.dumps(meta))
            )
        print(f"{name}: tables written")


async def main() -> None:
    """Fills what is missing, prompt by prompt, then writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--finish", action="store_true", help="ask nothing, only write tables")
    parser.add_argument("--only", default="", help="names of prompts, separated by commas")
    args = parser.parse_args()
    RAW.mkdir(parents=True, exist_ok=True)
    TABLES.mkdir(exist_ok=True)
    backend = Embedded()
    if args.finish:
        finish(dict(backend.target.identity))
        return
    only = [name for name in args.only.split(",") if name]
    for name, prompt in PROMPTS.items():
        if not only or name in only:
            await fill(backend, name, prompt)
    await backend.close()


if __name__ == "__main__":
    asyncio.run(main())
