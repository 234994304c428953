"""Who serves models. One file each, over one HTTP layer; the table in `tiebreak.registry` names them."""
