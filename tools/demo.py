"""Index a few real photos, search them, and make a contact sheet: what `make demo` runs.

    python tools/demo.py [PHOTOS]

Without PHOTOS the photos are those that installed packages carry as sample data.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

from lexlip.cli import main as lexlip

FOLDER = Path(".demo")
SAMPLES = {
    "skimage": ["data/*.jpg", "data/*.png"],
    "sklearn": ["datasets/images/*.jpg"],
    "matplotlib": ["mpl-data/sample_data/*.jpg"],
}
NOT_PHOTOS = {"chessboard_GRAY", "chessboard_RGB", "clock_motion", "color", "logo", "page", "phantom", "text"}
QUERIES = [
    "a cat looking at the camera",
    "a cup of coffee on a table",
    "a red motorcycle in a garage",
    "a flower",
    "a person in a uniform smiling",
]


def sample_photos(folder: Path) -> Path:
    """Copy the sample photos of installed packages into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for package, patterns in SAMPLES.items():
        spec = importlib.util.find_spec(package)
        for place in spec.submodule_search_locations or [] if spec else []:
            for photo in (photo for pattern in patterns for photo in Path(place).glob(pattern)):
                if photo.stem not in NOT_PHOTOS:
                    shutil.copy(photo, folder)
    return folder


def run(*command: str) -> None:
    """Run a command of the project, shown as it is typed; here, so that torch is loaded only once."""
    print("\n$ lexlip " + " ".join(f'"{word}"' if " " in word else word for word in command), flush=True)
    try:
        lexlip(command, prog_name="lexlip")
    except SystemExit as end:
        if end.code:
            raise


def main(photos: str | None) -> None:
    source = photos or str(sample_photos(FOLDER / "photos"))
    index = str(FOLDER / "index")
    run("index", source, "--topk", "32", "--index", index)
    for query in QUERIES:
        run("search", query, "--index", index, "-k", "3")

    from lexlip.search.contact_sheet import write_contact_sheet
    from lexlip.search.photo_search import PhotoSearch

    with PhotoSearch(index) as search:
        write_contact_sheet(FOLDER / "contact-sheet.html", [search.text(query, 8) for query in QUERIES])
    print(f"\ncontact sheet: {(FOLDER / 'contact-sheet.html').resolve()}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
