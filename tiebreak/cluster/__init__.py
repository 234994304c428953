"""One run on many machines: leases, gates and commits are plain code, and one module knows Ray."""
