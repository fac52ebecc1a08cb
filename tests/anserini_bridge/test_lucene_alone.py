"""Without pyserini, the packaged jar of Lucene does all that an impact index needs."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bridge_corpus import ROOT, Corpus, brute_force, search
from scipy.sparse import load_npz, save_npz

from anserini_bridge import ImpactSearcher, read_metadata
from anserini_bridge.jvm import lucene_version

OLD = ROOT / "tests" / "net" / "fixtures" / "photos" / ".impact"

WITHOUT_PYSERINI = """
import importlib.util, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "pyserini" else find_spec(name, *more)
sys.modules["pyserini"] = None
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


def major(version: str) -> str:
    return version.partition(".")[0]


def without_pyserini(run_python: Run, code: str, *arguments: object) -> Any:
    """What code prints as JSON in a process that finds no pyserini."""
    done = run_python(WITHOUT_PYSERINI + code, *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)


def test_an_index_is_written_updated_and_searched(run_python: Run, corpus: Corpus, tmp_path: Path) -> None:
    save_npz(tmp_path / "vectors.npz", corpus.vectors[:500])
    code = """
import json
from scipy.sparse import load_npz
from anserini_bridge import ImpactSearcher, ImpactWriter, find_damage, find_jar, update_index
from anserini_bridge.metadata import read_header
folder, vectors = sys.argv[1], load_npz(sys.argv[2])
ids, settings = [f"{number}" for number in range(500)], dict(encoder="test", topk=32, normalize=False)
settings["quantization"] = {"scheme": "linear", "scale": 100.0}
with ImpactWriter(folder, [f"w{i}" for i in range(200)], **settings) as writer:
    writer.add(ids[:400], vectors[:400])
with update_index(folder) as writer:
    writer.upsert(ids[400:], vectors[400:])
    writer.optimize()
with ImpactSearcher(folder) as searcher:
    found, scores = searcher.search(vectors[:20], k=10)
print(json.dumps([find_jar().name, found, [row.tolist() for row in scores]]))
"""
    jar, found, scores = without_pyserini(run_python, code, tmp_path / "index", tmp_path / "vectors.npz")
    assert jar == "lucene.jar"
    vectors = load_npz(tmp_path / "vectors.npz")
    expected = brute_force(vectors[:20], vectors, [f"{number}" for number in range(500)], 10)
    assert list(zip(found, scores, strict=True)) == expected
    if major(lucene_version()) == major(read_metadata(tmp_path / "index").lucene_version):  # older on 3.11
        assert search(tmp_path / "index", vectors[:20]) == expected


def test_an_index_of_an_older_version_is_searched_and_changed(run_python: Run, tmp_path: Path) -> None:
    index = shutil.copytree(OLD, tmp_path / "index")
    code = """
import json
from scipy.sparse import csr_matrix
from anserini_bridge import ImpactSearcher, update_index
def answers():
    with ImpactSearcher(sys.argv[1]) as searcher:
        ids, scores = searcher.search(csr_matrix([[1] * len(searcher.vocabulary)]), k=20)
    return dict(zip(ids[0], scores[0].tolist()))
before = answers()
with update_index(sys.argv[1]) as writer:
    writer.delete(["9.png"])
    writer.optimize()
print(json.dumps([before, answers()]))
"""
    before, after = without_pyserini(run_python, code, index)
    with ImpactSearcher(OLD) as searcher:
        rows = searcher.vectors(list(before))
    assert list(before.values()) == [int(row.sum()) for row in rows]
    assert after == {id: score for id, score in before.items() if id != "9.png"}


@pytest.mark.parametrize("call", ["write_bm25_index('new', ['a'], ['text'])", "Bm25Searcher(sys.argv[1])"])
def test_bm25_says_what_to_install(run_python: Run, tmp_path: Path, call: str) -> None:
    code = f"""
import json
from anserini_bridge import NoJar
from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index
try:
    {call}
except NoJar as error:
    print(json.dumps(str(error)))
"""
    says = without_pyserini(run_python, code, tmp_path)
    assert says == "this needs Anserini: pip install 'lexlip[anserini]'"
