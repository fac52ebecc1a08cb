"""Run by a Python with milvus-lite 2.5: loads an export into Milvus itself, asks it the queries on stdin."""

import json
import sys
import tempfile
from pathlib import Path

from pymilvus import DataType, MilvusClient

TYPES = {"VarChar": DataType.VARCHAR, "SparseFloatVector": DataType.SPARSE_FLOAT_VECTOR}


def numbered(vector: dict[str, float]) -> dict[int, float]:
    return {int(number): weight for number, weight in vector.items()}


def main(folder: str) -> None:
    made = json.loads(Path(folder, "collection.json").read_text())
    with tempfile.TemporaryDirectory() as place:
        client = MilvusClient(f"{place}/milvus.db")
        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        for field in made["schema"]["fields"]:
            more = {name: int(value) for name, value in field.get("elementTypeParams", {}).items()}
            primary = field.get("isPrimary", False)
            schema.add_field(field["fieldName"], TYPES[field["dataType"]], is_primary=primary, **more)
        indexes = client.prepare_index_params()
        for index in made["indexParams"]:
            kind = index["params"].pop("index_type")
            indexes.add_index(
                index["fieldName"], index_type=kind, metric_type=index["metricType"], params=index["params"]
            )
        name = made["collectionName"]
        client.create_collection(name, schema=schema, index_params=indexes)
        for file in sorted(Path(folder).glob("documents-*")):
            rows = json.loads(file.read_text())["data"]
            client.insert(name, [{**row, "words": numbered(row["words"])} for row in rows])
        client.flush(name)
        client.load_collection(name)
        found = []
        for body in json.load(sys.stdin):
            asked = body["searchParams"]
            (hits,) = client.search(
                name,
                data=[numbered(vector) for vector in body["data"]],
                anns_field=body["annsField"],
                limit=body["limit"],
                output_fields=body["outputFields"],
                search_params={"metric_type": asked["metricType"], "params": asked["params"]},
            )
            found.append([[hit["entity"]["id"], hit["distance"]] for hit in hits])
        print(json.dumps(found))
        client.close()


main(sys.argv[1])
