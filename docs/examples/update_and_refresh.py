"""Update an index while it is searched: new photos are found after a refresh."""

import lexlip

with lexlip.PhotoSearch(".lexlip") as photos:
    done = lexlip.update(".lexlip")
    print(f"{done.added} added, {done.changed} changed, {done.deleted} deleted, {done.unchanged} unchanged")
    if photos.refresh():
        print("best now:", photos.text("a rocket taking off").hits[0].id)
