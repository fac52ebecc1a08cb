"""What `lexlip --version` prints; it imports no torch and starts no Java."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import click


def show_versions(context: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the versions of LexLIP and of what it stands on, and end the command, if that is asked for."""
    if not asked or context.resilient_parsing:
        return
    click.echo(f"lexlip, version {version('lexlip')}")
    for name, text in (("Lucene", _lucene()), ("Java", _java()), ("torch", _torch())):
        click.echo(f"{name} {text}")
    context.exit()


def _lucene() -> str:
    from anserini_bridge.errors import NoJar
    from anserini_bridge.runtime import lucene_version

    try:
        return lucene_version()
    except NoJar as error:
        return f"is missing: {error}"


def _java() -> str:
    from anserini_bridge.errors import NoJava
    from anserini_bridge.runtime import find_java

    try:
        java = find_java()
    except NoJava as error:
        return f"is missing: {error}"
    return f"{java.version}, from {java.origin}"


def _torch() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return "is not installed"
