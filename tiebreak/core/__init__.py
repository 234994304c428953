"""The words everything else is said in: samples, messages, models, trials, runs, events."""
