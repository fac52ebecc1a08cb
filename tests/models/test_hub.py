"""Models on the hub, against a stand-in for it on this machine."""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from lexlip.models.hub import PATTERNS
from lexlip.models.model_folder import PACKAGED
from tests.models.hub_stand_in import COMMIT, HubStandIn
from tests.test_extras import RUN, hide
from tests.tiny import tiny_dense, tiny_model
from tests.tiny_clip import write_clip, write_open_clip, write_sentence_clip, write_siglip

Python = Callable[..., subprocess.CompletedProcess[str]]
LOAD = """
import json
from lexlip import LexLIP
from tests.tiny import CAPTIONS, tiny_model
model = LexLIP.from_pretrained("me/tiny")
difference = model.encode_text(CAPTIONS) - tiny_model().encode_text(CAPTIONS)
print(json.dumps([model.identity, float(abs(difference).max())]))
"""


def test_all_files_of_a_model_are_fetched() -> None:
    checked = (PACKAGED / "mini" / "checksums.txt").read_text().split()[1::2]
    assert "image.onnx" in checked
    assert all(any(fnmatch(file, pattern) for pattern in PATTERNS) for file in checked)


@pytest.fixture
def hub() -> Iterator[HubStandIn]:
    with HubStandIn() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def environment(hub: HubStandIn, tmp_path: Path) -> dict[str, str]:
    return {
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "0",
        "HF_TOKEN": "hf_of_a_test",
        "NO_PROXY": "127.0.0.1",
    }


def put(hub: HubStandIn, name: str, folder: Path) -> None:
    files = (file for file in folder.rglob("*") if file.is_file())
    hub.repositories[name] = {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def write_both(folder: Path) -> Path:
    """As LAION's are: a folder that transformers and open_clip read, here with different weights."""
    return write_open_clip(write_clip(folder))


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_model_goes_to_the_hub_and_comes_back(hub: HubStandIn, run_python: Python, tmp_path: Path) -> None:
    """Uploaded with a card, loaded with equal vectors, and loaded again without asking the hub."""
    there = environment(hub, tmp_path)
    code = 'from tests.tiny import tiny_model; print(tiny_model().push_to_hub("me/tiny"))'
    assert said(run_python("-c", code, **there)) == f"{hub.address}/me/tiny\n"
    files = hub.repositories["me/tiny"]
    assert {
        "config.json",
        "model.safetensors",
        "vocabulary.txt",
        "checksums.txt",
        "README.md",
    } <= files.keys()
    identity, difference = json.loads(said(run_python("-c", LOAD, **there)))
    assert identity == json.loads(files["config.json"])["identity"]
    assert difference == 0
    before = len(hub.asked)
    assert json.loads(said(run_python("-c", LOAD, **there))) == [identity, 0]
    assert len(hub.asked) == before
    hub.repositories["me/tiny"]["README.md"] = b"# my own card\n"
    said(run_python("-c", code, **there))
    assert hub.repositories["me/tiny"]["README.md"] == b"# my own card\n"


@pytest.mark.slow
def test_the_command_line_takes_a_name_of_the_hub(
    hub: HubStandIn, run_python: Python, tmp_path: Path, photos: Path, model_folder: Path
) -> None:
    there = environment(hub, tmp_path)
    put(hub, "me/tiny", model_folder)
    said(run_python("-m", "lexlip", "index", photos, "--index", "ix", "--model", "me/tiny", **there))
    found = json.loads(said(run_python("-m", "lexlip", "search", "dogs", "--index", "ix", "--json", **there)))
    assert found["hits"]
    assert said(
        run_python("-m", "lexlip", "doctor", "--verify", "--index", "ix", "--model", "me/tiny", **there)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "write", "kind"),
    [
        ("me/siglip", write_siglip, "siglip"),
        ("me/sentence", write_sentence_clip, "clip"),
        ("me/open", write_open_clip, "open_clip"),
        ("hf-hub:me/open", write_open_clip, "open_clip"),
        ("hf-hub:me/both", write_both, "open_clip"),
    ],
)
def test_a_model_of_another_library_on_the_hub(
    hub: HubStandIn,
    run_python: Python,
    tmp_path: Path,
    photos: Path,
    name: str,
    write: Callable[[Path], Path],
    kind: str,
) -> None:
    """A search uses what indexing fetched, and does not ask the hub: a stranger may have named the model."""
    there = environment(hub, tmp_path)
    put(hub, name.removeprefix("hf-hub:"), write(tmp_path / "model"))
    said(run_python("-m", "lexlip", "index", photos, "--index", "ix", "--model", name, **there))
    header = json.loads((tmp_path / "ix" / "index.json").read_text())
    assert (header["model_kind"], header["extra"]["model"]) == (kind, name)
    before = len(hub.asked)
    search = ("search", "dogs", "--index", "ix", "--json")
    assert json.loads(said(run_python("-m", "lexlip", *search, **there)))["hits"]
    assert len(hub.asked) == before
    assert json.loads(said(run_python("-m", "lexlip", *search, "--model", name, **there)))["hits"]
    nowhere = {**there, "HF_HUB_OFFLINE": "1"}
    assert said(run_python("-m", "lexlip", *search, "--model", name, **nowhere))
    done = run_python("-m", "lexlip", "index", photos, "--index", "no", "--model", "me/none", **there)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


@pytest.mark.slow
def test_what_a_model_on_the_hub_lacks(
    hub: HubStandIn, run_python: Python, tmp_path: Path, photos: Path
) -> None:
    there = environment(hub, tmp_path)
    hub.repositories["me/card"] = {"README.md": b""}
    hub.repositories["me/config"] = {"open_clip_config.json": b"{}"}
    for name, says in (
        ("me/card", "the hub's 'me/card' has no config.json or open_clip_config.json or modules.json that"),
        ("me/config", "no model 'me/config': no folder has that name, and the hub says: Failed to download"),
        ("hf-hub:me/card", "no model 'me/card': no folder has that name, and the hub says: "),
    ):
        done = run_python("-m", "lexlip", "index", photos, "--model", name, **there)
        assert (done.returncode, says in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
def test_a_changed_download_is_found(
    hub: HubStandIn, run_python: Python, tmp_path: Path, model_folder: Path
) -> None:
    there = environment(hub, tmp_path)
    put(hub, "me/tiny", model_folder)
    said(run_python("-c", LOAD, **there))
    folder = tmp_path / "hf" / "hub" / "models--me--tiny" / "snapshots" / COMMIT
    (folder / "vocabulary.txt").write_text("other\n")
    done = run_python("-m", "lexlip", "doctor", "--model", "me/tiny", **there)
    assert done.returncode == 1
    assert "vocabulary.txt is not as it was when the model was saved" in done.stdout


@pytest.mark.slow
def test_what_the_hub_does_not_have(hub: HubStandIn, run_python: Python, tmp_path: Path) -> None:
    done = run_python(
        "-c",
        "from lexlip import LexLIP, LexLIPError\n"
        "try: LexLIP.from_pretrained('me/none')\n"
        "except LexLIPError as error: print(error)",
        **environment(hub, tmp_path),
    )
    assert said(done).startswith("no model 'me/none': no folder has that name, and the hub says: ")


MINI_AGAIN = """
from lexlip import LexLIP
LexLIP.from_pretrained("me/mini").push_to_hub("me/other", small=True, license="cc-by-4.0")
"""


@pytest.mark.slow
def test_a_model_of_the_hub_goes_there_again_with_all_its_files(
    hub: HubStandIn, run_python: Python, tmp_path: Path
) -> None:
    """Whoever takes the copy needs no torch either, and has the same words and the same honest end."""
    there = environment(hub, tmp_path)
    put(hub, "me/mini", PACKAGED / "mini")
    said(run_python("-c", MINI_AGAIN, **there))
    first, second = hub.repositories["me/mini"], hub.repositories["me/other"]
    assert second.keys() - {".gitattributes"} == first.keys()
    (tmp_path / "README.md").write_bytes(second["README.md"])
    card = ModelCard.load(tmp_path / "README.md")
    assert (card.data.license, card.data.base_model) == ("cc-by-4.0", "me/mini")
    assert card.text.lstrip().startswith("# me/other\n")
    assert "lexlip index PHOTOS --model me/other\n" in card.text
    assert "licence" not in card.text
    ends = [json.loads(files["honest_end.json"]) for files in (first, second)]
    identity = json.loads(second["config.json"])["identity"]
    assert ends[1] == {**ends[0], "model": identity}
    answers = []
    for name in ("me/mini", "me/other"):
        index = f"{name.partition('/')[2]}-index"
        given = ("index", PACKAGED.parent / "photos", "--index", index, "--model", name)
        code = f"{hide('')}{RUN}print(run(*json.loads(sys.argv[1])))"
        done = run_python("-c", code, json.dumps([str(one) for one in given]), **there)
        assert said(done).startswith("[0, "), done.stdout
        search = run_python("-m", "lexlip", "search", "a cat", "--index", index, "--json", **there)
        answers.append(json.loads(said(search)))
    for answer in answers:
        assert answer["cut"] == pytest.approx(answers[0]["cut"], rel=1e-4)
        assert [hit["id"] for hit in answer["hits"]] == [hit["id"] for hit in answers[0]["hits"]]


def test_the_cards_front_matter(tmp_path: Path) -> None:
    tiny_model().save(tmp_path / "words")
    tiny_dense().save(tmp_path / "dense")
    for folder in (tmp_path / "words", tmp_path / "dense", PACKAGED / "mini"):
        data = ModelCard.load(folder / "README.md").data
        assert (data.library_name, data.pipeline_tag) == ("lexlip", "image-feature-extraction")
        assert data.license
        assert data.metrics == ["recall"]
        assert ("learned-sparse-retrieval" in data.tags) == (folder.name != "dense")
    figures = ModelCard.load(PACKAGED / "mini" / "README.md").data.eval_results
    text = (PACKAGED / "mini" / "README.md").read_text(encoding="utf-8").split("---\n", 2)[2]
    assert len(figures) == 4
    assert all(f"{result.metric_value} /" in text or f"/ {result.metric_value}" in text for result in figures)


def test_what_a_model_was_made_from_is_on_its_card(tmp_path: Path) -> None:
    model = tiny_model()
    for text, hub_name, base in (
        ("sentence-transformers/all-MiniLM-L6-v2", None, "sentence-transformers/all-MiniLM-L6-v2"),
        ("sentence-transformers/all-MiniLM-L6-v2", "me/mini", "me/mini"),
        (str(tmp_path), None, None),
        ("minilm", None, None),
    ):
        model.config = replace(model.config, text=replace(model.config.text, name=text))
        model.hub_name = hub_name
        model.save(tmp_path)
        card = ModelCard.load(tmp_path / "README.md")
        assert (card.data.base_model, card.data.license) == (base, "unknown")
        assert "Still to be said: its licence, " in card.text
        (tmp_path / "README.md").unlink()


def test_a_card_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# mine\n")
    tiny_model().save(tmp_path)
    assert (tmp_path / "README.md").read_text() == "# mine\n"
