"""The embedded model's own process: loads the weights, says where it listens, leaves when its parent does.

Run as `python -m tiebreak.providers.llama_cpp_server FILE`. A separate process, because llama.cpp must
never be forked after loading, and because a crash in it must not be ours.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading


def main() -> None:
    """Serve until standard input closes: that happens even when the parent was killed."""
    options = _parser().parse_args()
    watcher = threading.Thread(target=_leave_with_parent, daemon=True)
    watcher.start()
    try:
        server = _serve(options)
    except (RuntimeError, ValueError, OSError) as error:
        _say(f"failed {error}")
        sys.exit(1)
    _say(f"listening {server.listening_address}")
    watcher.join()


def _leave_with_parent() -> None:
    """Watched from the first moment: loading large weights takes long, and nobody may be left to use them."""
    sys.stdin.buffer.read()
    # llama.cpp's threads outlive an ordinary exit for seconds; there is nothing here to clean up.
    os._exit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--alias", default="model")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--context", type=int, default=4096)
    # As many threads as cores collapses to a tenth of the speed as soon as anything else runs.
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    return parser


def _serve(options: argparse.Namespace):  # type: ignore[no-untyped-def]  # the runtime is optional and untyped
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = options.file
    params.model_alias = {options.alias}
    params.n_parallel = options.slots
    params.n_ctx = options.context * options.slots
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.verbosity = -1
    params.ctx_shift = False
    params.api_keys = [os.environ.pop("TIEBREAK_SERVER_KEY")]
    return xllamacpp.Server(params)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
