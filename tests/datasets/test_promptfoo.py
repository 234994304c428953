"""promptfoo's own files: the verdicts promptfoo itself gives, and what we do not understand is refused."""

import asyncio
import json
from pathlib import Path

import pytest
from support.command import run

from tiebreak.core.errors import DatasetError
from tiebreak.core.trial import Output
from tiebreak.registry import load_dataset, make_scorer

HERE = Path(__file__).parent / "promptfoo"
VERDICTS = json.loads((HERE / "verdicts.json").read_text())["verdicts"]
"""What promptfoo said of the suite, with its echo provider, which answers with the prompt."""


@pytest.mark.needs("scorers")
def test_verdicts_are_those_of_promptfoo():
    suite = load_dataset(str(HERE / "suite.yaml"))
    assert len(suite) == len(VERDICTS) >= 50
    differing = []
    for position, (passed, share) in enumerate(VERDICTS):
        sample = suite[position]
        echo = Output(text=sample.messages[0].text)
        ours = [asyncio.run(make_scorer(name).score(sample, echo, None)) for name in ("assert", "assert:share")]
        if (bool(ours[0].value), round(ours[1].value, 6)) != (passed, share):
            differing.append((position, ours, passed, share))
    assert differing == []


def written(folder, text, **files):
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    path = folder / "promptfooconfig.yaml"
    path.write_text(text)
    return str(path)


def test_every_prompt_with_every_test_and_every_value(tmp_path):
    path = written(
        tmp_path,
        """
prompts: [file://short.txt, {label: long, raw: "Please say the capital of {{country}}."}]
providers: [openai:gpt-4o-mini]
defaultTest: {assert: [{type: not-contains, value: sorry}]}
tests:
  - {vars: {country: [France, Spain]}, assert: [{type: word-count, value: {max: 9}}]}
  - file://more.csv
""",
        short__txt="Capital of {{country}}?",
        more__csv='country,__expected,__expected2\nItaly,contains: Rome,"icontains-any: rome,roma"\n',
    )
    dataset = load_dataset(path)
    asked = {
        sample.id: (sample.prompt, sample.category, sample.group) for sample in map(dataset.__getitem__, range(len(dataset)))
    }
    assert len(asked) == 6
    assert asked["1.2.long"] == ("Please say the capital of Spain.", "long", "1")
    assert asked["2.short.txt"] == ("Capital of Italy?", "short.txt", "2")
    assert [one["type"] for one in dataset[4].metadata["assert"]] == ["not-contains", "contains", "icontains-any"]


def test_conversation_written_as_json(tmp_path):
    said = json.dumps([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why {{what}}?"}])
    path = written(tmp_path, f"prompts: [{said!r}]\ntests: [{{vars: {{what: me}}, assert: [{{type: is-json}}]}}]\n")
    assert [(message.role, message.text) for message in load_dataset(path)[0].messages] == [
        ("system", "Be brief."),
        ("user", "Why me?"),
    ]


TEST = "tests: [{vars: {a: x}, assert: [{type: contains, value: x}]}]\n"


_LISTS = ", ".join(f"{name}: {list(range(10))}" for name in "abcdef")
MANY = f"prompts: ['{{{{a}}}}']\ntests: [{{vars: {{{_LISTS}}}, assert: [{{type: is-json}}]}}]\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TEST, "names no prompts"),
        ("prompts: ['{{a}}']\nscenarios: []\n" + TEST, "'scenarios' is not understood"),
        ("prompts: ['{{a}}']\ntests: []\n", "is empty"),
        ("prompts: ['{{b}}']\n" + TEST, "test 1: {{b}} names a variable"),
        ("prompts: ['{{a | upper}}']\n" + TEST, "test 1: the template"),
        ("prompts: ['{{a}}']\ntests: [{vars: {a: x}}]\n", "test 1: asserts nothing"),
        (
            "prompts: ['{{a}}']\ntests: [{vars: {a: x}, assert: [{type: javascript, value: '1'}]}]\n",
            "test 1: the assertion 'javascr",
        ),
        (
            "prompts: ['{{a}}']\ntests: [{vars: {a: x}, options: {transform: y}, assert: [{type: is-json}]}]\n",
            "the options 'transform'",
        ),
        ("prompts: [file://../secret.txt]\n" + TEST, "no such file in its folder"),
        ("prompts: ['{{a}}'\n", "not readable as YAML"),
        (
            "prompts: ['{{a}}']\ntests: [{vars: {a: 'file://v.txt'}, assert: [{type: is-json}]}]\n",
            "names the file 'file://v.txt'",
        ),
        ("prompts: ['{{a}}']\ntests: [{vars: {a: x}, threshold: 3, assert: [{type: is-json}]}]\n", "from 0 to 1"),
        (MANY, "its variables make 1,000,000 questions"),
        ("[1, 2]\n", "names 'prompts' and 'tests'"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(tmp_path, text, told):
    (tmp_path.parent / "secret.txt").write_text("secret")
    with pytest.raises(DatasetError) as refused:
        load_dataset(written(tmp_path, text))
    assert told in str(refused.value)


def test_rows_of_ones_own_may_assert_too_and_never_bring_code(tmp_path):
    rows = [
        {"id": "1", "input": "?", "assert": [{"type": "contains", "value": "a"}], "threshold": 0.5},
        {"id": "2", "input": "?", "assert": "icontains: a"},
        {"id": "3", "input": "?", "assert": [{"type": "python", "value": "./evil.py:run"}]},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    done = run("run", "--model", "baseline/random", "--dataset", str(path), cwd=tmp_path)
    assert done.returncode == 1
    assert "data may not run code here" in done.stderr


@pytest.mark.parametrize("scorer", ["assert:./evil.py", "judge:./notes.txt", "json_schema:./notes.txt"])
def test_row_names_no_file_as_part_of_its_scorer(tmp_path, monkeypatch, scorer):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    (tmp_path / "notes.txt").write_text("{}")
    (tmp_path / "rows.jsonl").write_text(json.dumps({"input": "?", "target": "a", "scorer": scorer}))
    with pytest.raises(DatasetError, match="only you may do that"):
        load_dataset("rows.jsonl")
