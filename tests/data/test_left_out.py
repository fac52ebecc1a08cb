import pytest

from lexlip.data.left_out import why_left_out


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a.jpg", ""),
        ("2019/07/a.jpg", ""),
        (".a.jpg", "hidden"),
        ("._a.jpg", "hidden"),
        (".Trash-1000/", "hidden"),
        ("a/.thumbnails/b.jpg", "hidden"),
        ("@eaDir/", "system"),
        ("a/@eadir/b.jpg/SYNOPHOTO_THUMB_M.jpg", "system"),
        ("#recycle/", "system"),
        ("$RECYCLE.BIN/", "system"),
        ("$Recycle.Bin/S-1-5/", "system"),
        ("System Volume Information/", "system"),
        ("a/lost+found/", "system"),
        ("@Recycle/", "system"),
        ("Lightroom Previews.lrdata/", "system"),
        ("My.photoslibrary/", ""),
        ("My.photoslibrary/originals/a.heic", ""),
        ("My.photoslibrary/resources/derivatives/a.jpg", "system"),
        ("resources/a.jpg", ""),
        ("#recycle", ""),  # a file
        ("x@eaDir/a.jpg", ""),
        ("recycled bottles/a.jpg", ""),
    ],
)
def test_what_is_left_out(path: str, why: str) -> None:
    assert why_left_out(path) == why
    assert why_left_out(path, lambda _: True) == ""
    assert why_left_out(path, lambda _: False) == why
