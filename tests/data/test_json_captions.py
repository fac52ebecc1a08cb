import json
from pathlib import Path

import pytest

from lexlip.data import Item, Skipped, open_source
from lexlip.data.caption_files import FurtherTexts
from lexlip.errors import DataError
from tests.data.pictures import write

TWO = [Item("a.jpg", ("a dog", "two dogs")), Item("sub/b.png", ("a cat",))]

COCO = {
    "info": {"year": 2017},
    "licenses": [],
    "images": [{"id": 9, "file_name": "a.jpg", "width": 4}, {"id": 8, "file_name": "sub/b.png"}],
    "annotations": [
        {"image_id": 8, "id": 1, "caption": "a cat"},
        {"image_id": 9, "id": 2, "caption": "a dog"},
        {"image_id": 9, "id": 3, "caption": "two \n dogs"},
    ],
}


def lines(*records: object) -> str:
    return "\n".join(json.dumps(record) for record in records)


PAIRS = [("a.jpg", "a dog"), ("a.jpg", "two dogs"), ("sub/b.png", "a cat")]
LISTED = [{"image": "a.jpg", "caption": ["a dog", "two dogs"]}, {"image": "sub/b.png", "caption": "a cat"}]
KARPATHY = [
    {"filename": "a.jpg", "sentences": [{"raw": "a dog"}, {"raw": "two dogs"}]},
    {"filepath": "sub", "filename": "b.png", "sentences": [{"raw": "a cat"}]},
]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dataset_coco.json", lines({"images": KARPATHY})),
        ("captions_val2017.json", lines(COCO)),
        ("coco_karpathy_test.json", lines(LISTED)),
        ("coco_karpathy_train.json", lines([{"image": photo, "caption": text} for photo, text in PAIRS])),
        ("metadata.jsonl", lines(*({"text": text, "file_name": photo} for photo, text in PAIRS))),
        ("t.JSONL", "\ufeff" + lines(*({"Path": photo, "Title": text} for photo, text in PAIRS)) + "\r\n\n"),
        ("captions.jsonl", lines({"image": "a.jpg", "captions": ["a dog", "two dogs"]}, LISTED[1])),
    ],
)
def test_variants(two_photos: Path, name: str, text: str) -> None:
    source = open_source(write(two_photos / name, text))
    assert source.items == TWO
    assert source.skipped == []
    source.image(1)


def test_splits_of_lists(two_photos: Path) -> None:
    rows = (
        {"image": "a.jpg", "caption": "a dog", "split": "restval"},
        {"image": "sub/b.png", "caption": "a cat"},
    )
    assert [
        item.id for item in open_source(write(two_photos / "t.jsonl", lines(*rows)), split="train").items
    ] == ["a.jpg"]


def test_photos_elsewhere_and_without_captions(two_photos: Path, tmp_path: Path) -> None:
    images = [*COCO["images"], {"id": 7, "file_name": "gone.jpg"}]  # type: ignore[misc]
    annotations = [one for one in COCO["annotations"] if one["image_id"] != 8]  # type: ignore[union-attr,index]
    text = lines({"images": images, "annotations": annotations})
    source = open_source(write(tmp_path / "annotations" / "captions.json", text), images=two_photos)
    assert source.items == [TWO[0], Item("sub/b.png", ())]
    assert source.skipped == [Skipped("gone.jpg", "no such file")]


def test_what_makes_no_sense_is_skipped(two_photos: Path) -> None:
    rows = [
        '{"image": "a.jpg", "caption": "a dog"',
        lines(3),
        lines({"image": "a.jpg"}),
        lines({"image": 3, "caption": "x"}),
    ]
    good = lines({"image": "a.jpg", "caption": "a dog"})
    source = open_source(write(two_photos / "t.jsonl", "\n".join([*rows, good])))
    assert source.items == [Item("a.jpg", ("a dog",))]
    assert [skipped.id for skipped in source.skipped] == ["t.jsonl:1", "t.jsonl:2", "t.jsonl:3", "t.jsonl:4"]
    assert source.skipped[0].reason.startswith("not JSON: ")
    assert {skipped.reason for skipped in source.skipped[1:]} == {"no image, or no caption"}

    images = [*COCO["images"], 3, {"id": 9, "file_name": 5}, {"file_name": "a.jpg"}]  # type: ignore[misc]
    annotations = [*COCO["annotations"], 3, {"image_id": 9}, {"image_id": [], "caption": "x"}]  # type: ignore[misc]
    source = open_source(write(two_photos / "c.json", lines({"images": images, "annotations": annotations})))
    assert source.items == TWO
    assert [skipped.id for skipped in source.skipped] == [
        *(f"annotations[{number}]" for number in (3, 4, 5)),
        *(f"images[{number}]" for number in (2, 3, 4)),
    ]


def test_what_is_lost_is_named(two_photos: Path) -> None:
    """Ids that are texts in one list and numbers in the other, and keys without a value before others."""
    annotations = [{"image_id": "9", "caption": "a dog"}, {"image_id": 8, "caption": "a cat"}]
    text = lines({"images": COCO["images"], "annotations": annotations})
    source = open_source(write(two_photos / "c.json", text))
    assert [item.captions for item in source.items] == [(), ("a cat",)]
    why = "annotations of 1 image that it does not list, such as '9'"
    assert [(skipped.id, skipped.reason) for skipped in source.skipped] == [("c.json", why)]
    row = {"image": None, "file_name": "a.jpg", "caption": None, "text": "a dog"}
    assert open_source(write(two_photos / "t.jsonl", lines(row))).items == [Item("a.jpg", ("a dog",))]


def test_split_files_may_have_annotations_of_other_kinds(two_photos: Path) -> None:
    for annotations in ([], [{"image_id": 1, "bbox": [0, 0, 9, 9]}]):
        content = lines({"images": KARPATHY, "annotations": annotations})
        assert open_source(write(two_photos / "k.json", content)).items == TWO


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.json", "{", r"t\.json is not JSON: "),
        ("t.json", '{"a.jpg": ["a dog"]}', "it has no list named images, and is no list of photos"),
        ("t.json", '[3, {"image": "a.jpg"}]', "names no photos: each needs a file name and a caption"),
        ("t.jsonl", "", "names no photos: each needs a file name and a caption"),
        (
            "instances_val2017.json",
            lines({"images": COCO["images"], "annotations": [{"image_id": 9, "category_id": 1}] * 3}),
            r"has no captions: COCO's are in captions_\*\.json, not in instances_\*\.json",
        ),
    ],
)
def test_errors(two_photos: Path, name: str, content: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        open_source(write(two_photos / name, content))


def test_further_captions(two_photos: Path) -> None:
    """Of photos that are there already, such as the same ones in another language."""
    german = write(two_photos / "de.jsonl", lines({"image": "b.png", "caption": "eine Katze"}))
    source = FurtherTexts(open_source(write(two_photos / "captions.json", lines(COCO))), [str(german)])
    assert [item.captions for item in source.items] == [TWO[0].captions, ("a cat", "eine Katze")]
