"""inspect_ai's own CPU a request with a model that answers at once, in the peers' Python 3.12.

    python peers_requests.py        # prints {"name": milliseconds} as JSON

Calls of its mock model, 64 at once; neither its log nor a store is written. It counts tokens with a
tokeniser that it would have to download: one that splits words stands in, which costs it less.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import time

import tiktoken

N = 1_000
N_REPEATS = 3
IN_FLIGHT = 64


class Words:
    """A tokeniser that needs no download."""

    def encode(self, text: str, *_: object, **__: object) -> list[str]:
        """The words of a text."""
        return text.split()

    encode_ordinary = encode


async def main() -> None:
    """Prints CPU milliseconds a request, the best of three."""
    from inspect_ai.model import ModelOutput, get_model

    outputs = (ModelOutput.from_content("mockllm/model", "ok") for _ in range(N * N_REPEATS))
    model = get_model("mockllm/model", custom_outputs=outputs)
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def one(i: int) -> None:
        async with gate:
            await model.generate(f"Question {i}: what is the capital of France?")

    best = float("inf")
    for _ in range(N_REPEATS):
        start = time.process_time()
        await asyncio.gather(*[one(i) for i in range(N)])
        best = min(best, time.process_time() - start)
    name = f"inspect_ai {importlib.metadata.version('inspect_ai')}"
    print(json.dumps({name: 1e3 * best / N}))


if __name__ == "__main__":
    tiktoken.get_encoding = tiktoken.encoding_for_model = lambda _: Words()
    asyncio.run(main())
