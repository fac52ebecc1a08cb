"""The commands whose JSON is recorded, and the folder that they run in.

The folder holds `photos/` (ten drawn scenes with captions, and in hidden folders an index of each kind),
`packaged/` (tiny models by name) and `run/` (a training run that was interrupted). Everything goes through
the command line.
"""

import json
import shutil
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
FIXTURES, EXPECTED = FOLDER / "fixtures", FOLDER / "expected"
DRAWN = str(FOLDER.parent / "drawn_scenes.yaml")

QUERY = "a red circle above two blue stars"
SCENES = "scenes:12:3"
INDEXES = ("impact", "flat", "hnsw", "bm25")
KINDS = ("lexlip", "dense", "lightningdot", "vldeformer", "be", "ce", "joint")

TABLE = ("--source", SCENES, "--workers", "0")
STAGE = (*TABLE, "--queries", "3")

COMMANDS: dict[str, tuple[str, ...]] = {
    # each kind of index, made anew
    "index-impact": ("index", "photos", "--index", "new/impact", "--topk", "8"),
    "index-flat": ("index", "photos", "--index", "new/flat", "--model", "packaged/dense"),
    "index-hnsw": ("index", "photos", "--index", "new/hnsw", "--model", "packaged/dense", "--ann", "hnsw"),
    "index-bm25": ("index", "photos", "--index", "new/bm25", "--model", "bm25"),
    # the recorded ones, searched
    **{f"search-{kind}": ("search", QUERY, "--index", f"photos/.{kind}", "-k", "4") for kind in INDEXES},
    "search-words": ("search", QUERY, "--index", "photos/.impact", "--query-encoder", "words"),
    "search-all-words": ("search", QUERY, "--index", "photos/.impact", "--query-topk", "all"),
    "search-image": ("search", "--image", "photos/3.png", "--index", "photos/.impact"),
    "search-image-flat": ("search", "--image", "photos/3.png", "--index", "photos/.flat"),
    "search-rerank": ("search", QUERY, "--index", "photos/.impact", "--rerank", "packaged/ce", "-k", "4"),
    "search-also": ("search", QUERY, "--index", "photos/.impact", "--also", "photos/.flat"),
    # what photos are to a model, and how well they are found
    "words": ("words", "photos", "--workers", "0"),
    "evaluate-lucene": ("evaluate", SCENES, "--workers", "0"),
    "evaluate-exact": ("evaluate", SCENES, "--workers", "0", "--engine", "exact"),
    "evaluate-dense": ("evaluate", SCENES, "--workers", "0", "--model", "packaged/dense"),
    "evaluate-bm25": ("evaluate", SCENES, "--workers", "0", "--model", "bm25"),
    "evaluate-pairs": ("evaluate", SCENES, "--workers", "0", "--model", "packaged/ce"),
    "evaluate-rerank": ("evaluate", SCENES, "--workers", "0", "--rerank", "packaged/ce"),
    # tables
    "table-1": ("table", "1", "mini", "bm25", *TABLE),
    "table-1-validation": ("table", "1", "run"),
    "table-2": ("table", "2", "--queries", SCENES, "--workers", "0", "--rounds", "1", "--topk", "4"),
    "table-3": ("table", "3", "run"),
    "table-stages": ("table", "stages", "mini", "bm25", "packaged/dense", *STAGE),
    "table-lightningdot-1": ("table", "lightningdot-1", "mini", *TABLE),
    "table-lightningdot-2": ("table", "lightningdot-2", "mini", *TABLE, "--pool", "scenes:4:9"),
    "table-lightningdot-3": ("table", "lightningdot-3", "mini", *STAGE, "--rerank", "packaged/ce"),
    "table-vldeformer-4": ("table", "vldeformer-4", "packaged/dense", *STAGE),
    "table-vldeformer-5": ("table", "vldeformer-5", "run", *TABLE),
    "table-retrieve-1": ("table", "retrieve-1", "mini", *TABLE, "--rerank", "packaged/ce"),
    "table-retrieve-3": ("table", "retrieve-3", "mini", *STAGE, "--rerank", "packaged/ce", "--photos", "20"),
    "table-retrieve-5": ("table", "retrieve-5", "mini", *TABLE, "--pool", "scenes:4:9"),
    "table-retrieve-8": ("table", "retrieve-8", "mini", *TABLE, "--rerank", "packaged/ce"),
    "table-retrieve-9": ("table", "retrieve-9", "mini", *TABLE, "--rerank", "packaged/ce"),
    # benchmarks
    "bench-latency": ("bench", "latency", "photos", "--index", "photos/.impact", "--queries", "3"),
    "bench-engine": (
        *("bench", "engine", "--docs", "300", "--queries", "10", "--rounds", "1", "--shape", "mini"),
        *("--engine", "lexlip", "--engine", "scipy"),
    ),
    # the recorded index, changed: last, as others search it
    "update": ("index", "photos", "--index", "photos/.impact", "--update"),
    "optimize": ("optimize", "--index", "photos/.impact"),
}
"""By name the arguments of `lexlip`, to which --json is added."""

OBJECTIVES: dict[str, tuple[str, ...]] = {
    "lexlip": ("mlm=1", "image_to_text=1", "text_to_text=1", "topk=[8]")
    + ("anchor_contrastive=0.5", "anchor_align=0.5", "anchor_words=0.5"),
    "lexlip-queue": ("queue=24", "momentum=0.8", "topk=[8]", "flops_unit=true"),
    "dense": ("mlm=1", "image_to_text=1", "text_to_text=1"),
    "lightningdot": ("vmlm=1", "smrm=1", "temperature=1"),
    "vldeformer": ("composed_negatives=true",),
    "be": ("contrastive=0", "triplet=1"),
    "ce": ("contrastive=0", "matching=1", "hard_negatives=0.5"),
    "joint": ("matching=1", "triplet=1", "alternate=true"),
}
"""By run what its objective has besides the defaults."""

TINY_RUN = (
    *("seed=3", "log_every=1", "data.train=[scenes:32:0]", "data.val=[scenes:12:50]", "data.workers=0"),
    *(
        "data.captions_per_image=2",
        "data.crop=0.7",
        "optim.batch=8",
        "optim.lr=1e-3",
        "optim.micro_batch=null",
    ),
    "model.image={name: vit_tiny_patch16_224, size: 32,"
    " options: {patch_size: 8, embed_dim: 24, depth: 1, num_heads: 2}}",
    "model.text={tokenizer: captions, options: {hidden_size: 16, num_hidden_layers: 1,"
    " num_attention_heads: 2, intermediate_size: 32, max_position_embeddings: 40}}",
)


def training(name: str) -> list[str]:
    """The arguments of `lexlip pretrain` for twenty steps of a run of OBJECTIVES."""
    kind = name.partition("-")[0]
    none = {f"objective.{key}=0" for key in ("flops_image", "flops_text")} if kind != "lexlip" else set()
    anchors = [f"objective.anchor_{key}=0" for key in ("contrastive", "align", "words")]
    chosen = [f"objective.{override}" for override in OBJECTIVES[name]]
    return [
        *(
            "pretrain",
            DRAWN,
            f"model.kind={kind}",
            "optim.steps=20",
            "validate_every=20",
            "checkpoint_every=20",
        ),
        *TINY_RUN,
        *sorted(none),
        *anchors,
        *chosen,
        f"out=trained/{name}",
    ]


RESUMED = [
    *("pretrain", DRAWN, "optim.steps=12", "validate_every=4", "checkpoint_every=4", *TINY_RUN, "out=run"),
]
"""The run that was interrupted after step 8."""


def set_up(folder: Path) -> None:
    """Copies the fixtures, writable, to a folder, which they are then relative to."""
    for part in FIXTURES.iterdir():
        shutil.copytree(part, folder / part.name, symlinks=True)


def run(arguments: tuple[str, ...] | list[str]) -> Any:
    """What a command prints with --json."""
    from click.testing import CliRunner

    from lexlip.cli import main

    result = CliRunner().invoke(main, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.replace(str(Path.cwd()), "."))


def metrics(run: Path) -> list[dict[str, Any]]:
    """The losses of a run, by step; without what depends on the machine."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [renamed(row, without=("samples_per_s", "memory_mb")) for row in rows]


def renamed(losses: dict[str, Any], without: Container[str] = ()) -> dict[str, Any]:
    """A row of metrics with the names of today."""
    return {LOGGED.get(key, key): value for key, value in losses.items() if key not in without}


LOGGED = {
    "topk": "topk_contrastive",
    "anchor": "anchor_contrastive",
    "align": "anchor_align",
    "words": "anchor_words",
}
"""Names of losses when they were recorded, and since then those of their weights."""


def in_this_process(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Measures without warming up, and the tiny models are the packaged ones."""
    import benchmarks.benchmark
    import lexlip.bench.clocks
    import lexlip.machine.resources
    import lexlip.models.model_folder

    patch.chdir(folder)
    patch.setattr(lexlip.models.model_folder, "PACKAGED", folder / "packaged")
    patch.setattr(lexlip.bench.clocks, "WARM_UP", 0.0)
    patch.setattr(benchmarks.benchmark, "WARM_UP", 0.1)
    patch.setattr(lexlip.machine.resources, "in_own_process", lambda do, *given, **_: do(*given))


TOLERANCE = 5e-3  # processors round differently
OF_A_MACHINE = {
    *("ms", "seconds", "megabytes", "megabytes_before", "qps", "photo_bytes", "speed_up", "notes"),
    *("training_minutes", "megabytes_without_ids", "conditions", "engines", "encoders"),
}
"""Keys below which only further keys and types count."""


def differences(found: Any, expected: Any, where: str = "", values: bool = True) -> Iterator[str]:
    """What is not as it was recorded; keys may have been added."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if gone := expected.keys() - found.keys():
            yield f"{where}: {sorted(gone)} gone"
        for key in expected.keys() & found.keys():
            inner = values and key not in OF_A_MACHINE
            yield from differences(found[key], expected[key], f"{where}.{key}", inner)
    elif isinstance(expected, list) and isinstance(found, list):
        if values and len(expected) != len(found):
            yield f"{where}: {len(found)} entries, not {len(expected)}"
        for row, (ours, theirs) in enumerate(zip(found, expected, strict=False)):
            yield from differences(ours, theirs, f"{where}[{row}]", values)
    elif isinstance(expected, float) and isinstance(found, float):
        if values and found != pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE):
            yield f"{where}: {found!r}, not {expected!r}"
    elif type(found) is not type(expected) or (values and found != expected):
        yield f"{where}: {found!r}, not {expected!r}"
