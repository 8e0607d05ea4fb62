"""What you type and see: one file per command, progress, the demo."""
