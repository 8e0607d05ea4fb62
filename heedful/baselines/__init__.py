"""The systems that the paper argues against, a family each. They know no text, no training and no GPUs."""
