"""The same samples of GSM8K and MMLU to the same server by us, by lm-eval and by Inspect: do all read the same answers?

    python perf/parity.py GSM8K_FOLDER MMLU_FOLDER --lm-eval VENV --inspect VENV [--samples 100] [--subject anatomy]

Each VENV is a folder with `bin/python`, in which `lm_eval[api]` or `inspect_ai` and `openai` are installed. The embedded
model is served by llama.cpp as our provider serves it, one request at a time, greedily. We ask first; the others get
the very words we sent and judge by scorers of their own. Every sample on which two differ is printed with what each
read; docs/parity.md explains those that are known.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tiebreak.providers.llama_cpp import EMBEDDED, weights  # noqa: E402 -- the repository is not installed

ANSWER_TEMPLATE = "{question}\n\n{choices}\n\nReply with one line that reads ANSWER: and the letter of the right choice."


@dataclass(frozen=True)
class Judged:
    """What one tool made of one sample."""

    text: str
    answer: str | None
    right: bool


@dataclass(frozen=True, kw_only=True)
class Form:
    """One way of asking, and who else asks it."""

    name: str
    dataset: str
    tokens: int
    stops: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    """Who else is asked, and which of our scorers theirs is compared with."""


Results = dict[str, Judged]

LM_EVAL_FILTERS: Mapping[str, list[dict[str, Any]]] = {
    # As lm-eval's own tasks have them: gsm8k 3.0 and mmlu generative 3.0.
    "gsm8k:flexible": [
        {"function": "regex", "group_select": -1, "regex_pattern": "(-?[$0-9.,]{2,})|(-?[0-9]+)"},
        {"function": "take_first"},
    ],
    "gsm8k:strict": [{"function": "regex", "regex_pattern": "#### (\\-?[0-9\\.\\,]+)"}, {"function": "take_first"}],
    "choice": [
        {"function": "regex", "regex_pattern": "^(.*?)(?=\\n|$)"},
        {"function": "remove_whitespace"},
        {"function": "regex", "regex_pattern": "^(.*?)\\s*$"},
        {"function": "take_first"},
    ],
}

INSPECT_TASK = r"""
import json, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import choice, match
from inspect_ai.solver import generate, multiple_choice

rows = [json.loads(line) for line in open(sys.argv[1])]
options = json.loads(sys.argv[2])
asked = bool(rows[0]["choices"])
question = lambda prompt: prompt.rsplit("\n\nA) ", 1)[0] if asked else prompt
samples = [Sample(id=r["id"], input=question(r["prompt"]), target=r["target"], choices=r["choices"] or None) for r in rows]
# Inspect's own parser and scorer, behind our words.
solver = multiple_choice(template=options["template"]) if asked else generate()
config = GenerateConfig(temperature=0, max_tokens=options["tokens"], stop_seqs=options["stops"] or None, max_connections=1)
task = Task(dataset=MemoryDataset(samples), solver=solver, scorer=choice() if asked else match(numeric=True), config=config)
[log] = eval(task, model="openai-api/parity/" + options["model"], log_dir=options["logs"], display="none")
prompts = {r["id"]: r["prompt"] for r in rows}
for s in log.samples:
    assert s.messages[0].text == prompts[s.id], "another prompt was sent"
    [score] = s.scores.values()
    right = score.value in ("C", 1, 1.0)
    print(json.dumps({"id": s.id, "text": s.output.completion, "answer": score.answer or None, "right": right}))
"""


@contextlib.contextmanager
def served() -> Iterator[dict[str, str]]:
    """The embedded model behind an address and a key, as environment variables."""
    key = secrets.token_hex(16)
    command = [sys.executable, "-m", "tiebreak.providers.llama_cpp_server", str(weights(EMBEDDED)), "--alias", EMBEDDED]
    environment = os.environ | {"TIEBREAK_SERVER_KEY": key}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        word, _, url = process.stdout.readline().strip().partition(" ")
        if word != "listening":
            sys.exit(f"the model's server did not start: {url}")
        yield {"PARITY_BASE_URL": f"{url}/v1", "PARITY_API_KEY": key, "OPENAI_API_KEY": key}
        process.stdin.close()


def ask(form: Form, data: Path, folder: Path, samples: int, server: Mapping[str, str]) -> None:
    """Have a form asked by us."""
    model = f"openai-api/parity/{EMBEDDED}@temperature=0,max_tokens={form.tokens}"
    options = ("--model", model, "--dataset", form.dataset, "--data", str(data), "--limit", str(samples), *form.more)
    command = [sys.executable, "run_benchmarks.py", *options, "--output", str(folder), "--max-connections", "1"]
    command += ["--quiet", "--no-preflight", "--request-timeout", "300"]
    subprocess.run(command, cwd=ROOT, env=os.environ | server, check=True, stdout=subprocess.DEVNULL)


def ours(folder: Path, scorer: str) -> tuple[Results, list[dict[str, Any]]]:
    """What one of our scorers made of the samples, and the rows that tell the others what was asked."""
    query = (
        "SELECT t.sample, s.prompt, s.target, s.choices, t.text, t.answer, t.score, t.scores"
        " FROM trials t JOIN samples s USING (asked)"
    )
    results, rows = {}, []
    with contextlib.closing(sqlite3.connect(next(folder.glob("*.sqlite")))) as connection:
        for sample, prompt, target, choices, text, answer, score, scores in connection.execute(query):
            one = json.loads(scores)[scorer] if scores else {"answer": answer, "value": score}
            shown, read = json.loads(choices) or [], one.get("answer")
            results[sample] = Judged(text or "", read[:1] if shown and read else read, one["value"] == 1)
            gold = ascii_uppercase[shown.index(target)] if shown else target
            rows.append({"id": sample, "prompt": prompt, "target": gold, "choices": shown})
    return results, rows


def lm_eval(form: Form, scorer: str, rows: list[dict[str, Any]], folder: Path, venv: Path, server: Mapping[str, str]) -> Results:
    """What lm-eval makes of them."""
    folder.mkdir(parents=True)
    questions = _written(rows, folder / "rows.jsonl")
    ignored = [",", "\\$", "(?s).*#### ", "\\.$"] if form.dataset == "gsm8k" else []
    task = {
        "task": "parity",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(questions)}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{target}}",
        "num_fewshot": 0,
        "generation_kwargs": {
            "until": list(form.stops) or ["</s>", "\n"],
            "do_sample": False,
            "temperature": 0.0,
            "max_gen_toks": form.tokens,
        },
        "filter_list": [{"name": "read", "filter": LM_EVAL_FILTERS[scorer]}],
        "metric_list": [
            {
                "metric": "exact_match",
                "aggregation": "mean",
                "higher_is_better": True,
                "ignore_case": True,
                "ignore_punctuation": form.dataset != "gsm8k",
                "regexes_to_ignore": ignored,
            }
        ],
    }
    (folder / "parity.yaml").write_text(json.dumps(task), encoding="utf-8")
    address = f"model={EMBEDDED},base_url={server['PARITY_BASE_URL']}/chat/completions,num_concurrent=1,max_retries=1"
    command = [str(venv / "bin" / "lm_eval"), "--model", "local-chat-completions", "--model_args", address, "--tasks", "parity"]
    command += ["--include_path", str(folder), "--apply_chat_template", "--log_samples", "--output_path", str(folder / "out")]
    _run(command, folder, server)
    found = {}
    for line in next((folder / "out").rglob("samples_*.jsonl")).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        [read] = row["filtered_resps"]
        answer = None if read in ("[invalid]", "") else read
        found[row["doc"]["id"]] = Judged(row["resps"][0][0], answer, row["exact_match"] == 1)
    return found


def inspect(form: Form, scorer: str, rows: list[dict[str, Any]], folder: Path, venv: Path, server: Mapping[str, str]) -> Results:
    """What Inspect makes of them."""
    folder.mkdir(parents=True)
    questions = _written(rows, folder / "rows.jsonl")
    script = folder / "task.py"
    script.write_text(INSPECT_TASK, encoding="utf-8")
    options: dict[str, Any] = {"tokens": form.tokens, "stops": list(form.stops), "model": EMBEDDED, "template": ANSWER_TEMPLATE}
    options["logs"] = str(folder / "logs")
    said = _run([str(venv / "bin" / "python"), str(script), str(questions), json.dumps(options)], folder, server)
    found = [json.loads(line) for line in said.splitlines() if line.startswith('{"id"')]
    return {row["id"]: Judged(row["text"], row["answer"], row["right"]) for row in found}


def _written(rows: list[dict[str, Any]], path: Path) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _run(command: list[str], folder: Path, server: Mapping[str, str]) -> str:
    home = {"HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=folder, env=os.environ | server | home, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command[:2])} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def compare(name: str, first: Results, second: Results, other: str) -> None:
    """Say where two tools agree, and print every sample on which they do not."""
    assert first.keys() == second.keys(), f"{name}: {other} has {len(second)} samples, we have {len(first)}"
    worded = [key for key in first if first[key].text.strip() != second[key].text.strip()]
    scored = [key for key in first if first[key].right != second[key].right]
    read = [key for key in first if _plain(first[key].answer) != _plain(second[key].answer)]
    shares = [f"{sum(judged.right for judged in results.values()) / len(results):.3f}" for results in (first, second)]
    print(f"{name:24} n={len(first)}  score {shares[0]} ours, {shares[1]} {other}  ", end="")
    print(f"other texts {len(worded)}, other answers {len(read)}, other scores {len(scored)}")
    for key in sorted({*scored, *read}):
        a, b = first[key], second[key]
        print(f"  {key}: ours {a.answer!r} ({a.right}), {other} {b.answer!r} ({b.right}) of {b.text[-100:]!r}")


def _plain(answer: str | None) -> str:
    """An answer without what means nothing: case, commas, signs of money, a full stop."""
    return (answer or "").strip().rstrip(".").replace(",", "").replace("$", "").upper()


def main() -> None:
    """Ask, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gsm8k", type=Path)
    parser.add_argument("mmlu", type=Path)
    parser.add_argument("--lm-eval", type=Path, required=True)
    parser.add_argument("--inspect", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--subject", default="anatomy")
    parser.add_argument("--tokens", type=int, default=64, help="the longest answer to a question of GSM8K")
    parser.add_argument("--keep", type=Path, help="a new folder for everything the tools write")
    arguments = parser.parse_args()
    stops, mmlu = ("Question:", "</s>", "<|im_end|>"), f"mmlu:{arguments.subject}"
    forms = (
        Form(
            name="gsm8k",
            dataset="gsm8k",
            tokens=arguments.tokens,
            stops=stops,
            more=("--shots", "0"),
            others=(("lm-eval", "gsm8k:flexible"), ("inspect", "numeric")),
        ),
        # The stop leaves the letter of "B) the words", which is all that lm-eval takes.
        Form(name="mmlu", dataset=mmlu, tokens=8, stops=(")",), more=("--stop", ")"), others=(("lm-eval", "choice"),)),
        Form(
            name="mmlu ANSWER:",
            dataset=mmlu,
            tokens=16,
            stops=("\n",),
            more=("--template", ANSWER_TEMPLATE, "--stop", "\\n"),
            others=(("inspect", "choice"),),
        ),
    )
    with contextlib.ExitStack() as stack:
        folder = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for number, form in enumerate(forms):
            data = arguments.gsm8k if form.dataset == "gsm8k" else arguments.mmlu
            own = folder.resolve() / f"{number}-ours"
            with served() as server:
                ask(form, data.resolve(), own, arguments.samples, server)
            for tool, scorer in form.others:
                results, rows = ours(own, scorer)
                asking, venv = (lm_eval, arguments.lm_eval) if tool == "lm-eval" else (inspect, arguments.inspect)
                # A server of its own: what llama.cpp remembers of a prompt changes the last digits of what it computes next.
                with served() as server:
                    theirs = asking(form, scorer, rows, folder.resolve() / f"{number}-{tool}", venv.absolute(), server)
                compare(f"{form.name}, {scorer}", results, theirs, tool)


if __name__ == "__main__":
    main()
