"""A library of photos that lives in an index of OpenSearch or Solr: it is updated and searched there."""
