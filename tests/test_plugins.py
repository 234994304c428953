"""Packages of other people get nothing less than ours do: the examples are really installed, and used."""

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
import zipfile

import pytest
from support.acme import KEY, AcmeServer
from support.command import ROOT, clean_environment, only_run, read_csv
from support.compatible import Answer

EXAMPLES = ROOT / "examples"


def installed(target, name):
    """Build an example and put it where Python finds it, as an installer does; nothing is downloaded."""
    wheels = target / "wheels"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=EXAMPLES / name, check=True, capture_output=True, timeout=120)
    [wheel] = wheels.glob(f"{name.replace('-', '_')}-*.whl")
    if importlib.util.find_spec("pip"):
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
        subprocess.run([*install, str(wheel)], check=True, capture_output=True, timeout=120)
    else:
        # Some systems ship Python without pip; a wheel of plain Python is installed by unpacking it.
        zipfile.ZipFile(wheel).extractall(target)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    for name in ("tiebreak-echo", "tiebreak-haiku", "tiebreak-acme"):
        installed(target, name)
    return target


def package(target, name, code="", **groups):
    """A package as an installer leaves it: a module, and the entry points it announces."""
    target.mkdir(exist_ok=True)
    (target / f"{name}.py").write_text(textwrap.dedent(code))
    info = target / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[tiebreak.{kind}]\n{points}\n" for kind, points in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return target


def tiebreak(place, cwd, *arguments, **variables):
    """The installed command: the working folder is not on Python's path (-P)."""
    environment = clean_environment(PYTHONPATH=os.pathsep.join((str(ROOT), str(place))), **variables)
    command = [sys.executable, "-P", "-m", "tiebreak", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def test_a_provider_a_dataset_and_a_scorer_from_outside_run_together(place, tmp_path):
    done = tiebreak(place, tmp_path, "run", "--models", "echo/parrot,echo/loud", "--dataset", "haiku", "--scorer", "lines:1")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = read_csv(only_run(tmp_path) / "trials.csv")
    assert {row["model"] for row in rows} == {"echo/parrot", "echo/loud"}
    assert {row["score"] for row in rows} == {"1.0"}


@pytest.mark.parametrize(("what", "name"), [("providers", "echo"), ("datasets", "haiku"), ("scorers", "lines")])
def test_they_are_listed_with_ours(place, tmp_path, what, name):
    listed = tiebreak(place, tmp_path, "list", what).stdout
    assert name in [line.split()[0] for line in listed.splitlines() if line.strip()]


@pytest.mark.parametrize("name", ["echo", "acme"])
def test_a_provider_takes_at_most_sixty_lines(name):
    lines = (EXAMPLES / f"tiebreak-{name}" / f"tiebreak_{name}" / "__init__.py").read_text().splitlines()
    assert len(lines) <= 60


def test_the_examples_have_what_an_installer_needs():
    assert {path.parent.name for path in EXAMPLES.glob("*/pyproject.toml")} >= {
        "tiebreak-echo",
        "tiebreak-haiku",
        "tiebreak-acme",
    }


@pytest.mark.parametrize(
    ("kind", "name"),
    [("provider", "echo"), ("agent", "twice"), ("dataset", "haiku"), ("scorer", "lines:3"), ("scorer", "lines")],
)
def test_the_examples_are_what_the_engine_expects(place, tmp_path, kind, name):
    more = ("--dataset", "haiku") if name == "lines" else ()
    done = tiebreak(place, tmp_path, "check-plugin", kind, name, *more)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗" not in done.stdout


# --- a provider over HTTP --------------------------------------------------------------------------


@pytest.fixture
def acme():
    with AcmeServer() as server:
        yield server


LINE = ("run", "--model", "acme/small", "--dataset", "warmup", "--limit", "4", "--no-preflight")


def test_http_provider_is_retried_and_its_costs_are_counted(place, tmp_path, acme):
    """The first answer is an error of a kind that passes."""
    acme.fault = lambda call, number: Answer(500, {"error": {"message": "busy"}}) if number == 1 else None
    done = tiebreak(place, tmp_path, *LINE, **acme.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(acme.asked) == 5
    assert {call.headers["X-Acme-Key"] for call in acme.asked} == {KEY}
    rows = read_csv(only_run(tmp_path) / "trials.csv")
    assert [(row["input_tokens"], row["output_tokens"], float(row["cost_usd"])) for row in rows] == [("7", "2", 0.25)] * 4


def test_http_provider_goes_on_where_it_stopped(place, tmp_path, acme):
    """What failed is asked again, and nothing else."""
    acme.fault = lambda call, number: Answer(400, {"error": {"message": "not this one"}}) if number > 2 else None
    first = tiebreak(place, tmp_path, *LINE, "--max-connections", "1", **acme.environment())
    assert first.returncode == 2, first.stdout + first.stderr
    acme.fault, before = (lambda call, number: None), len(acme.asked)
    again = tiebreak(
        place, tmp_path, "run", "--resume", only_run(tmp_path).name, "--retry-failed", "--no-preflight", **acme.environment()
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert (before, len(acme.asked)) == (4, 6)


def test_wrong_key_is_told_and_not_shown(place, tmp_path, acme):
    wrong_key = "acme-secret-00d4"
    done = tiebreak(place, tmp_path, *LINE[:-1], **{**acme.environment(), "ACME_API_KEY": wrong_key})
    assert done.returncode == 1
    assert "401" in done.stdout + done.stderr
    assert wrong_key not in done.stdout + done.stderr


def test_missing_key_is_named_before_anything_is_sent(place, tmp_path, acme):
    done = tiebreak(place, tmp_path, *LINE, ACME_BASE_URL=acme.url)
    assert done.returncode == 1
    assert "ACME_API_KEY" in done.stdout + done.stderr
    assert acme.calls == []


def test_setting_a_plugin_has_no_word_for_is_refused(place, tmp_path, acme):
    done = tiebreak(place, tmp_path, *LINE[:2], "acme/small@top_k=3", *LINE[3:], **acme.environment())
    assert done.returncode == 1
    assert "cannot take 'top_k'" in done.stdout + done.stderr


def test_models_of_a_plugin_are_listed(place, tmp_path, acme):
    listed = tiebreak(place, tmp_path, "list", "models", **acme.environment()).stdout
    rows = {line.split()[0]: line for line in listed.splitlines() if line.strip()}
    assert {"acme/small", "acme/org/large", "echo/parrot", "echo/loud"} <= set(rows)
    assert rows["acme/small"].split()[1:] == ["acme", "yes"]
    without_key = tiebreak(place, tmp_path, "list", "models").stdout
    [row] = [line for line in without_key.splitlines() if line.startswith("acme/")]
    assert row.split() == ["acme/NAME", "acme", "set", "ACME_API_KEY"]


def test_doctor_knows_a_plugins_key_and_name(place, tmp_path, acme):
    told = tiebreak(place, tmp_path, "doctor", **acme.environment()).stdout
    assert "✓ acme: ACME_API_KEY is set" in told
    assert "provider acme" in told
    assert "– acme: no key" in tiebreak(place, tmp_path, "doctor").stdout


def test_http_provider_is_what_the_engine_expects(place, tmp_path, acme):
    done = tiebreak(place, tmp_path, "check-plugin", "provider", "acme", **acme.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "401) is a ProviderError of kind auth" in done.stdout
    assert "a call of small has an answer of 2 tokens" in done.stdout
    assert "told to the listener" in done.stdout
    assert "–" not in done.stdout


# --- plugins that cannot be used -------------------------------------------------------------------


BROKEN = """
    import a_library_that_is_not_installed
"""
LEAVES = """
    import sys
    sys.exit("on my way")
"""


def lines_with(text, *words):
    return [line for line in text.splitlines() if all(word in line for word in words)]


@pytest.mark.parametrize(("code", "reason"), [(BROKEN, "ModuleNotFoundError"), (LEAVES, "SystemExit"), ("", "AttributeError")])
def test_plugin_that_cannot_be_loaded_is_one_line(tmp_path, code, reason):
    """In the doctor's findings and in the lists; everything else goes on."""
    groups = dict.fromkeys(("providers", "scorers", "datasets", "agents"), "limp = limping:Limp")
    site = package(tmp_path / "site", "limping", code, **groups)
    told = tiebreak(site, tmp_path, "doctor")
    assert told.returncode == 1
    assert len(lines_with(told.stdout, "✗", "'limp'", "limping", reason)) == 4
    assert "Traceback" not in told.stdout + told.stderr
    for what in ("models", "providers", "scorers", "datasets", "agents"):
        listed = tiebreak(site, tmp_path, "list", what)
        assert listed.returncode == 0, listed.stderr
        assert len(lines_with(listed.stdout + listed.stderr, "'limp'", reason)) == 1, what
        assert "Traceback" not in listed.stderr


def test_plugin_that_cannot_be_loaded_ends_only_what_uses_it(tmp_path):
    site = package(tmp_path / "site", "limping", BROKEN, providers="limp = limping:Limp", scorers="limp = limping:limp")
    used = tiebreak(site, tmp_path, "run", "--model", "limp/x", "--dataset", "warmup", "--limit", "1")
    assert used.returncode == 1
    assert "cannot be loaded" in used.stdout + used.stderr
    assert "Traceback" not in used.stderr
    other = tiebreak(site, tmp_path, "run", "--model", "baseline/random", "--dataset", "warmup", "--limit", "1")
    assert other.returncode == 0, other.stdout + other.stderr


def test_plugin_with_the_name_of_a_built_in_one_is_refused(tmp_path):
    code = """
    class Mine:
        \"\"\"Not what you asked for.\"\"\"
    """
    site = package(tmp_path / "site", "usurper", code, providers="openai = usurper:Mine", scorers="match = usurper:Mine")
    told = tiebreak(site, tmp_path, "doctor")
    assert told.returncode == 1
    assert len(lines_with(told.stdout, "✗", "provider 'openai'", "usurper", "built-in")) == 1
    assert len(lines_with(told.stdout, "✗", "scorer 'match'", "usurper", "built-in")) == 1
    listed = tiebreak(site, tmp_path, "list", "providers")
    assert "Models behind OpenAI's API" in listed.stdout
    assert "Not what you asked for" not in listed.stdout
    assert len(lines_with(listed.stderr, "'openai'", "usurper")) == 1


def test_two_packages_with_one_name_are_told_apart(tmp_path):
    code = "def one(sample, text):\n    return 1\n"
    site = package(tmp_path / "site", "first_pkg", code, scorers="one = first_pkg:one")
    package(site, "second_pkg", code, scorers="one = second_pkg:one")
    listed = tiebreak(site, tmp_path, "list", "scorers")
    assert len(lines_with(listed.stderr, "'one'", "second_pkg", "first_pkg")) == 1


# --- your own files --------------------------------------------------------------------------------


OWN = """
    import sys
    from tiebreak.core.message import Reply, Usage
    from tiebreak.core.trial import Output
    from tiebreak.registry import load_dataset
    from helper import ANSWER

    def always(sample, text):
        return str(text == ANSWER and "" not in sys.path)

    def exact(sample, text):
        return text == ANSWER

    def path_is_clean(sample, text):
        import os
        return os.getcwd() not in sys.path

    class Mine:
        def __init__(self, endpoint):
            pass
        async def open(self, model):
            pass
        async def generate(self, request, listener=None):
            return Reply(text=ANSWER, usage=Usage(input_tokens=1, output_tokens=1), model=request.model)
        async def list_models(self):
            return ["one"]
        async def close(self):
            pass

    class Shout:
        works_on = frozenset({"question"})
        async def run(self, sample, context):
            return Output(text=(await context.ask(sample.messages)).text + "!")

    def questions():
        return load_dataset("q.jsonl")
"""


@pytest.fixture
def folder(tmp_path):
    """A working folder with code of the user's own beside its data."""
    (tmp_path / "own.py").write_text(textwrap.dedent(OWN).replace("from helper", "from own_helper"))
    (tmp_path / "own_helper.py").write_text("ANSWER = 'Paris'\n")
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "1", "input": "The capital of France?", "target": "Paris"}) + "\n")
    return tmp_path


@pytest.mark.parametrize("place_of", ["./own.py", "own.py", "own"])
def test_own_file_or_module_may_be_every_kind(folder, place_of):
    """With the installed command, which does not have the working folder on its path."""
    line = ("--model", f"{place_of}:Mine/any/name", "--dataset", f"{place_of}:questions", "--agent", f"{place_of}:Shout")
    done = tiebreak(ROOT, folder, "run", *line, "--scorer", "includes")
    assert done.returncode == 0, done.stdout + done.stderr
    [row] = read_csv(only_run(folder) / "trials.csv")
    assert (row["score"], row["text"]) == ("1.0", "Paris!")
    again = tiebreak(ROOT, folder, "run", "--resume", only_run(folder).name)
    assert again.returncode == 0, again.stdout + again.stderr


@pytest.mark.parametrize(("scorer", "score"), [("./own.py:exact", "1.0"), ("own:exact", "1.0"), ("own:path_is_clean", "1.0")])
def test_own_scorer(folder, scorer, score):
    """The working folder is on the path for the lookup, and gone when the scorer is called."""
    done = tiebreak(ROOT, folder, "run", "--model", "./own.py:Mine/x", "--dataset", "q.jsonl", "--scorer", scorer)
    assert done.returncode == 0, done.stdout + done.stderr
    [row] = read_csv(only_run(folder) / "trials.csv")
    assert row["score"] == score


def test_configuration_may_name_an_own_provider(folder):
    (folder / "models_config.yaml").write_text("models:\n- {name: mine, provider: './own.py:Mine', model: one}\n")
    done = tiebreak(ROOT, folder, "run", "--model", "mine", "--dataset", "q.jsonl")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--scorer", "./gone.py:f"), "there is no file"),
        (("--scorer", "./own.py:exakt"), "did you mean 'exact'"),
        (("--scorer", "./bad.py:f"), "SyntaxError"),
        (("--agent", "./own.py:Absent"), "has no 'Absent'"),
        (("--model", "./gone.py:P/m"), "there is no file"),
    ],
)
def test_own_file_that_cannot_be_used_is_one_line(folder, arguments, told):
    (folder / "bad.py").write_text("def f(:\n")
    done = tiebreak(ROOT, folder, "run", "--model", "baseline/random", "--dataset", "q.jsonl", *arguments)
    assert done.returncode == 1
    assert told in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["./trap.py:f", "trap.py:f", "trap:f", "os:system"])
def test_data_cannot_name_code(folder, name):
    """A row that names a file or a module is refused, and the file is not run."""
    (folder / "trap.py").write_text("open('sprung', 'w').close()\ndef f(sample, text):\n    return 1\n")
    (folder / "q.jsonl").write_text(json.dumps({"id": "1", "input": "?", "target": "x", "scorer": name}) + "\n")
    done = tiebreak(ROOT, folder, "run", "--model", "baseline/random", "--dataset", "q.jsonl")
    assert done.returncode == 1, done.stdout
    assert "which is not a registered one" in done.stdout + done.stderr
    assert not (folder / "sprung").exists()


def test_own_file_is_checked(folder):
    for kind, name in (("provider", "Mine"), ("scorer", "exact"), ("dataset", "questions"), ("agent", "Shout")):
        done = tiebreak(ROOT, folder, "check-plugin", kind, f"./own.py:{name}")
        if kind == "provider":
            assert "✗ it has no name" in done.stdout
        else:
            assert done.returncode == 0, done.stdout + done.stderr
    wrong = tiebreak(ROOT, folder, "check-plugin", "scorer", "./own.py:always")
    assert wrong.returncode == 1
    assert "it should be right or wrong, or a number from 0 to 1" in wrong.stdout


def test_a_dataset_of_yours_that_uses_an_id_twice_is_refused_before_anything_is_asked(tmp_path):
    """Else all would be asked, and then nothing could be stored."""
    (tmp_path / "twins.py").write_text(
        """
from tiebreak.core.message import user
from tiebreak.core.sample import Sample

class Twins:
    name, digest, scorers, about, shuffle, categories = "twins", "x", ("match",), "", (1, 1), (0, 0)

    def __len__(self):
        return 2

    def __getitem__(self, position):
        return Sample(id="same", messages=(user(f"Question {position}?"),), targets=("a",), scorers=("match",))
"""
    )
    done = tiebreak(ROOT, tmp_path, "run", "--model", "baseline/random", "--dataset", "./twins.py:Twins")
    assert done.returncode == 1
    assert "uses the id 'same' twice" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("code", "told"),
    [("return 1 / position", "sample 0 of the dataset 'broken' cannot be read: ZeroDivisionError"), ("return {}", "is a dict")],
)
def test_a_dataset_of_yours_with_a_sample_that_is_none_is_refused_before_anything_is_asked(tmp_path, code, told):
    (tmp_path / "broken.py").write_text(
        f"""
class Broken:
    name, digest, scorers, about, shuffle, categories = "broken", "x", ("match",), "", (1, 1), (0, 0)

    def __len__(self):
        return 2

    def __getitem__(self, position):
        {code}
"""
    )
    done = tiebreak(ROOT, tmp_path, "run", "--model", "baseline/random", "--dataset", "./broken.py:Broken")
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr


EXPORTERS = '''
import tiebreak

def scores(folder, path):
    """One score per line."""
    path.write_text("\\n".join(str(trial.score) for trial in tiebreak.open(folder).trials()))

def broken(folder, path):
    path.write_text("half")
    raise ValueError("no form")

def nothing_at_all(folder, path):
    pass
'''


def test_exporters_of_packages_and_files_write_a_run(place, tmp_path):
    (tmp_path / "mine.py").write_text(EXPORTERS)
    done = tiebreak(place, tmp_path, "run", "--model", "echo/parrot", "--dataset", "haiku", "--output", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    done = tiebreak(place, tmp_path, "export", "out", "--to", "poems", "--output", "poems.txt")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "echo/parrot:\n" in (tmp_path / "poems.txt").read_text()
    own = tiebreak(place, tmp_path, "export", "out", "--to", "./mine.py:scores", "--output", "-")
    assert own.returncode == 0, own.stderr
    assert set(own.stdout.split()) <= {"0.0", "1.0"}
    listed = tiebreak(place, tmp_path, "list", "exporters").stdout
    assert {"junit", "baseline", "poems"} <= {line.split()[0] for line in listed.splitlines() if line.strip()}
    assert "exporter poems" in tiebreak(place, tmp_path, "doctor").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--to", "poemz", "--output", "x"), "there is no exporter 'poemz'; did you mean 'poems'?"),
        (("--to", "poems"), "name the file that poems is to write, with --output"),
        (("--to", "./mine.py:broken", "--output", "x"), "the exporter ./mine.py:broken raised ValueError: no form"),
        (("--to", "./mine.py:nothing", "--output", "x"), "has no 'nothing'"),
        (("--to", "./mine.py:nothing_at_all", "--output", "x"), "wrote nothing to the file it was given"),
        (("--to", "./mine.py:scores", "--output", "out/run.sqlite"), "is a file of the run itself"),
    ],
)
def test_exporters_that_do_not_work_are_told_in_a_sentence(place, tmp_path, arguments, told):
    (tmp_path / "mine.py").write_text(EXPORTERS)
    tiebreak(place, tmp_path, "run", "--model", "echo/parrot", "--dataset", "haiku", "--output", "out")
    (tmp_path / "x").write_text("as it was")
    done = tiebreak(place, tmp_path, "export", "out", *arguments)
    assert done.returncode == 1
    assert (tmp_path / "x").read_text() == "as it was"
    assert tiebreak(place, tmp_path, "report", "out").returncode == 0
    assert told in done.stderr
    assert "Traceback" not in done.stderr


AGENT = '''
from tiebreak.core.trial import Output

class Shouts:
    """Shouts what the model says."""
    works_on = frozenset({"question"})

    def __init__(self, times=1):
        self.times = times

    async def run(self, sample, context):
        reply = await context.ask(sample.messages)
        return Output(text=(reply.text.upper() + " ") * self.times)
'''


def test_agent_of_a_file_has_a_name_in_the_configuration(place, tmp_path):
    (tmp_path / "mine.py").write_text(AGENT)
    (tmp_path / "models_config.yaml").write_text("agents:\n  loudly: {class: ./mine.py:Shouts, options: {times: 2}}\n")
    (tmp_path / "q.jsonl").write_text('{"input": "hello", "target": "HELLO HELLO"}\n')
    line = ("run", "--model", "echo/parrot", "--dataset", "q.jsonl", "--config", "models_config.yaml", "--output", "out")
    done = tiebreak(place, tmp_path, *line, "--agent", "loudly", "--scorer", "exact")
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = read_csv(tmp_path / "out" / "trials.csv")
    assert (row["agent"], row["text"].strip()) == ("loudly", "HELLO HELLO")


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("{}", "agents.loudly: the field 'command' is missing"),
        ("{class: ''}", "agents.loudly.class"),
        ("{class: ./mine.py:Whispers}", "has no 'Whispers'"),
        ("{class: ./mine.py:Shouts, options: {volume: 3}}", "has no option 'volume'"),
    ],
)
def test_agent_of_the_configuration_that_cannot_be_is_named(place, tmp_path, entry, told):
    (tmp_path / "mine.py").write_text(AGENT)
    (tmp_path / "models_config.yaml").write_text(f"agents:\n  loudly: {entry}\n")
    (tmp_path / "q.jsonl").write_text('{"input": "hello", "target": "x"}\n')
    line = ("run", "--model", "echo/parrot", "--dataset", "q.jsonl", "--config", "models_config.yaml", "--output", "out")
    done = tiebreak(place, tmp_path, *line, "--agent", "loudly")
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_code_of_the_configuration_runs_only_where_its_agent_is_chosen(place, tmp_path):
    """Not to list agents, not for a dry run, and not for a run with another agent: the file may be somebody else's."""
    (tmp_path / "sly.py").write_text("open('ran', 'w')\n" + AGENT)
    (tmp_path / "models_config.yaml").write_text("agents:\n  sly: {class: ./sly.py:Shouts}\n  gone: {class: ./none.py:A}\n")
    (tmp_path / "q.jsonl").write_text('{"input": "hello", "target": "x"}\n')
    line = ("run", "--model", "echo/parrot", "--dataset", "q.jsonl")
    for arguments in (("list", "agents"), ("doctor",), (*line, "--dry-run"), (*line, "--output", "out")):
        done = tiebreak(place, tmp_path, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "ran").exists()
    assert "./sly.py:Shouts" in tiebreak(place, tmp_path, "list", "agents").stdout
    chosen = tiebreak(place, tmp_path, *line, "--agent", "gone")
    assert "the agent 'gone' of models_config.yaml: " in chosen.stderr
