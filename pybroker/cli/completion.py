"""``pybroker completion``: what a shell needs to complete verbs, options, topics, groups."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from pybroker.cli.common.output import write

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_PYBROKER_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Writes the completion of a shell, for its start-up file.

    \b
    bash  eval "$(pybroker completion bash)"           in ~/.bashrc
    zsh   eval "$(pybroker completion zsh)"            in ~/.zshrc, behind compinit
    fish  pybroker completion fish | source            in ~/.config/fish/config.fish

    Topics, groups and transactional ids are those of the cluster that -b or $PYBROKER_BOOTSTRAP names.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    write(kind(context.find_root().command, {}, "pybroker", VARIABLE).source() + "\n")
