"""The tables of Retrieve Fast, Rerank Smart (Geigle et al., TACL 2022)."""

from __future__ import annotations

from lexlip.bench.tables import retrieve_figures as figures
from lexlip.bench.tables.columns import (
    COLLECTION,
    EVALUATION,
    FOLDS,
    LANGUAGES,
    MEAN,
    PHOTOS,
    RECALLS,
    TRAINED_ON,
    average_column,
    seconds_column,
)
from lexlip.bench.tables.of_stages import stage_row
from lexlip.bench.tables.table import Table

PAPER = "arXiv 2103.11920"
TITLE = "of Retrieve Fast, Rerank Smart"

TABLES = (
    Table(
        name="retrieve-1",
        title=f"Table 1 {TITLE}: recalls of first stages, of the cross-encoder, and of both.",
        columns=(*RECALLS, MEAN),
        to_dict=stage_row,
        paper=f"Table 1 ({PAPER})",
        quoted=figures.TABLE_1,
        published="With its code (github.com/UKPLab/MMT-Retrieval), Joint+Coop from OSCAR: T2I Flickr30k"
        " 76.4 / 93.6 / 96.2, COCO with 5,000 photos 54.7 / 81.3 / 88.9.",
        pairs=True,
        queries_only=True,
        reranks="must",
    ),
    Table(
        name="retrieve-2",
        title=f"Table 2 {TITLE}: mean recalls with captions in several languages.",
        columns=(*LANGUAGES, average_column()),
        to_dict=stage_row,
        paper=f"Table 2 ({PAPER})",
        quoted=figures.TABLE_2,
        several="languages",
    ),
    Table(
        name="retrieve-3",
        title=f"Table 3 {TITLE}: milliseconds per query in pools of several sizes.",
        columns=(
            PHOTOS,
            seconds_column("ms a query", "mean", 1000),
            *(seconds_column(stage, stage, 1000) for stage in ("encode", "search", "rerank")),
        ),
        to_dict=stage_row,
        paper=f"Table 3 ({PAPER})",
        quoted=figures.TABLE_3,
        recall=False,
        response=True,
        pairs=True,
        reranks="must",
        sizes=(50_000, 1_000_000),
    ),
    Table(
        name="retrieve-4",
        title=f"Table 4 {TITLE}: seconds of a whole evaluation, by the number of photos.",
        measure="evaluations",
        columns=(PHOTOS, *EVALUATION),
        to_dict=stage_row,
        paper=f"Table 4 ({PAPER})",
        quoted=figures.TABLE_4,
        recall=False,
        sizes=(1_000, 5_000, 100_000),
    ),
    Table(
        name="retrieve-5",
        title=f"Table 5 {TITLE}: recalls in a larger pool (--pool).",
        columns=(*RECALLS, MEAN),
        to_dict=stage_row,
        paper=f"Table 5 ({PAPER})",
        quoted=figures.TABLE_5,
        published="Which of its two blocks is of which collection, the text that they were read from does not"
        " say.",
        pool="must",
    ),
    Table(
        name="retrieve-6",
        title=f"Table 6 {TITLE}: recalls on photos of several collections, trained on or not.",
        columns=(COLLECTION, TRAINED_ON, PHOTOS, *RECALLS, MEAN),
        to_dict=stage_row,
        paper=f"Table 6 ({PAPER})",
        quoted=figures.TABLE_6,
        published="All but the lines in-domain are zero-shot: trained on another collection than they are"
        " measured on. Here it is zero-shot where trained on does not name the collection.",
        several="collections",
    ),
    Table(
        name="retrieve-7",
        title=f"Table 7 {TITLE}: mean recalls by language, of models trained on English captions alone.",
        columns=(*LANGUAGES, TRAINED_ON, average_column(english=False)),
        to_dict=stage_row,
        paper=f"Table 7 ({PAPER})",
        quoted=figures.TABLE_7,
        published="Its average, as here, leaves English out.",
        several="languages",
    ),
    Table(
        name="retrieve-8",
        title=f"Table 8 {TITLE}: recalls by the number of candidates.",
        columns=(FOLDS, *RECALLS, MEAN),
        to_dict=stage_row,
        paper=f"Table 8 ({PAPER})",
        quoted=figures.TABLE_8,
        reranks="must",
        ks=(10, 20, 50),
        folds=(1,),
    ),
    Table(
        name="retrieve-9",
        title=f"Table 9 {TITLE}: recalls by how the two scores are combined.",
        columns=(*RECALLS, MEAN),
        to_dict=stage_row,
        paper=f"Table 9 ({PAPER})",
        quoted=figures.TABLE_9,
        published="λ is the first stage's weight in a sum, as --rerank-weight is here.",
        reranks="must",
        fusions=("none", "add", "norm_add"),
    ),
    Table(
        name="retrieve-figure-3",
        title=f"Figure 3 {TITLE}: recalls of runs by the number of photos that they are trained on.",
        columns=(*RECALLS, MEAN),
        to_dict=stage_row,
        paper=f"Figure 3 ({PAPER}), with 1,000, 10,000 and 50,000 photos",
        ablations="training photos",
    ),
    Table(
        name="retrieve-figure-4",
        title=f"Figure 4 {TITLE}: recalls of models by their number of Transformer layers.",
        columns=(*RECALLS, MEAN),
        to_dict=stage_row,
        paper=f"Figure 4 ({PAPER}), where every second layer is left out",
        published="Here a model has the layers that it was trained with"
        " (model.text.options.num_hidden_layers).",
        ablations="layers",
    ),
)
