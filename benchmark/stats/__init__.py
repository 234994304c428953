"""Pure functions on numbers: intervals, paired tests, many models at once, repeats, planning.

What needs numpy stands in `paired` alone, which is imported when models are compared.
"""
