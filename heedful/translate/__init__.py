"""§6.1: a model with its tokenizer, search, text in and text out, alignments. It knows nothing of training."""
