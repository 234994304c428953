"""Measures a run with many large images: its memory, its store and its page.

    python perf/media.py [--images 200] [--megabytes 1]

Half of the rows show an image that another row shows too. A fake server takes everything and answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.media import png  # noqa: E402
from support.server import FakeServer  # noqa: E402


def write_images(folder: Path, images: int, megabytes: float) -> Path:
    """A dataset with each image in two rows."""
    rows = []
    for number in range(images):
        name = f"{number}.png"
        (folder / name).write_bytes(png(colour=number % 256) + os.urandom(int(megabytes * (1 << 20))))
        rows += [{"id": f"{number}-{time}", "input": f"What is shown? {time}", "target": "x", "image": name} for time in (1, 2)]
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def measure(dataset: Path, results: Path, server: FakeServer) -> int:
    """The most memory the command held, in kilobytes."""
    program = (
        "import resource, sys; from tiebreak.cli import main\n"
        "try: main()\n"
        "finally: print('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    flags = ["run", "--model", "openai/gpt-4o", "--dataset", str(dataset), "--output", str(results), "--quiet", "--no-preflight"]
    environment = os.environ | server.environment() | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program, *flags, "--yes"], env=environment, capture_output=True, text=True, check=False
    )
    found = re.search(r"PEAK (\d+)", done.stderr)
    if found is None:
        raise SystemExit(done.stderr)
    return int(found[1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--megabytes", type=float, default=1.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, FakeServer(lambda prompt: "x") as server:
        place = Path(folder)
        dataset = write_images(place, asked.images, asked.megabytes)
        peak = measure(dataset, place / "results", server)
        stored = sum(path.stat().st_size for path in (place / "results").rglob("*.sqlite"))
        page = sum(path.stat().st_size for path in (place / "results").rglob("*.html"))
        print(f"{asked.images} images of {asked.megabytes:g} MB, each in two rows, {len(server.ledger)} requests")
        print(f"peak memory {peak / 1024:.0f} MB, store {stored / (1 << 20):.0f} MB, page {page / (1 << 20):.2f} MB")


if __name__ == "__main__":
    main()
