"""First stages and rerankers on the same photos: recall, response, memory, training, and tables of them."""
