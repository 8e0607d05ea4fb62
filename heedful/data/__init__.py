"""§5.1: from text files to numbered sentences on disk. It knows neither torch nor models."""
