"""The command `lexlip lexicon`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible

PACKAGED = Path(__file__).parents[1] / "captions" / "coco.txt.gz"  # see LICENSES.md beside it


@click.command()
@click.argument("model")
@click.option(
    "--captions",
    metavar="FILE",
    help="Captions, one a line, as text or as .gz, if your photos show other things than everyday scenes: the"
    " words are those that occur in them. Without it, 10,000 captions of COCO, which come along.",
)
@click.option("--output", required=True, metavar="DIR", help="The new model's folder.")
@click.option(
    "--photos",
    metavar="SOURCE",
    help="Some photos, as for `lexlip index`, whose captions do not count: a hundred or more show where the"
    " model has photos in its space. Up to 1,000 are used.",
)
@options.device_option
@options.json_option
def lexicon(
    model: str, captions: str | None, output: str, photos: str | None, device: str, as_json: bool
) -> None:
    """Give a dense model words: make a CLIP or a SigLIP search like text.

    MODEL is the folder or the hub name of a CLIP or a SigLIP, also of open_clip, or the folder of a model of
    kind dense. Nothing is trained: which words a vector stands for is computed from captions. The new model
    makes indexes of words, and is used without torch.

    \b
        lexlip lexicon openai/clip-vit-base-patch32 --photos ~/Pictures --output clip-words
        lexlip index ~/Pictures --model clip-words
    """  # noqa: D301 (click's mark for lines that are not wrapped)
    from lexlip.data import open_source
    from lexlip.data.captions import read_caption_lines
    from lexlip.models.model_folder import GRAPH
    from lexlip.training.run_folder import check_place, save_whole

    folder = Path(output)
    check_place(folder)
    lines = read_caption_lines(PACKAGED if captions is None else captions)
    source = None if photos is None else open_source(photos)

    from lexlip.training.lexicon_fit import load_towers, make_lexicon

    with interruptible("no model was written"):
        made = make_lexicon(load_towers(model, device), lines, source, folder.name, progress=not as_json)
        save_whole(made, folder)
    done = {
        "model": output,
        "identity": made.identity,
        "words": len(made.vocabulary),
        "captions": len(lines),
        "captions_of": "COCO" if captions is None else captions,
        "photos": len(source) if source is not None else 0,
    }
    if as_json:
        click.echo(json.dumps(done))
        return
    whose = "of COCO, which come along" if captions is None else captions
    fitted = f"{len(made.vocabulary):,} words from {len(lines):,} captions ({whose})"
    click.echo(f"{fitted}: lexlip index --model {output}")
    if not (folder / GRAPH).is_file():
        click.echo("note: photos need torch, as this image encoder has no graph for ONNX Runtime", err=True)
    if source is None:
        click.echo("note: without --photos, photos are taken to lie where captions do", err=True)
