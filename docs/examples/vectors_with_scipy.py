"""Encode photos and sentences to sparse vectors, and compare them with scipy."""

import sys

from PIL import Image

from lexlip import LexLIP

SENTENCES = ["a cat looking at the camera", "a rocket taking off", "a cup of coffee on a table"]

model = LexLIP.from_pretrained("mini")
pictures = [Image.open(path) for path in sys.argv[1:]]
images = model.encode_image(pictures)  # scipy CSR [photos, V]
texts = model.encode_text(SENTENCES)  # scipy CSR [sentences, V]
scores = (images @ texts.T).toarray()
for path, row in zip(sys.argv[1:], scores, strict=True):
    print(path, SENTENCES[row.argmax()])

heaviest = images[0].toarray()[0].argsort()[::-1][:5]
print("words of the first:", [model.vocabulary.words[column] for column in heaviest])
