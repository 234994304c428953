"""How a model is put to work. One file each; the table in `benchmark.registry` names them."""
