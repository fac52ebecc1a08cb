"""The table and the picture of a measured honest end (see honest_end.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lexlip.search.stages.honest_end import Calibration, end_of

from .cut_off_fit import GATE, LOSS, Floats, Observation, by_group, highest, kept, matrix, mean_kept
from .nonsense import KINDS

End = Callable[[Observation, float], float]
"""The cut-off of a query for a threshold; it grows with the threshold."""

CONSTANTS: dict[str, End] = {
    "constant score": lambda seen, t: t,
    "constant share of the query's length": lambda seen, t: t / max(seen.length, 1e-9),
    "constant share of the best score": lambda seen, t: t * seen.signs.best,
    "standard deviations above the collection": lambda seen, t: seen.mean + t * seen.deviation,
}


COLOURS = dict(zip((*CONSTANTS, "fitted"), "#1d3557 #e9a23b #2a9d8f #6c757d #c1121f".split(), strict=True))


def silent(observations: Iterable[Observation], ends: Iterable[float]) -> float:
    """Return the share of queries above whose end there is no photo."""
    pairs = list(zip(observations, ends, strict=True))
    return float(np.mean([seen.signs.best < end for seen, end in pairs])) if pairs else float("nan")


def shown(observations: Iterable[Observation], ends: Iterable[float]) -> Floats:
    """Return the number of hits of each query that are not below its end."""
    pairs = zip(observations, ends, strict=True)
    return np.array([np.count_nonzero(seen.scores >= end) for seen, end in pairs])


def methods(calibration: Calibration) -> dict[str, End]:
    """Return all cut-offs that are compared; the fitted one's threshold is added to its gate."""
    gate = calibration.gate

    def fitted(seen: Observation, t: float) -> float:
        return end_of(seen.signs, replace(calibration, gate={**gate, "constant": gate["constant"] - t}))

    return {**CONSTANTS, "fitted": fitted}


def threshold_of(observations: Sequence[Observation], end: End) -> float:
    """Return the threshold with which LOSS of the right photos is lost, the mean of all groups."""
    groups = list(by_group(seen for seen in observations if seen.kind == "caption").values())
    return highest(lambda t: mean_kept(groups, lambda seen: end(seen, t)) >= 1 - LOSS, 20.0)


def table(
    fitted_on: Sequence[Observation], tested_on: Sequence[Observation], calibration: Calibration
) -> str:
    """Return the figures as Markdown."""
    parts = []
    for title, observations in (("fitted on", fitted_on), ("held out", tested_on)):
        if observations:
            parts += [f"{title}\n", *_of_groups(observations, calibration)]
    if tested_on:
        parts += ["methods, held out\n", *_of_methods(fitted_on, tested_on, calibration)]
    return "\n".join(parts)


def _of_groups(observations: Sequence[Observation], calibration: Calibration) -> list[str]:
    def ends(of: Iterable[Observation]) -> list[float]:
        return [end_of(seen.signs, calibration) for seen in of]

    def quiet(of: Sequence[Observation]) -> str:
        return _percent(silent(of, ends(of)))

    def number(of: Sequence[Observation]) -> str:
        return f"{np.median(shown(of, ends(of))):.0f}"

    head = ["photos of", "photos", "first 50 hold", "kept", "kept, keywords", "silent", *KINDS]
    head += ["shown", "shown, keywords", "removed: silent", "removed: shown"]
    lines = [_row(head), _row("---" for _ in head)]
    for (source, size), group in by_group(observations).items():
        kinds = ("caption", "keywords", "removed", *KINDS)
        of = {kind: [seen for seen in group if seen.kind == kind] for kind in kinds}
        held = np.mean([len(seen.right) > 0 for seen in of["caption"]])
        cells = [Path(source).name, f"{size:,}", _percent(held)]
        cells += [_percent(kept(of[kind], ends(of[kind]))) for kind in ("caption", "keywords")]
        cells += [quiet([seen for seen in group if seen.nonsense]), *(quiet(of[kind]) for kind in KINDS)]
        cells += [number(of["caption"]), number(of["keywords"]), quiet(of["removed"]), number(of["removed"])]
        lines.append(_row(cells))
    return [*lines, ""]


def _of_methods(
    fitted_on: Sequence[Observation], tested_on: Sequence[Observation], calibration: Calibration
) -> list[str]:
    sizes = sorted({seen.group[1] for seen in tested_on})
    head = ["end", "threshold", *(f"{size:,} photos" for size in sizes)]
    lines = [_row(head), _row("---" for _ in head)]
    for name, end in methods(calibration).items():
        threshold = 0.0 if name == "fitted" else threshold_of(fitted_on, end)
        cells = []
        for size in sizes:
            captions, absurd = _split(tested_on, size)
            ends = [end(seen, threshold) for seen in captions]
            silence = silent(absurd, [end(seen, threshold) for seen in absurd])
            number = np.median(shown(captions, ends))
            cells.append(f"{_percent(kept(captions, ends))} / {_percent(silence)} / {number:.0f}")
        lines.append(_row([name, "measured" if name == "fitted" else f"{threshold:.3f}", *cells]))
    return [*lines, ""]


def _split(observations: Sequence[Observation], size: int) -> tuple[list[Observation], list[Observation]]:
    """Return the captions and the nonsense asked of collections of a size."""
    group = [seen for seen in observations if seen.group[1] == size]
    return [seen for seen in group if seen.kind == "caption"], [seen for seen in group if seen.nonsense]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _percent(share: float | np.floating) -> str:
    return f"{100 * share:.1f}"


def draw(observations: Sequence[Observation], calibration: Calibration, file: Path) -> None:
    """Draw silent nonsense, and hits shown, against right photos kept, for small and large collections."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    sizes = sorted({seen.group[1] for seen in observations})
    sizes = [size for size in sizes if size in {100, 1_000, sizes[-1]}]
    figure = Figure(figsize=(4 * len(sizes), 7), layout="constrained")
    panels = figure.subplots(2, len(sizes), squeeze=False)
    for column, size in enumerate(sizes):
        captions, absurd = _split(observations, size)
        for name, end in methods(calibration).items():
            points = []
            for threshold in _thresholds(name, captions, absurd, calibration):
                ends = [end(seen, threshold) for seen in captions]
                quiet = silent(absurd, [end(seen, threshold) for seen in absurd])
                points.append((100 * kept(captions, ends), 100 * quiet, np.mean(shown(captions, ends))))
            keeps, quiets, numbers = zip(*points, strict=True)
            width = 2.5 if name == "fitted" else 1.2
            for panel, values in zip(panels[:, column], (quiets, numbers), strict=True):
                panel.plot(keeps, values, label=name, lw=width, color=COLOURS[name])
        panels[0][column].axvspan(95, 100, 0.9, color="#2a9d8f", alpha=0.2, lw=0)
        panels[0][column].set(title=f"{size:,} photos", ylabel="silent nonsense queries, %", ylim=(0, 100))
        panels[1][column].set(ylabel="hits shown for a caption, mean", yscale="log", ylim=(1, 1000))
        for row in panels:
            row[column].set(xlabel="right photos kept, %", xlim=(60, 100))
            row[column].grid(True, alpha=0.3)
    panels[0][0].legend(fontsize=8, loc="lower left")
    with rc_context({"svg.hashsalt": "lexlip", "svg.fonttype": "none"}):
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def _thresholds(
    name: str, captions: Sequence[Observation], absurd: Sequence[Observation], calibration: Calibration
) -> Floats:
    """Return thresholds from none lost to nearly all."""
    if name == "fitted":
        weights = [calibration.gate[sign] for sign in ("constant", *GATE)]
        logits = matrix([*captions, *absurd], GATE) @ np.array(weights)
        return np.quantile(logits, np.linspace(0, 1, 41))
    if name == "constant share of the best score":
        return np.linspace(0, 1, 41)
    return np.linspace(0, 12 if name.startswith("standard") else 1.2, 41)
