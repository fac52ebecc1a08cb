"""Index a folder of photos, and find some of them by a sentence."""

import sys

import lexlip

done = lexlip.index(sys.argv[1], ".lexlip")
print(f"{done.photos} photos, {len(done.skipped)} skipped")
with lexlip.PhotoSearch(".lexlip") as photos:
    for hit in photos.text("a cup of coffee on a table", k=3).hits:
        print(f"{hit.rank}  {hit.score:.3f}  {hit.path}  {hit.words}")
