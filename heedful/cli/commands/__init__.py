"""The commands, one file for what belongs together. Nothing imports them but `cli/main.py`."""
