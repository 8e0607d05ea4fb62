"""A user's own recipes and variants, trained side by side; it knows no experiment."""
