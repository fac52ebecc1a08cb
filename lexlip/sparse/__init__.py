"""What is stored of sparse vectors, and asked for: the heaviest words, in whole numbers."""

SENTENCE_TOPK = 24  # words of a query unless the user says otherwise; loses 0.4 points of mean recall
