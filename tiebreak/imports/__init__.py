"""Logs of other tools as runs of ours: a module for each tool, `files` to tell them apart, `runs` to make runs of them."""
