"""What you type and see: one file a command, progress, the demo."""
