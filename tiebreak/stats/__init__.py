"""Pure functions on numbers: distributions, intervals, paired tests, factors, the best of many, repeats, planning.

`paired`, `factors` and `holdout` need numpy, and are imported when contestants are compared.
"""
