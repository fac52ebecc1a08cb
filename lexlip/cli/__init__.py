"""The command line: one file a command, loaded when it is used; whatever is heavy is imported inside it."""

from __future__ import annotations

import click

from lexlip.cli.exit_codes import Commands

NAMES = (
    *("bench", "compare", "demo", "doctor", "evaluate", "explain", "export", "index", "keywords", "lexicon"),
    *("mcp", "optimize", "package", "pretrain", "reproduce", "search", "serve", "table", "words"),
)


def show_versions(context: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the versions of LexLIP and of what it stands on; this imports no torch and starts no Java."""
    if not asked or context.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    from anserini_bridge import NoJar, NoJava
    from anserini_bridge.jvm import find_java, lucene_version  # which load no numpy

    click.echo(f"lexlip, version {version('lexlip')}")
    try:
        click.echo(f"Lucene {lucene_version()}")
    except NoJar as error:
        click.echo(f"Lucene is missing: {error}")
    try:
        java = find_java()
        click.echo(f"Java {java.version}, from {java.origin}")
    except NoJava as error:
        click.echo(f"Java is missing: {error}")
    try:
        click.echo(f"torch {version('torch')}")
    except PackageNotFoundError:
        click.echo("torch is not installed")
    context.exit()


@click.group(
    cls=Commands, names=NAMES, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=show_versions,
    help="Show the versions of LexLIP, Lucene, Java and torch, and exit.",
)
def main() -> None:
    """Pictures that are searched like text.

    An image or a caption becomes a few weighted words; an inverted index finds them on a CPU.

    \b
        lexlip index ~/Pictures            make the photos of a folder searchable
        lexlip search "two dogs in snow"   find them
    """  # noqa: D301 (click's mark for lines that are not wrapped)
