"""Scorers: judge what a model brought back. One file each; the table in `tiebreak.registry` names them."""
