"""One start of training: `plan` decides what it does, `start` carries the plan out. It knows no display."""
