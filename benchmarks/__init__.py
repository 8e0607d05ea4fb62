"""Measurements: peers beside ours in one run, as ratios. Results with date, commit and machine lie in results/."""
