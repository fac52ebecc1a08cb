"""Run by a Python with qdrant-edge-py: loads an export into Qdrant's engine and asks it, queries on stdin."""

import json
import sys
import tempfile
from pathlib import Path

import qdrant_edge as q


def main(folder: str) -> None:
    ((name, _),) = json.loads(Path(folder, "collection.json").read_text())["sparse_vectors"].items()
    with tempfile.TemporaryDirectory() as place:
        config = q.EdgeConfig(vectors={}, sparse_vectors={name: q.EdgeSparseVectorParams()})
        shard = q.EdgeShard.create(place, config)
        for file in sorted(Path(folder).glob("documents-*")):
            points = [
                q.Point(
                    point["id"],
                    {key: q.SparseVector(**vector) for key, vector in point["vector"].items()},
                    point["payload"],
                )
                for point in json.loads(file.read_text())["points"]
            ]
            shard.update(q.UpdateOperation.upsert_points(points))
        shard.optimize()  # builds the inverted index
        found = []
        for body in json.load(sys.stdin):
            vector = q.SparseVector(**body["query"])
            request = q.QueryRequest(
                limit=body["limit"],
                query=q.Query.Nearest(vector, using=body["using"]),
                with_payload=body["with_payload"],
            )
            found.append([[point.payload["id"], point.score] for point in shard.query(request)])
        print(json.dumps(found))
        shard.close()


main(sys.argv[1])
