"""Who serves models. One file each, over one HTTP layer; the table in `benchmark.registry` names them."""
