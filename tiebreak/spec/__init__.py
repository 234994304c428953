"""From what somebody asked for, on the command line, in a run file or in Python, to the run it describes."""
