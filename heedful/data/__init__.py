"""§5.1: text files become numbered sentences on disk. It knows neither torch nor models."""
