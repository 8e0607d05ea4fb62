"""The systems that the paper argues against, one file each. They know no text, no training and no GPUs."""
