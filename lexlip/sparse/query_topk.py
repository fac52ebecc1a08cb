"""How many words a query keeps unless the user says otherwise; None keeps all."""

SENTENCE_TOPK = 24  # loses 0.4 points of mean recall (docs/latency.md)
