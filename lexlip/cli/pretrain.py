"""The command `lexlip pretrain`."""

from __future__ import annotations

import os

import click

from lexlip.cli.exit_codes import interruptible


@click.command()
@click.argument("config", required=False)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--resume", is_flag=True, help="Continue from the run's last checkpoint.")
def pretrain(config: str | None, overrides: tuple[str, ...], resume: bool) -> None:
    """Train a model.

    CONFIG is a YAML file such as those in configs/; KEY=VALUE changes one of its entries, as in
    optim.lr=1e-4. Without a CONFIG, a small model learns from drawn scenes in two minutes.

    With several processes: torchrun --nproc-per-node=N -m lexlip pretrain …
    """
    from lexlip.config_files import DEFAULT_CONFIG, load_config

    if config is not None and "=" in config:
        overrides, config = (config, *overrides), None
    settings = load_config(config or DEFAULT_CONFIG, overrides)
    with interruptible("go on from the last checkpoint with the same command and --resume"):
        from lexlip.training.loop import pretrain as train

        run = train(settings, resume)
    if int(os.environ.get("RANK", 0)) == 0:  # of those that torchrun started
        click.echo(f"best model: {run / 'best'} (lexlip evaluate SOURCE --model {run / 'best'})")
