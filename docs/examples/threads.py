"""Search from several threads with one open index."""

from concurrent.futures import ThreadPoolExecutor

from lexlip import PhotoSearch

SENTENCES = ["a cat looking at the camera", "a rocket taking off", "a cup of coffee on a table"]

with PhotoSearch(".lexlip") as photos, ThreadPoolExecutor(4) as pool:
    for answer in pool.map(photos.text, SENTENCES):
        print(answer.query, "->", answer.hits[0].id)
