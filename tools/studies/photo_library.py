"""Makes a library of photos with made-up dates and places, and scrolls its page to the end.

    python tools/studies/photo_library.py OUT LARGE SOURCE…
    lexlip index OUT && lexlip serve
    python tools/studies/photo_library.py scroll http://127.0.0.1:8642

OUT gets all photos of the sources (tars, folders) as JPEG, in a folder for each month of twenty years; the
first LARGE of them are enlarged to 12 megapixels. Four in five have a date in their EXIF, half have a place.
The last command opens the page in Chromium, scrolls to its end, and prints what that took.
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from pathlib import Path

from PIL import Image
from tqdm import tqdm

from lexlip.data import Source, open_source

SEED = 0
YEARS = range(2006, 2026)
PLACES = ((48.14, 11.58), (45.76, 4.84), (35.69, 139.69), (-33.87, 151.21), (40.71, -74.01), (64.15, -21.94))
LARGE = (4000, 3000)


def main(out: Path, large: int, sources: list[Source]) -> None:
    """Write the library; the photos of a number and of sources are always the same."""
    generator = random.Random(SEED)
    numbers = [(source, index) for source in sources for index in range(len(source))]
    for number, (source, index) in enumerate(tqdm(numbers, unit="photo")):
        year, month = generator.choice(YEARS), generator.randint(1, 12)
        picture = source.image(index)
        if number < large:
            picture = picture.resize(LARGE if picture.width >= picture.height else LARGE[::-1])
        folder = out / str(year) / f"{year}-{month:02}"
        folder.mkdir(parents=True, exist_ok=True)
        picture.save(folder / f"IMG_{number:06}.jpg", quality=90, exif=made_up(generator, year, month))


def made_up(generator: random.Random, year: int, month: int) -> Image.Exif:
    """Return EXIF with a camera, for most photos with a date, and for half with a place near a large city."""
    exif = Image.Exif()
    exif[0x0110] = "Made Up"
    day, *clock = generator.randint(1, 28), generator.randint(0, 23), generator.randint(0, 59)
    if generator.random() < 0.8:
        exif[0x8769] = {0x9003: f"{year}:{month:02}:{day:02} {clock[0]:02}:{clock[1]:02}:00"}
    if generator.random() < 0.5:
        north, east = (degrees + generator.uniform(-0.2, 0.2) for degrees in generator.choice(PLACES))
        sides = "N" if north > 0 else "S", "E" if east > 0 else "W"
        exif[0x8825] = {1: sides[0], 2: (abs(north), 0, 0), 3: sides[1], 4: (abs(east), 0, 0)}
    return exif


def scroll(address: str) -> None:
    """Print how long the page takes to show its first photo, and to come to the end; and its memory then."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        how = ["--no-sandbox", "--enable-precise-memory-info"]
        chromium = playwright.chromium.launch(executable_path=found, args=how)
        page = chromium.new_page(viewport={"width": 1280, "height": 800})
        started = time.perf_counter()
        page.goto(address)
        page.wait_for_selector(".hit img.loaded")
        print(f"first photo: {time.perf_counter() - started:.2f} s")
        started, still = time.perf_counter(), 0
        while still < 20:  # two seconds at the end
            before = page.evaluate("scrollY")
            page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
            page.wait_for_timeout(100)
            still = 0 if page.evaluate("scrollY") > before else still + 1
        print(
            f"to the end: {time.perf_counter() - started - 2:.1f} s, {page.evaluate('scrollY'):,.0f} pixels"
        )
        megabytes = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
        print(f"then {page.locator('.hit').count()} photos in the document, {megabytes:.0f} MB of JavaScript")


if __name__ == "__main__":
    if sys.argv[1] == "scroll":
        scroll(sys.argv[2])
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]), [open_source(name) for name in sys.argv[3:]])
