"""How many replies a minute the answer parser reads, by kind of reply.

Target: a million a minute of each ordinary kind, on one core.
"""

from __future__ import annotations

import time

from quorum.reconstruction.answers import parse_choice
from quorum.reconstruction.survey import Option

TARGET = 1_000_000
N = 20_000
OPTIONS = tuple(
    Option(letter, text)
    for letter, text in zip("ABCD", ("Never", "Sometimes", "Often", "Don't know"), strict=True)
)
KINDS = {
    "a letter": ["A", "B", "C.", " D "],
    "a marked letter": ["Answer: B", "**C**", "(A)", "ANSWER: **D**"],
    "an option's text": ["Never", "often.", "Don’t know", "  Sometimes \n"],
    "JSON": ['{"answer": "B"}', '{"choice": "Often", "comment": "daily"}'],
    "a sentence": ["I pick C because it is a long way.", "My answer seems plain: B"],
}


def main() -> None:
    """Prints the table."""
    print("| reply | replies a minute (CPU) | target met |\n|---|---|---|")
    for kind, texts in KINDS.items():
        start = time.process_time()
        for i in range(N):
            parse_choice(texts[i % len(texts)], OPTIONS)
        rate = 60 * N / (time.process_time() - start)
        print(f"| {kind} | {rate:,.0f} | {'yes' if rate >= TARGET else 'NO'} |")


if __name__ == "__main__":
    main()
