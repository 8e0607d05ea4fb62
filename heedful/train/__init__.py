"""§5: loss, batches, one step, the loop, checkpoints. It does not know how anything is displayed."""
