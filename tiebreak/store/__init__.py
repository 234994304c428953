"""Where a run's results live: one SQLite file per run, one writer, any number of readers."""
