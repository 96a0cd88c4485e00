"""Stage ``config``: settings are composed, checked, and written as one small file a stage.

It comes first in a run, so it also takes replies that a pull has brought into the store.
"""

from __future__ import annotations

from pathlib import Path

from quorum.config.checks import check_inputs
from quorum.config.code import code_digest
from quorum.config.compose import compose
from quorum.config.stages import views
from quorum.config.view import RuntimeView
from quorum.pipeline import artifacts


def run(root: Path) -> None:
    """Writes data/settings/<stage>.json; nothing is written if anything is wrong."""
    settings = compose(root)
    files = views(root, settings)
    check_inputs(root, settings)
    for view in files:
        code = "" if isinstance(view, RuntimeView) else code_digest(view)
        artifacts.write_text(root / artifacts.SETTINGS / view.FILE, view.dump(code))
    if (root / artifacts.GENERATE_LOG).is_dir():
        from quorum.pipeline.keeping import restore  # not needed before a first run

        restore(root)
