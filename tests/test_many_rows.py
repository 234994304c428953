"""Memory does not grow with the number of samples."""

import re
import subprocess
import sys

from support.command import ROOT, clean_environment


def test_fifty_thousand_rows_are_asked_in_flat_memory(tmp_path):
    """From loading to the report, by the script that does it for a million; its times are not judged here."""
    command = [sys.executable, str(ROOT / "perf" / "million.py"), "50000"]
    environment = clean_environment(PYTHONPATH=str(ROOT))
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    megabytes = [float(found) for found in re.findall(r"([\d.]+) MB at most", done.stdout)]
    assert len(megabytes) == 4, done.stderr
    assert max(megabytes) < 105
    # Asking 50,000 needs hardly more than knowing where they are.
    assert megabytes[2] - megabytes[0] < 40
