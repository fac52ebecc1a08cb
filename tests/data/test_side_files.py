import io
import shutil
import subprocess
from pathlib import Path

import pytest
from defusedxml import ElementTree
from PIL import Image

from lexlip.data.facts import read_embedded
from lexlip.data.images import open_image, quiet
from lexlip.data.side_files import LONGEST_XMP, with_words

DIGIKAM = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<!-- by hand -->
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core 4.4.0-Exiv2">
 <r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <r:Description r:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmp="http://ns.adobe.com/xap/1.0/"
    xmlns:digiKam="http://www.digikam.org/ns/1.0/" xmp:Rating="4" xmp:CreateDate="2019-07-01T12:30:00">
   <dc:subject><r:Bag><r:li>Omas Hund</r:li><r:li>Dog</r:li></r:Bag></dc:subject>
   <digiKam:TagsList><r:Seq><r:li>Tiere/Omas Hund</r:li><r:li>beach</r:li></r:Seq></digiKam:TagsList>
   <dc:description><r:Alt><r:li xml:lang="x-default">A &amp; B</r:li></r:Alt></dc:description>
  </r:Description>
 </r:RDF>
</x:xmpmeta>
<?xpacket end="w"?>""".encode()


def written(data: bytes, words: list[str]) -> bytes:
    found = with_words(data, words)
    assert found is not None
    return found


def keywords_of(data: bytes) -> tuple[str, ...]:
    """Return the keywords that count as a person's."""
    picture = io.BytesIO()
    Image.new("RGB", (8, 8)).save(picture, "PNG")
    with quiet():
        return read_embedded(open_image(picture.getvalue()), [data]).keywords


def elements(data: bytes) -> list[tuple[str, str, dict[str, str]]]:
    """Return what an XMP file says, without blanks."""
    return [(e.tag, (e.text or "").strip(), e.attrib) for e in ElementTree.fromstring(data).iter()]


def test_words_stand_among_a_person_s_and_are_taken_out_again() -> None:
    first = written(DIGIKAM, ["dog", "snow", "beach", "sea"])
    assert first.count(b"<!-- by hand -->") == first.count(b"<?xpacket") // 2 == 1
    texts = [text for _, text, _ in elements(first) if text]
    assert texts == [
        *("Omas Hund", "Dog", "snow", "sea", "Tiere/Omas Hund", "beach", "snow", "sea", "A & B"),
        *("snow", "sea", "snow", "sea"),  # Lightroom's, and the program's own list
    ]
    assert keywords_of(first) == keywords_of(DIGIKAM) == ("Omas Hund", "Dog")
    assert with_words(first, ["sea", "snow", "dog"]) is None
    second = written(first, ["sea", "ice"])
    assert [text for _, text, _ in elements(second)].count("ice") == 4
    assert "snow" not in second.decode()
    assert elements(written(second, [])) == elements(DIGIKAM)


def test_a_file_that_is_not_there_yet() -> None:
    assert with_words(b"", []) is None
    made = written(b"", ["dog", "<b> & 'c'"])
    assert [text for _, text, _ in elements(made) if text] == ["dog", "<b> & 'c'"] * 4
    assert keywords_of(made) == ()
    assert with_words(made, []) == b""
    assert keywords_of(made.replace(b"urn:lexlip:keywords#", b"urn:others")) == ("dog", "<b> & 'c'")


@pytest.mark.parametrize("encoding", ["UTF-8", "ISO-8859-1", "UTF-16"])
def test_a_single_keyword_as_an_attribute_in_any_encoding(encoding: str) -> None:
    text = f"""<?xml version="1.0" encoding="{encoding}"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/" dc:subject="M\u00fcller" dc:format="image/jpeg"/>
</rdf:RDF>"""
    data = text.encode(encoding)
    assert keywords_of(data) == ("M\u00fcller",)
    made = written(data, ["dog"])
    assert [text for _, text, _ in elements(made) if text] == ["M\u00fcller", "dog", "dog", "dog", "dog"]
    assert keywords_of(made) == keywords_of(written(made, [])) == ("M\u00fcller",)


@pytest.mark.parametrize(
    "data",
    [
        b"no XML",
        b"<x/>",
        DIGIKAM[:200],
        b'<!DOCTYPE x [<!ENTITY a "b">]>' + DIGIKAM.split(b"?>\n", 1)[1],
        DIGIKAM + b" " * LONGEST_XMP + b"<!-- -->",
    ],
    ids=["text", "other XML", "cut", "entities", "long"],
)
def test_what_is_no_xmp_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no XMP"):
        with_words(data, ["dog"])


def test_a_file_that_would_be_too_large_to_be_read_stays_as_it_is() -> None:
    full = DIGIKAM.replace(b"A &amp; B", b"A" * (LONGEST_XMP - len(DIGIKAM) - 50))
    assert len(full) <= LONGEST_XMP
    with pytest.raises(ValueError, match="it would have more than"):
        with_words(full, ["dogs", "cats"] * 50)


def test_deep_xmp_is_refused() -> None:
    deep = DIGIKAM.replace(b"</r:RDF>", b"<a>" * 50_000 + b"</a>" * 50_000 + b"</r:RDF>")
    with pytest.raises(ValueError, match="no XMP: it is nested too deep"):
        with_words(deep, ["dog"])


def test_thousands_of_words_are_taken_out() -> None:
    words = [f"w{number}" for number in range(8000)]
    assert with_words(written(DIGIKAM, words), ["dog"]) is not None


def test_exiftool_reads_it(tmp_path: Path) -> None:
    if shutil.which("exiftool") is None:
        pytest.skip("exiftool is not installed: apt-get install libimage-exiftool-perl")
    side = tmp_path / "photo.jpg.xmp"
    side.write_bytes(written(DIGIKAM, ["snow", "sea"]))
    asked = ["exiftool", "-s3", "-validate", "-XMP-dc:Subject", "-XMP-digiKam:TagsList"]
    asked += ["-XMP-lr:HierarchicalSubject", "-XMP-xmp:Rating", "-XMP-dc:Description", str(side)]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    assert found == [
        "OK",
        "Omas Hund, Dog, snow, sea",
        "Tiere/Omas Hund, beach, snow, sea",
        "snow, sea",
        "4",
        "A & B",
    ]
