"""Twins for CPUs: the loss some rows at a time, matrices packed once."""
