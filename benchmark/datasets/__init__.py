"""Where samples come from. The table in `benchmark.registry` names the registered ones; files load by path."""
