"""Twins for CPUs: the loss of some rows at a time, and matrices packed once for decoding."""
