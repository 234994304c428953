"""Pure functions on numbers: intervals and paired tests."""
