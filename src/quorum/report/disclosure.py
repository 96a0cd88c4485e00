"""disclosure.md: what a pollster's disclosure code asks, answered for a run.

Items follow the American Association for Public Opinion Research, Code of Ethics (2021), part III
"Standards for Disclosure", as far as they fit answers that a model gives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from quorum.report.escape import visible_text

Item = tuple[str, str | None, str]  # what is asked, the answer, why there is none
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|])")


def md(text: object) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _MARKS.sub(r"\\\1", " ".join(visible_text(str(text)).split()))


def md_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as a Markdown table; null is a dash."""
    if not rows:
        return "None.\n"
    names = list(rows[0])
    lines = [" | ".join(md(name) for name in names), " | ".join("---" for _ in names)]
    lines += [
        " | ".join("–" if row[name] in (None, "") else md(row[name]) for name in names)
        for row in rows
    ]
    return "".join(f"| {line} |\n" for line in lines)


def md_code(text: str) -> str:
    """Text in a fence that it cannot close."""
    runs = [len(run) for run in re.findall("`+", text)]
    fence = "`" * max(3, 1 + max(runs, default=0))
    return f"{fence}text\n{visible_text(text).rstrip()}\n{fence}\n"


def disclosure_text(
    title: str, label: str, items: Sequence[Item], sections: Sequence[tuple[str, str]]
) -> str:
    """The text of disclosure.md.

    Args:
        title: What the run is.
        label: What its answers are: stands in bold at the top.
        items: What is asked, the answer or None, and why it is None.
        sections: Title and Markdown of what follows.
    """
    lines = [f"# Disclosure: {md(title)}", "", f"**{md(label)}**", ""]
    for name, answer, reason in items:
        shown = f"not recorded ({md(reason)})" if answer is None else md(answer)
        lines.append(f"- **{md(name)}**: {shown}")
    for name, text in sections:
        lines += ["", f"## {md(name)}", "", text.rstrip()]
    return "\n".join(lines) + "\n"
