"""One file for each question of the paper: rows, budget, prediction; they know no training."""
