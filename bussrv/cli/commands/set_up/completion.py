"""``bussrv completion``: the script that lets a shell complete commands, options and names of profiles."""

from __future__ import annotations

import click

from bussrv.cli.command import command


@command(
    examples=("bussrv completion bash",),
    statuses={0: "done"},
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script that lets a shell complete commands, options and names of profiles. Put it into the start file
    of the shell: eval "$(bussrv completion bash)" into ~/.bashrc, the same with zsh into ~/.zshrc, or for fish bussrv
    completion fish > ~/.config/fish/completions/bussrv.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "bussrv", "_BUSSRV_COMPLETE").source())
    return 0
