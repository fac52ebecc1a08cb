"""Reads the text in photos: signs, menus, slides, screenshots, scans.

The networks are PP-OCR's, which find lines and read them, through RapidOCR. docs/notes/2026-11-28-text.md has
the figures.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
from PIL import Image

from lexlip.errors import needing_extras
from lexlip.machine.resources import cores
from lexlip.retrieval.text_lines import WHOLE, TextLine
from lexlip.words.plain_text import words_in

READ_SIDE = 1600  # pixels along the longer side of the photo from which lines are read
_FOUND_SIDE = 960  # … and in which they are found
_TRIED_SIDE = 384  # … and in which it is looked whether there are any
_TRIED, _FOUND = 0.2, 0.5  # how sure the network must be of a place then
_SURE, _SURE_OF_ONE = 0.6, 0.9  # how sure of a line, and of one with a single character


def reader_name() -> str:
    """Return what is stored of a reader that failed: another version may not."""
    return f"rapidocr {version('rapidocr')}"


class TextReader:
    """Reads the text in photos with all cores; one thread may use it at a time.

    MissingPackage: RapidOCR is not installed.
    """

    @needing_extras()
    def __init__(self) -> None:
        from rapidocr import RapidOCR

        self._engine = RapidOCR(
            params={
                "Global.log_level": "critical",
                "Global.use_cls": False,  # text that is upside down
                "Global.max_side_len": READ_SIDE,
                "Global.text_score": _SURE,
                "Det.limit_type": "max",
                "Det.limit_side_len": _FOUND_SIDE,
                "EngineConfig.onnxruntime.intra_op_num_threads": cores(),
            }
        )

    def read(self, photo: Image.Image) -> tuple[TextLine, ...]:
        """Return the lines of text in a photo, in RGB, from top to bottom.

        A small copy shows first whether there is any, as most photos have none.
        """
        small = _within(photo, _TRIED_SIDE)
        if self._ask(small, use_rec=False, box_thresh=_TRIED).boxes is None:
            return ()
        for copy in (_within(photo, READ_SIDE), small):  # in which huge letters are found
            found = self._ask(copy, use_rec=True, box_thresh=_FOUND)
            if found.boxes is not None:
                break
        else:
            return ()
        shares = np.asarray(found.boxes, np.float64) / copy.size
        corners = np.clip(np.rint(shares * WHOLE), 0, WHOLE).astype(int).reshape(len(shares), -1).tolist()
        lines = zip(found.txts, found.scores, corners, strict=True)
        return tuple(TextLine(text, tuple(around)) for text, sure, around in lines if _is_text(text, sure))

    def _ask(self, photo: Image.Image, **how: Any) -> Any:
        return self._engine(np.asarray(photo)[:, :, ::-1].copy(), **how)  # as OpenCV has colours


def _is_text(text: str, sure: float) -> bool:
    """Return whether a line is to be believed; patterns are often taken for one character."""
    letters = sum(map(len, words_in(text)))
    return letters > 1 or (letters == 1 and sure >= _SURE_OF_ONE)


def _within(photo: Image.Image, side: int) -> Image.Image:
    """Return a photo, smaller if its longer side is longer."""
    if max(photo.size) <= side:
        return photo
    scale = side / max(photo.size)
    width, height = (max(1, round(one * scale)) for one in photo.size)
    return photo.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2)
