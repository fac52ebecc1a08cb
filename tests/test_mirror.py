"""The tests mirror the packages: who knows a module finds its tests, and the other way round."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("lexlip", "anserini_bridge", "benchmarks", "tools")

WITHOUT = {
    "lexlip/__main__.py",  # tested with the command line
    *("lexlip/models/contract.py", "anserini_bridge/errors.py"),  # contracts
    *(
        f"benchmarks/peers/{name}.py" for name in ("dense", "library", "lucene", "qdrant", "sparse")
    ),  # by name
    "lexlip/data/isolated_process.py",  # tested with what it answers
    *(f"lexlip/cluster/{name}.py" for name in ("shard_indexer", "shard_queue")),  # run in actors
    # tested where a cluster makes and asks shards
    *("lexlip/search/engines/shard.py", "lexlip/search/engines/shards.py"),
    # tested with each engine, by the two commands
    *(f"lexlip/other_engines/{name}.py" for name in ("ask", "engine_contract")),
    "lexlip/cli/export.py",
    # tested where an index on a server is searched
    *(f"lexlip/search_servers/photo_{name}.py" for name in ("queries", "store")),
    *(f"lexlip/search_servers/server_{name}.py" for name in ("albums", "photos", "stage")),
    *(f"tools/campaign/{name}.py" for name in ("__main__", "contract", "operations", "prepare")),
    # the attacks, of which a share is tried by test_campaign_short.py
    *(f"tools/campaign/{name}.py" for name in ("damage", "disk_errors", "disks_gone", "kills")),
    *(f"tools/campaign/{name}.py" for name in ("connections", "races", "strangers", "strangers_files")),
    *(f"tools/campaign/fuzz_{name}.py" for name in "commands json pictures requests sources vectors".split()),
}
THEMES = {
    "tests/search": {"snapshots"},
    "tests/cli": {"main", "first_stages", "second_stage", "multilingual", "interruption", "upgrade"},
    "tests/cluster": {"taking_over"},
    "tests/training": {"full_disk", "nodes", "phases", "relations"},
    "tests/benchmarks/peers": {"peers"},
    "tests/anserini_bridge": {
        *(
            "anserini_compatibility",
            "block_max",
            "blocks",
            "damaged_index",
            "java_classes",
            "lucene_alone",
            "older_index",
            "other_systems",
        ),
    },
    "tests/tools": {"find_python"},
    "tests/docs": {"commands", "links", "python_blocks", "long_commands", "quick_commands", "site", "tables"},
    "tests/net": {"net"},
    "tests/server/page": {
        *(
            "accessibility",
            "chips",
            "folders",
            "grid",
            "map",
            "names",
            "photo",
            "served_server",
            "real",
            "search",
            "select",
            "states",
            "timeline",
        ),
    },
    "tests": {
        "contributing",
        "examples",
        "exports",
        "extras",
        "layers",
        "mirror",
        "no_code",
        "other_systems",
    },
}
"""By folder what is tested there that is not one module."""


def mirrored(module: Path) -> Path:
    """The folder of a module's tests."""
    folder = module.parent.relative_to(ROOT)
    return ROOT / "tests" / (folder.relative_to("lexlip") if folder.parts[0] == "lexlip" else folder)


MODULES = [
    path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.name != "__init__.py" and str(path.relative_to(ROOT)) not in WITHOUT
]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_has_its_tests(module: Path) -> None:
    assert list(mirrored(module).glob(f"test_{module.stem}.py"))


@pytest.mark.parametrize("file", sorted((ROOT / "tests").rglob("test_*.py")), ids=lambda path: path.name)
def test_a_file_of_tests_has_its_module(file: Path) -> None:
    """Its name may go on after the module's: test_step_gpu.py."""
    name, folder = file.stem.removeprefix("test_"), str(file.parent.relative_to(ROOT))
    modules = {path.stem for path in MODULES if mirrored(path) == file.parent}
    begins = any(name == module or name.startswith(f"{module}_") for module in modules)
    assert begins or name in THEMES.get(folder, set())
