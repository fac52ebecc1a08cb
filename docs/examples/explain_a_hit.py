"""Say why a photo was found: the sum that is its score, a cloud of its words, and where one of them is."""

from PIL import Image

from lexlip import LexLIP, PhotoSearch
from lexlip.data.upright import as_seen
from lexlip.explain.heat_map import overlay
from lexlip.explain.score_table import score_table
from lexlip.explain.word_cloud import cloud
from lexlip.explain.word_places import places

QUERY = "a cup of coffee on a table"

with PhotoSearch(".lexlip") as photos:
    table = score_table(photos, QUERY, photos.text(QUERY).hits[0].id)
for row in table.rows:
    print(f"{row.word:10} {row.query:.3f} * {row.photo:.3f} = {row.product:.6f}")
print(f"{'score':10} {table.score:.6f}")
cloud(table.words, accent=[row.word for row in table.rows]).save("words.svg")

word = table.rows[0].word
picture = as_seen(Image.open(table.path))
heat = overlay(places(LexLIP.from_pretrained("mini"), picture, [word]), word, picture.size)
picture.paste(heat, mask=heat)
picture.save("heat.png")
