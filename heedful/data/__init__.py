"""§5.1: text files become token ids on disk. It knows neither torch nor models."""
