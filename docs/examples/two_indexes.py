"""Fuse two indexes of the same photos: what a model sees in them, and what people wrote beside them."""

import sys

import lexlip

lexlip.index(sys.argv[1], ".captions", model="bm25")  # photos with captions, such as NAME.txt beside NAME.jpg
with lexlip.PhotoSearch(".lexlip", also=".captions", hybrid="rrf") as photos:
    for hit in photos.text("my old cat Chelsea", k=3).hits:
        print(hit.rank, hit.id)
