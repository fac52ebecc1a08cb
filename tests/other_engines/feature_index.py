"""An index of Lucene's FeatureField, which OpenSearch and Elasticsearch are made of, in this process."""

from typing import Any

from anserini_bridge.jvm import java_class, start_jvm

DOCUMENT = "org.apache.lucene.document."
SEARCH = "org.apache.lucene.search."


class FeatureIndex:
    """Answers the requests that are exported for the two servers, as these translate them.

    Args:
        documents: with "words", {number: weight}.
    """

    def __init__(self, documents: list[dict[str, Any]]) -> None:
        start_jvm()
        self.feature = java_class(f"{DOCUMENT}FeatureField")
        document, store = java_class(f"{DOCUMENT}Document"), java_class(f"{DOCUMENT}StoredField")
        directory = java_class("org.apache.lucene.store.ByteBuffersDirectory")()
        configuration = java_class("org.apache.lucene.index.IndexWriterConfig")()
        writer = java_class("org.apache.lucene.index.IndexWriter")(directory, configuration)
        self.documents = documents
        for position, one in enumerate(documents):
            made = document()
            made.add(store("position", position))
            for number, weight in one["words"].items():
                made.add(self.feature("words", str(number), float(weight)))
            writer.addDocument(made)
        writer.close()
        reader = java_class("org.apache.lucene.index.DirectoryReader").open(directory)
        self.searcher = java_class(f"{SEARCH}IndexSearcher")(reader.getContext())
        self.stored = self.searcher.storedFields()

    def search(self, body: dict[str, Any]) -> list[tuple[dict[str, Any], float]]:
        """The hits of a request's body with their scores."""
        top = self.searcher.search(self._query(body["query"]), body["size"])
        return [
            (self.documents[int(self.stored.document(hit.doc).get("position"))], hit.score)
            for hit in top.scoreDocs
        ]

    def _query(self, query: dict[str, Any]) -> Any:
        ((kind, inside),) = query.items()
        if kind == "bool":
            return self._any([self._query(one) for one in inside["should"]])
        if kind == "rank_feature":
            assert inside["linear"] == {}
            field, _, number = inside["field"].partition(".")
            return self._boosted(self.feature.newLinearQuery(field, number, 1.0), inside["boost"])
        if kind == "neural_sparse":
            ((field, asked),) = inside.items()
            tokens = [self.feature.newLinearQuery(field, n, w) for n, w in asked["query_tokens"].items()]
            return self._boosted(self._any(tokens), asked["boost"])
        assert kind == "sparse_vector"
        assert inside["prune"] is False
        tokens = [
            self._boosted(self.feature.newLinearQuery(inside["field"], number, 1.0), weight)
            for number, weight in inside["query_vector"].items()
        ]
        return self._any(tokens)

    def _any(self, queries: list[Any]) -> Any:
        builder = java_class(f"{SEARCH}BooleanQuery$Builder")()
        should = java_class(f"{SEARCH}BooleanClause$Occur").SHOULD
        for query in queries:
            builder.add(query, should)
        return builder.build()

    def _boosted(self, query: Any, boost: float) -> Any:
        return java_class(f"{SEARCH}BoostQuery")(query, float(boost))
