"""The token ids that have the same meaning in every vocabulary of ours."""

EOS_ID = 0  # the end of a sentence
UNK_ID = 1  # an unknown piece
