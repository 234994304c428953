"""Turns a spec into trials and trials into events. Knows nothing of where results are kept."""
