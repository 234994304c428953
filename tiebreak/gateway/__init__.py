"""The local endpoint that coding agents talk to: their trial's model, in every dialect, and nothing else."""
