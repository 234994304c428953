"""Where samples come from. The table in `tiebreak.registry` names the registered ones; files load by path."""
