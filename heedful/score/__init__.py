"""§6: BLEU and its relatives, significance, a model's card. It does not know how a model is trained."""
