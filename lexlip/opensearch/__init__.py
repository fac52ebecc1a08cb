"""A library of photos that lives in an index of OpenSearch or Solr: indexed into it, updated and searched there."""
