"""Runs the commands of a page and compares what they print; checks those that are not run."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

from docs_pages import ROOT, Block, Command, blocks, read_page
from docs_project import Project, expects_error, is_shown

from quorum import cli
from quorum.config.compose import compose, read_params
from quorum.config.stages import views

UNIX = {
    "git",
    "source",
    "export",
    "cd",
    "pip",
    "pytest",
    "python",
    "cut",
    "kill",
    "pre-commit",
    "docker",
    "head",
}


def options_of(name: str) -> set[str]:
    """The options of a command of ``quorum``; of ``quorum`` itself for an empty name."""
    parser = cli.parser()
    if name:
        (choices,) = (
            a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)
        )
        parser = choices[name]
    return {text for action in parser._actions for text in action.option_strings}


def make_targets() -> set[str]:
    return set(re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8")))


def check_exists(line: str) -> None:
    """A command that is not run here: its program, target, sub-command and options exist."""
    program, *args = shlex.split(line)
    if program == "make":
        assert args[0] in make_targets(), line
    elif program == "dvc":
        from dvc.cli.parser import get_main_parser

        get_main_parser().parse_args(args)  # exits where DVC does not know it
    elif program == "quorum":
        command = args[0] if args and not args[0].startswith("-") else ""
        assert {a for a in args if re.match(r"--?[a-zA-Z]", a)} <= options_of(command), line
    else:
        assert program in UNIX, line
    for path in args if program == "python" else []:
        assert (ROOT / path).is_file(), line


def check_settings(line: str, root: Path) -> None:
    """An experiment that is not run: DVC takes its changes, and they are settings that go."""
    from dvc.cli.parser import get_main_parser
    from dvc.utils.cli_parse import to_path_overrides
    from dvc.utils.hydra import apply_overrides, get_hydra_sweeps

    changes = get_main_parser().parse_args(shlex.split(line)[1:]).set_param
    for sweep in get_hydra_sweeps(to_path_overrides(changes)):
        changed = root / "params.changed.yaml"
        changed.write_bytes((root / "params.yaml").read_bytes())
        apply_overrides(changed, list(sweep["params.yaml"]))
        assert views(root, compose(root, read_params(changed)))


def check_commands(block: Block, project: Project) -> None:
    """The commands of a block run, or exist where the block's check says that they are not run."""
    for command in block.commands():
        if block.check[:1] in {("known",), ("settings",), ("grid",)}:
            check_exists(command.line)
            if re.match(r"dvc exp run .*-S ", command.line):
                check_settings(command.line, project.root)
            continue
        run_command(command, project)


def run_command(command: Command, project: Project) -> None:
    """A command runs as its page says, and prints what is shown there."""
    outcome = project.run(command.line)
    shown = "\n".join(outcome.lines)
    assert (outcome.exit_code != 0) == expects_error(command), (
        f"$ {command.line}\nexit {outcome.exit_code}\n{shown}\n{outcome.errors}"
    )
    if command.output:
        assert is_shown(command.output, outcome.lines), (
            f"$ {command.line}\nprinted:\n{shown}\nRun: python tests/repository/docs_refresh.py"
        )


def check_page(name: str, project: Project) -> None:
    """All blocks of a page, one after another, in one project."""
    for block in blocks(read_page(name)):
        if block.check[:1] in {("write",), ("add",), ("install",)}:
            project.apply(block)
        elif block.kind == "console":
            check_commands(block, project)
        else:
            assert block.kind not in {"sh", "bash", "shell"}, "use console and $"
