"""How a model is put to work. One file each; the table in `tiebreak.registry` names them."""
