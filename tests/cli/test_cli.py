"""The command line: what goes to stdout and stderr, exit codes, and what bad input gets."""

from __future__ import annotations

import gzip
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file

from heedful.cli import demo
from heedful.cli.commands.models import echo_sizes
from heedful.config import optional_packages
from heedful.config.setting_layers import resolve
from heedful.config.settings import Config, FamilyConfig
from heedful.data.stdio import output_file
from heedful.model.checkpoint import FORMAT
from heedful.model.parameter_count import count, shapes_of_new
from tests import ROOT
from tests.cli.running import Result, Run, one_line
from tests.small_models import TEXT, small_model

LONG = 300  # seconds in which a busy machine, too, has started and ended a process
TRAINING = ["train.batch_tokens=256", "train.warmup_steps=1", "data.max_length=40"]
TINY = ["--preset", "tiny", "--device", "cpu", *(part for setting in TRAINING for part in ("--set", setting))]
SMALL = ["--set", "model.d_model=16", "--set", "model.d_ff=32", "--set", "model.num_layers=1"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    lines = [f"the cat number {n} sat on the mat" for n in range(200)]
    (folder / "train.en").write_text("\n".join(lines) + "\n")
    (folder / "train.de").write_text("\n".join(line.replace("the", "die") for line in lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def model(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("model") / "run"
    files = ["-s", text / "train.en", "-t", text / "train.de", "-o", run]
    command = [sys.executable, "-m", "heedful", "train", *map(str, files), *TINY, *SMALL, "--steps", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "the model is in" in done.stderr
    return run


# ------------------------------------------------------------------------------------------------------- translating


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        ["-o", "text", "text"],
        ["--alignments", "text", "text"],
        ["-o", "text", "--prefix", "text", "other"],
        ["-o", "new", "--alignments", "new", "text"],
        ["-o", "sub/../text", "text"],
        ["-o", "TEXT", "text"],
    ],
    ids=" ".join,
)
def test_what_is_read_is_never_replaced(heedful: Run, model: Path, tmp_path: Path, names: list[str]) -> None:
    for name in ("text", "other"):
        (tmp_path / name).write_text("the\n")
    (tmp_path / "sub").mkdir()
    if "TEXT" in names and not (tmp_path / "TEXT").exists():  # on some disks it does
        (tmp_path / "TEXT").hardlink_to(tmp_path / "text")
    before = sorted(tmp_path.iterdir())
    arguments = [name if name.startswith("-") else tmp_path / name for name in names]
    assert "and would replace it; name another one" in one_line(heedful("translate", "-m", model, *arguments))
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "text").read_text() == "the\n"


@pytest.mark.slow
def test_a_dash_for_an_output_is_stdout(
    heedful: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = heedful("translate", "-m", model, stdin=b"the cat\n")
    assert heedful("translate", "-m", model, "-o", "-", stdin=b"the cat\n") == plain
    assert not list(tmp_path.iterdir()), "no file has that name"
    both = heedful("translate", "-m", model, "--alignments", "-", stdin=b"the cat\n")
    assert "are both for stdout; name a file for one of them" in one_line(both)
    links = heedful("translate", "-m", model, "-o", "out", "--alignments", "-", stdin=b"the cat\n").out
    assert set(links) <= set("0123456789- \n")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_who_reads_the_output_may_leave_while_a_file_is_written(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), output_file(tmp_path / "alignments"):
        raise BrokenPipeError
    assert not list(tmp_path.iterdir())


def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with output_file(pipe) as file:
        file.write("the cat\n")
    assert os.read(reader, 100) == b"the cat\n"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_link_stays_a_link_and_a_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "text").touch(mode=0o600)
    (tmp_path / "link").symlink_to("text")
    with output_file(tmp_path / "link") as file:
        file.write("the cat\n")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "text").read_text() == "the cat\n"
    assert (tmp_path / "text").stat().st_mode & 0o777 == 0o600
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_is_no_folder_to_write_into(heedful: Run, model: Path, text: Path) -> None:
    inside = text / "train.en" / "out"
    assert "Not a directory" in one_line(heedful("translate", "-m", model, text / "train.en", "-o", inside))


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full here")
def test_a_full_disk_behind_stdout_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "heedful", "config"]
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert "No space left on device" in one_line(Result(done.returncode, "", done.stderr))


@pytest.mark.slow
@pytest.mark.parametrize(("closed", "code"), [("<&-", 0), (">&-", 2), ("2>&-", 0), ("<&- >&- 2>&-", 2)])
def test_a_stream_may_be_closed(model: Path, closed: str, code: int) -> None:
    command = f"{sys.executable} -m heedful translate -m {model} {closed}"
    run = subprocess.run(["bash", "-c", command], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert run.returncode == code
    assert (b"stdout is closed" in run.stderr) == (closed == ">&-")
    assert b"Traceback" not in run.stderr


def test_one_line_out_for_each_line_in(heedful: Run, model: Path) -> None:
    lines = "the cat\n\n   \nsat on the mat\r\n🙂 \x00 שלום\nthe".encode()
    result = heedful("translate", "-m", model, stdin=lines)
    assert result.code == 0
    assert result.out.count("\n") == 6
    assert result.out.split("\n")[1:3] == ["", ""]
    assert result.err == ""


def test_no_line_in_no_line_out(heedful: Run, model: Path) -> None:
    assert heedful("translate", "-m", model) == Result(0, "", "")


def test_a_compressed_file_is_read_as_it_is_and_written_to_a_file(heedful: Run, model: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in.gz", tmp_path / "out.txt"
    source.write_bytes(gzip.compress(b"the cat\nthe mat\n"))
    assert heedful("translate", "-m", model, source, "-o", target).out == ""
    assert target.read_text().count("\n") == 2


def test_jsonl_has_scores_and_token_probabilities(heedful: Run, model: Path) -> None:
    result = heedful("translate", "-m", model, "--n-best", "2", "--format", "jsonl", stdin=b"the cat\n\n")
    first, blank = map(json.loads, result.out.splitlines())
    assert len(first["hypotheses"]) == 2
    best = first["hypotheses"][0]
    assert sum(best["token_log_probs"]) == pytest.approx(best["log_prob"], abs=1e-4)
    assert len(best["tokens"]) == len(best["token_log_probs"])
    assert blank["translation"] == ""


def test_n_best_is_written_as_moses_does(heedful: Run, model: Path) -> None:
    result = heedful("translate", "-m", model, "--n-best", "3", stdin=b"the cat\nthe mat\n")
    fields = [line.split(" ||| ") for line in result.out.splitlines()]
    assert [field[0] for field in fields] == ["0"] * 3 + ["1"] * 3
    scores = [float(field[3]) for field in fields[:3]]
    assert scores == sorted(scores, reverse=True)


def test_n_best_has_a_block_for_every_line_also_for_a_blank_one(heedful: Run, model: Path) -> None:
    result = heedful("translate", "-m", model, "--n-best", "2", stdin=b"the cat\n\n \t\nthe mat\n")
    fields = [line.split(" ||| ") for line in result.out.splitlines()]
    assert [field[0] for field in fields] == ["0", "0", "1", "2", "3", "3"]
    assert fields[2][1:] == fields[3][1:] == ["", "logprob=0.0000", "0.0000"]


def test_sampling_follows_its_seed(heedful: Run, model: Path) -> None:
    def sample(seed: int) -> str:
        return heedful("translate", "-m", model, "--sample", "--seed", seed, stdin=b"the cat\n" * 5).out

    assert sample(1) == sample(1)
    assert sample(1) != sample(2)


def test_a_translation_begins_with_its_prefix(heedful: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "prefix").write_text("die mat\n\n")
    result = heedful("translate", "-m", model, "--prefix", tmp_path / "prefix", stdin=b"the cat\nthe mat\n")
    assert result.out.startswith("die mat")


@pytest.mark.parametrize("sentence", ["The cat sat.", "The cat sat. " * 100])
def test_who_gives_a_sentence_for_a_file_is_told_how_it_gets_there(heedful: Run, model: Path, sentence: str) -> None:
    told = one_line(heedful("translate", "-m", model, sentence))
    assert 'no such file; a sentence comes by stdin: echo "…" | heedful translate' in told


def test_a_tsv_is_not_translated_as_if_it_were_one_side(heedful: Run, model: Path, tmp_path: Path) -> None:
    both, text = tmp_path / "both.tsv", tmp_path / "text"
    both.write_text("the cat\tdie cat\n")
    text.write_text("the cat\n")
    for files in ([both], [text, "--prefix", both]):
        told = one_line(heedful("translate", "-m", model, *files))
        assert "both.tsv: a .tsv holds source and target; write each to a file of its own (cut -f1, cut -f2)" in told


def test_prefixes_that_are_too_few_are_counted_before_anything_is_translated(
    heedful: Run, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("the cat\nthe mat\n")
    (tmp_path / "prefix").write_text("die\n")
    message = one_line(heedful("translate", "-m", model, "--prefix", tmp_path / "prefix", tmp_path / "in"))
    assert f"--prefix {tmp_path / 'prefix'} has 1 line but {tmp_path / 'in'} has 2" in message


def test_a_run_that_is_not_finished_says_so(heedful: Run, model: Path, tmp_path: Path) -> None:
    unfinished = tmp_path / "run"
    shutil.copytree(model, unfinished)
    shutil.rmtree(unfinished / "model")
    settings = (model / "config.toml").read_text()
    (unfinished / "config.toml").write_text(settings.replace("\nsteps = 3\n", "\nsteps = 10\n"))
    said = heedful("translate", "-m", unfinished, stdin=b"the\n").err
    assert said == f"{unfinished} is not finished: step 3 of 10\n"
    assert heedful("translate", "-m", model, stdin=b"the\n").err == ""


@pytest.mark.slow
def test_an_answer_comes_before_the_next_line(model: Path) -> None:
    command = [sys.executable, "-m", "heedful", "translate", "-m", str(model), "--greedy"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in (b"the cat\n", b"the mat\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()
        assert process.wait(LONG) == 0


@pytest.mark.slow
def test_a_reader_that_leaves_ends_us_quietly(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the cat\n" * 3000)
    command = f"{sys.executable} -m heedful translate -m {model} --greedy {tmp_path}/in.txt | head -n 1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.slow
def test_a_reader_that_leaves_while_we_wait_for_a_line_ends_us_quietly(model: Path) -> None:
    command = [sys.executable, "-m", "heedful", "translate", "-m", str(model), "--greedy"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"the cat\n")
        process.stdin.flush()
        assert process.wait(LONG) == 1
        assert process.stderr.read() == b""


def test_a_long_line_is_cut_joined_and_counted(heedful: Run, model: Path) -> None:
    arguments, lines = ("translate", "-m", model, "--greedy"), b"the cat.\n" + b"the cat sat on the mat " * 60 + b"\n"
    cut = (
        "than data.max_length = 40 pieces of the model, the first is line 2: cut there, translated in parts and joined"
    )
    for more, what in ([], "1 line with a sentence longer"), (["--no-split"], "1 line longer"):
        result = heedful(*arguments, *more, stdin=lines)
        assert result.out.count("\n") == 2
        assert f"{what} {cut}" in result.err


def test_a_picture_is_of_one_sentence(heedful: Run, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "map.json"
    arguments = ("attend", "-m", model, "The cat sat. The king was rich.", "-o", output)
    line = one_line(heedful(*arguments))
    assert 'TEXT holds 2 sentences, which are translated one by one; give one of them, such as "The cat sat."' in line
    assert not output.exists()
    assert heedful(*arguments, "--no-split").code == 0
    assert json.loads(output.read_text())["source"] == "The cat sat. The king was rich."


@pytest.mark.parametrize(
    "command", [("export", "--to", "huggingface", "-o", "out"), ("attend", "Two dogs.", "-o", "out.html")]
)
def test_what_takes_one_model_does_not_take_two(heedful: Run, model: Path, command: tuple[str, ...]) -> None:
    code, out, err = heedful(*command, "-m", model, "-m", model)
    assert (code, out) == (2, "")
    assert "one model is asked for here, and 2 are given" in err


def test_a_precision_that_an_engine_does_not_have_is_refused(heedful: Run, model: Path) -> None:
    line = one_line(heedful("translate", "-m", model, "--engine", "ctranslate2", "--precision", "fp32", stdin=b"cat\n"))
    assert "for precision fp32 take --engine torch" in line
    exact, plain = (
        heedful("translate", "-m", model, *more, stdin=b"the cat\n").out
        for more in (["--precision", "fp32"], ["--engine", "torch"])
    )
    assert exact == plain


# ---------------------------------------------------------------------------------------------------------- scoring


def test_a_score_is_the_sum_of_its_tokens(heedful: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("the cat\nthe mat\n")
    (tmp_path / "t").write_text("die cat\n\n")
    files = ["-s", tmp_path / "s", "-t", tmp_path / "t"]
    result = heedful("score", "-m", model, *files)
    records = [json.loads(line) for line in heedful("score", "-m", model, *files, "--format", "jsonl").out.splitlines()]
    assert [float(line) for line in result.out.splitlines()] == pytest.approx(
        [r["log_prob"] for r in records], abs=1e-5
    )
    assert sum(records[0]["token_log_probs"]) == pytest.approx(records[0]["log_prob"])
    assert records[1]["tokens"] == ["</s>"]
    num_pieces, total = sum(len(r["tokens"]) for r in records), sum(r["log_prob"] for r in records)
    expected = math.exp(-total / num_pieces)
    assert f"{num_pieces} word pieces, eos included: perplexity {expected:.4f}\n" in result.err


def test_a_tsv_is_scored_as_its_two_sides_are(heedful: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("the cat\nthe mat\n")
    (tmp_path / "t").write_text("die cat\n\n")
    (tmp_path / "both.tsv").write_text("the cat\tdie cat\nthe mat\t\n")
    apart = heedful("score", "-m", model, "-s", tmp_path / "s", "-t", tmp_path / "t")
    together = heedful("score", "-m", model, "-s", tmp_path / "both.tsv")
    assert (together.code, together.out, together.err) == (0, apart.out, apart.err)
    assert "no target file was given" in heedful("score", "-m", model, "-s", tmp_path / "s").err


def test_evaluating_a_model_and_a_file(heedful: Run, model: Path, text: Path) -> None:
    report = json.loads(
        heedful(
            "evaluate", "-m", model, "-s", text / "train.en", "-r", text / "train.de", "-b", "1", "--format", "json"
        ).out
    )
    assert report["bleu"]["signature"].startswith("nrefs:1")
    assert report["perplexity"]["per_piece"] > 1
    same = heedful("evaluate", "--hypotheses", text / "train.de", "-r", text / "train.de").out
    assert "100.00" in same
    assert "nrefs:1" in same


def test_hypotheses_come_through_a_pipe_too(heedful: Run, text: Path) -> None:
    lines = (text / "train.de").read_bytes()
    result = heedful("evaluate", "--hypotheses", "-", "-r", text / "train.de", stdin=lines)
    assert result == heedful("evaluate", "--hypotheses", text / "train.de", "-r", text / "train.de")
    fewer = heedful("evaluate", "--hypotheses", "-", "-r", text / "train.de", stdin=lines.splitlines(True)[0])
    assert "<stdin> has 1 line and" in one_line(fewer)


def test_hypotheses_are_not_searched_for(heedful: Run, text: Path) -> None:
    files = ["--hypotheses", text / "train.de", "-r", text / "train.de"]
    assert "--beam-size goes with -m MODEL" in one_line(heedful("evaluate", *files, "-b", "8"))


def test_evaluate_wants_a_model_or_hypotheses(heedful: Run, text: Path) -> None:
    result = heedful("evaluate", "-r", text / "train.de")
    assert result.code == 2
    assert "--hypotheses" in result.err


# ------------------------------------------------------------------------------------------- settings, sizes, corpus


def test_config_prints_toml_that_is_a_recipe(heedful: Run, tmp_path: Path) -> None:
    out = heedful("config", "--preset", "big", "--set", "train.seed=9").out
    assert tomllib.loads(out)["train"]["seed"] == 9
    (tmp_path / "recipe.toml").write_text(out)
    assert heedful("config", tmp_path / "recipe.toml").out == out


def test_config_and_info_leave_out_settings_of_a_preset_that_the_family_lacks(heedful: Run) -> None:
    recurrent = ("--preset", "tiny", "--set", "model.family=recurrent")
    out = heedful("config", *recurrent).out
    assert tomllib.loads(out)["model"]["num_layers"] == 2
    assert "d_ff" not in out
    assert '\n# bidirectional = true\n# reverse_source = false\n# readout = "maxout"\n' in out
    assert heedful("info", *recurrent).code == 0


def test_config_names_every_setting(heedful: Run) -> None:
    """Those too that follow from others unless they are set: they stand there as they are, behind a #."""
    out = heedful("config", "--set", "model.num_encoder_layers=12", "--set", "model.num_layers=3").out
    for section, fields in msgspec.to_builtins(Config()).items():
        block = out.partition(f"[{section}]\n")[2].partition("\n[")[0]
        assert {line.removeprefix("# ").partition(" = ")[0] for line in block.splitlines() if line} == set(fields)
    assert "\nnum_encoder_layers = 12\n" in out
    assert "\n# num_decoder_layers = 3\n" in out


@pytest.mark.parametrize(("missing", "said"), [((), ""), (("python_multipart",), "; it needs ")])
def test_the_demo_says_what_the_server_still_needs(
    missing: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optional_packages, "find_spec", lambda name: None if name in missing else object())
    assert demo._still_needed().startswith(said)
    assert demo._still_needed().partition(" -m pip install ")[2] == " ".join(missing).replace("_", "-")


def test_the_demo_goes_on_with_a_preset_that_its_machine_can_train(capsys: pytest.CaptureFixture[str]) -> None:
    """It has just shown how fast this CPU is with the smallest."""
    demo._next_commands(Path("run"), Path("text"), "en", "de")
    assert " --preset tiny " in capsys.readouterr().out.partition("heedful train ")[2]


def test_a_model_has_its_sizes_and_not_a_presets(heedful: Run, model: Path) -> None:
    assert "go without MODEL" in one_line(heedful("info", model, "--preset", "tiny"))
    assert "go without MODEL" in one_line(heedful("info", model, "--set", "model.d_ff=8"))


def test_a_server_names_the_file_that_lacks_the_languages(heedful: Run, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    run = shutil.copytree(model, tmp_path / "run")
    settings = run / "model" / "config.toml"
    settings.write_text(settings.read_text().replace('source_language = "en"', 'source_language = ""'))
    assert f"{settings}: data.source_language" in one_line(heedful("serve", "-m", run, "--port", 0))


def test_no_server_is_opened_to_all_by_an_empty_key(heedful: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--api-key is empty" in one_line(heedful("serve", "-m", model, "--api-key", ""))
    for value in ("", "  "):
        monkeypatch.setenv("HEEDFUL_API_KEYS", value)
        assert "HEEDFUL_API_KEYS is empty" in one_line(heedful("serve", "-m", model))


def test_a_server_names_the_option_that_is_to_be_changed(heedful: Run, model: Path) -> None:
    pytest.importorskip("uvicorn")
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = heedful("serve", "-m", model, "--port", other.getsockname()[1])
    assert "try another --port" in one_line(taken)
    assert "try another --host" in one_line(heedful("serve", "-m", model, "--host", "192.0.2.1", "--port", 0))


def test_info_prints_the_parameters_of_preset_and_model(heedful: Run, model: Path) -> None:
    assert f"{count(shapes_of_new(resolve().model, 37_000)):,}" in heedful("info", "--preset", "base").out
    out = heedful("info", model).out
    assert "en → de" in out
    assert "parameters" in out
    assert "family" not in out
    assert "family        mixer\n" in heedful("info", "--preset", "tiny", "--set", "model.family=mixer").out


def test_sizes_stand_in_one_column_however_long_a_part_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    echo_sizes(FamilyConfig(family="bag"), 10, {"the_words_of_the_source.W": (10, 2)}, ("languages", "en → de"))
    values = [line[len("the_words_of_the_source ") :] for line in capsys.readouterr().out.splitlines()]
    assert values == ["en → de", "bag", "10 word pieces", "20 parameters", "20"]


def test_info_counts_the_weights_that_lie_in_the_folder(heedful: Run, tmp_path: Path) -> None:
    folder = small_model(tmp_path / "model")
    weights = load_file(folder / "model.safetensors") | {"embedding.positions.slope_D": torch.zeros(16)}
    save_file(weights, folder / "model.safetensors", metadata=FORMAT)
    out = heedful("info", folder).out.splitlines()
    assert "positions     16 parameters" in out
    assert f"parameters    {sum(map(torch.numel, weights.values())):,}" in out
    assert f"encoder       2 layers of {1024 + 2 * 16 * 24 + 16 + 24 + 4 * 16:,} parameters" in out


@pytest.mark.parametrize("arguments", [["info"], ["train", "-s", "train.tsv", "-o", "run", "--dry-run"]])
def test_sizes_beyond_any_memory_are_one_line(heedful: Run, arguments: list[str]) -> None:
    sizes = [word for name in ("num_heads", "d_k", "d_v") for word in ("--set", f"model.{name}=1000000000")]
    done = heedful(*arguments, *sizes)
    assert (done.code, done.err.splitlines()[-1].partition(";")[0]) == (
        2,
        "heedful: out of memory: no machine holds a model of these sizes",
    )


def test_info_counts_learned_positions_apart_from_the_vocabulary(heedful: Run) -> None:
    sets = ["model.positions=learned", "model.max_positions=300", "model.d_model=64", "tokenizer.vocab_size=1000"]
    out = heedful("info", *(word for each in sets for word in ("--set", each))).out.splitlines()
    assert "vocabulary    1,000 word pieces" in out
    assert "embedding     64,000 parameters" in out
    assert "positions     19,200 parameters" in out
    assert "positions" not in heedful("info").out


@pytest.mark.slow
def test_output_in_an_old_code_page_lacks_letters_and_no_lines(model: Path) -> None:
    command = [sys.executable, "-m", "heedful", "info", str(model)]
    plain, narrow = (
        subprocess.run(command, cwd=ROOT, capture_output=True, env=os.environ | {"PYTHONIOENCODING": code}, check=True)
        for code in ("utf-8", "cp1252")
    )
    assert narrow.stdout.decode("cp1252") == plain.stdout.decode().encode("cp1252", "replace").decode("cp1252")
    assert b"?" in narrow.stdout


@pytest.mark.slow
def test_dry_run_prints_and_writes_nothing(heedful: Run, text: Path, tmp_path: Path) -> None:
    files = ["-s", text / "train.en", "-t", text / "train.de", "-o", tmp_path / "run"]
    out = heedful("train", *files, "--preset", "big", "--dry-run").out
    assert "d_model = 1024" in out
    assert "memory" in out
    assert not (tmp_path / "run").exists()


def test_dry_run_warns_as_a_start_would_beside_its_output(heedful: Run, text: Path, tmp_path: Path) -> None:
    files = ["-s", text / "train.en", "-t", text / "train.en", "-o", tmp_path / "run"]
    settings = [*TINY, *SMALL, "--steps", 1]
    dry = heedful("train", *files, *settings, "--dry-run")
    assert "warning" not in dry.out
    real = [line for line in heedful("train", *files, *settings).err.splitlines() if line.startswith("warning: ")]
    assert len(real) == 2
    assert dry.err.splitlines() == real
    assert heedful("train", *files, *settings, "--dry-run").err == "", "who goes on has read it"


@pytest.mark.slow
@pytest.mark.parametrize(("device", "warned"), [("cpu", True), ("cuda", False)])
def test_dry_run_warns_of_the_device_that_is_named_wherever_it_runs(
    heedful: Run, text: Path, tmp_path: Path, device: str, warned: bool
) -> None:
    files = ["-s", text / "train.en", "-t", text / "train.de", "-o", tmp_path / "run"]
    done = heedful("train", *files, "--preset", "base", "--device", device, "--dry-run")
    assert done.code == 0
    assert ("days on a CPU" in done.err) == warned


def test_dry_run_warns_of_text_that_is_not_there(heedful: Run, text: Path, tmp_path: Path) -> None:
    files = ["-s", text / "train.en", "-t", tmp_path / "nowhere.de", "-o", tmp_path / "run"]
    dry = heedful("train", *files, "--preset", "tiny", "--device", "cuda", "--dry-run")
    assert (dry.code, dry.err) == (0, f"warning: {tmp_path / 'nowhere.de'}: no such file; training needs it\n")


@pytest.mark.slow
def test_dry_run_warns_of_validation_on_the_training_text(heedful: Run, text: Path, tmp_path: Path) -> None:
    both = [text / "train.en", text / "train.de"]
    files = ["-s", both[0], "-t", both[1], "--valid-source", both[0], "--valid-target", both[1]]
    dry = heedful("train", *files, "-o", tmp_path / "run", "--preset", "tiny", "--dry-run")
    assert f"{both[0]} is both training and validation text: validation scores are too good" in dry.err


def test_dry_run_sees_that_the_processes_cannot_share_a_batch(heedful: Run, text: Path, tmp_path: Path) -> None:
    files = ["-s", text / "train.en", "-t", text / "train.de", "-o", tmp_path / "run", "--preset", "tiny"]
    message = one_line(heedful("train", *files, "--nproc", "2", "--dry-run"))
    assert "train.micro_batches = 1 is not a multiple of the 2 processes; set it to 2" in message
    assert heedful("train", *files, "--nproc", "2", "--set", "train.micro_batches=2", "--dry-run").code == 0


def test_dry_run_sees_that_half_of_the_validation_text_is_missing(heedful: Run, text: Path, tmp_path: Path) -> None:
    files = ["-s", text / "train.en", "-t", text / "train.de", "-o", tmp_path / "run"]
    message = one_line(heedful("train", *files, "--valid-source", text / "train.en", "--dry-run"))
    assert "--valid-target (data.valid_target)" in message


def test_a_setting_that_is_no_number_is_not_taken_for_two(heedful: Run) -> None:
    message = one_line(heedful("config", "--set", "train.learning_rate_factor=nan"))
    assert "train.learning_rate_factor = nan: expected float > 0.0" in message


@pytest.mark.parametrize(
    ("given", "named"), [(["--steps", "3"], "3 by --steps"), (["--set", "train.steps=3"], "3 by --set")]
)
def test_a_setting_with_two_values_is_refused(given: list[str], named: str, heedful: Run, tmp_path: Path) -> None:
    message = one_line(heedful("train", "-o", tmp_path / "run", *given, "--set", "train.steps=2"))
    assert f"train.steps is given twice: {named} and 2 by --set" in message


@pytest.mark.slow
def test_a_setting_may_be_given_twice_alike(heedful: Run, text: Path, tmp_path: Path) -> None:
    files = ["-s", text / "train.en", "-t", text / "train.de", "-o", tmp_path / "run"]
    assert heedful("train", *files, "--steps", 7, "--set", "train.steps=7", "--dry-run").code == 0


@pytest.mark.slow
def test_dry_run_counts_the_words_of_the_tokenizer_that_is_there(
    heedful: Run, model: Path, text: Path, tmp_path: Path
) -> None:
    files = ["-s", text / "train.en", "-t", text / "train.de"]
    words = next(line for line in heedful("info", model).out.splitlines() if line.startswith("vocabulary"))
    assert words in heedful("train", *files, "-o", tmp_path / "run", "--from", model, "--dry-run").out
    assert words in heedful("train", "-o", model, "--dry-run").out


def test_average_makes_a_model(heedful: Run, model: Path, tmp_path: Path) -> None:
    checkpoint = next((model / "checkpoints").iterdir())
    assert heedful("average", checkpoint, checkpoint, "-o", tmp_path / "mean").code == 0
    assert heedful("translate", "-m", tmp_path / "mean", stdin=b"the\n").out.count("\n") == 1
    assert "is there already" in one_line(heedful("average", checkpoint, "-o", tmp_path / "mean"))


def test_one_model_alone_has_no_average(heedful: Run, model: Path, tmp_path: Path) -> None:
    for alone in (model, next((model / "checkpoints").iterdir())):
        said = one_line(heedful("average", alone, "-o", tmp_path / "mean"))
        assert f"{alone}: one model alone has no average; name several checkpoints of a run, such as {model}/" in said
        assert not (tmp_path / "mean").exists()
    assert "such as RUN/checkpoints/step-*" in one_line(heedful("average", model / "model", "-o", tmp_path / "mean"))


def test_models_that_do_not_belong_together_have_no_average(heedful: Run, tmp_path: Path) -> None:
    """Whose shapes are equal, so that only their settings and vocabularies tell them apart."""
    one = small_model(tmp_path / "one", vocab_size=304)
    others = {
        "model.num_heads is 4, where": small_model(tmp_path / "heads", vocab_size=304, num_heads=4),
        "data.source_language is 'de', where": small_model(
            tmp_path / "back", vocab_size=304, data={"source_language": "de", "target_language": "en"}
        ),
        "vocabulary is ": small_model(tmp_path / "words", vocab_size=304, text=[line.upper() for line in TEXT]),
    }
    for problem, other in others.items():
        said = one_line(heedful("average", one, other, "-o", tmp_path / "mean"))
        assert f"{other / 'model.safetensors'}: its {problem}" in said
        assert not (tmp_path / "mean").exists()
    regular = small_model(tmp_path / "regular", vocab_size=304, seed=2, dropout=0.3)
    assert heedful("average", one, regular, "-o", tmp_path / "mean").code == 0


def test_corpus_writes_aligned_files(heedful: Run, tmp_path: Path) -> None:
    assert heedful("corpus", "--pair", "ko-en", "--pairs", "50", "-o", tmp_path).code == 0
    assert (tmp_path / "train.ko").read_text().count("\n") == (tmp_path / "train.en").read_text().count("\n") == 50


@pytest.mark.slow
@pytest.mark.parametrize("command", ["corpus", "export"])
def test_a_disk_that_is_full_is_one_line_and_leaves_nothing_behind(model: Path, tmp_path: Path, command: str) -> None:
    """No file may grow beyond 4 KiB."""
    arguments = {"corpus": "--pairs 1000", "export": f"-m {model} --to huggingface"}[command]
    limited = f"ulimit -f 4; {sys.executable} -m heedful {command} {arguments} -o {tmp_path}/out"
    done = subprocess.run(["bash", "-c", limited], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "File too large" in one_line(Result(done.returncode, done.stdout, done.stderr))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_tsv_holds_both_sides_and_needs_no_target(heedful: Run, text: Path, tmp_path: Path) -> None:
    (tmp_path / "both.tsv").write_text("the cat\tdie Katze\n")
    lines = ["-s", tmp_path / "both.tsv", "-t", text / "train.de"]
    assert "holds source and target" in one_line(heedful("train", *lines, "-o", tmp_path / "run", *TINY))


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("# mine\n[trian]\nsteps = 3\n", 2, "'trian'; did you mean train?"),
        ("[model]\nd_ff = 64\n\n[train]  # all of it\nstep = 3\n", 5, "train.step; did you mean train.steps?"),
        ("model.d_ff = 64\nsteps = 3\n", 2, "steps = 3 stands alone"),
        ("[model]\nd_ff = 64\n[train]\nwarmup_steps = 5\nsteps = 'many'\n", 5, "train.steps = 'many': expected int"),
        ("train . steps = 0\n", 1, "train.steps = 0: expected int >= 1"),
        ("[data]\nsource = ['a', 3]\n", 2, "data.source = ['a', 3]: expected str, got int"),
        ("\npreset = 'huge'\n", 2, "preset 'huge' is unknown"),
    ],
)
def test_a_mistake_in_a_recipe_is_told_with_its_line(
    heedful: Run, tmp_path: Path, content: str, line: int, message: str
) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(content)
    told = one_line(heedful("config", recipe))
    assert f"heedful: {recipe}, line {line}: " in told
    assert message in told


@pytest.mark.parametrize("command", [("translate", "-m"), ("train", "-o")])
@pytest.mark.parametrize(
    ("wrong", "message"), [("zz = 1", "there is no setting decode.zz"), ("alpha = 'x'", "alpha = ")]
)
def test_a_mistake_in_a_runs_own_settings_is_told_with_its_line(
    heedful: Run, model: Path, tmp_path: Path, command: tuple[str, str], wrong: str, message: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(model, run)
    for config in (run / "config.toml", run / "model" / "config.toml"):
        lines = [line for line in config.read_text().splitlines() if not line.startswith("alpha = ")]
        config.write_text("\n".join([*lines, wrong]) + "\n")  # decode is its last section
    told = one_line(heedful(*command, run))
    assert f"config.toml, line {len(lines) + 1}: " in told
    assert message in told


def test_a_mistake_in_a_recipe_is_told_when_its_line_is_not_found(heedful: Run, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text("train = { steps = 0 }\n")
    assert f"heedful: {recipe}: train.steps = 0" in one_line(heedful("config", recipe))


def test_no_command_is_cut_short_in_the_list(heedful: Run) -> None:
    assert "..." not in heedful("--help").out.split("Commands:")[1]


def test_a_corpus_is_no_file(heedful: Run, text: Path) -> None:
    assert "is a file, and a corpus is a folder" in one_line(heedful("corpus", "-o", text / "train.en"))


def test_corpus_replaces_nothing(heedful: Run, tmp_path: Path) -> None:
    (tmp_path / "valid.de").write_text("mein Text\n")
    assert "valid.de: is there already" in one_line(heedful("corpus", "--pairs", "50", "-o", tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["valid.de"]
    assert (tmp_path / "valid.de").read_text() == "mein Text\n"


def test_threads_that_wait_sleep_unless_told_otherwise(heedful: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    heedful("config")
    assert os.environ["GOMP_SPINCOUNT"] == "3000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "1")
    heedful("config")
    assert os.environ["GOMP_SPINCOUNT"] == "1"


def test_help_is_quick_and_without_torch() -> None:
    code = """
import sys
from heedful.cli.main import main
sys.argv = ["heedful", "--help"]
try:
    main()
except SystemExit:
    sys.exit("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "translate" in done.stdout


# -------------------------------------------------------------------------------------------------------- bad input


def train_on(heedful: Run, source: object, target: object, run: Path, *more: object) -> Result:
    return heedful("train", "-s", source, "-t", target, "-o", run, *TINY, *SMALL, "--steps", "2", *more)


def test_bad_text_is_named_with_file_and_line(heedful: Run, text: Path, tmp_path: Path) -> None:
    good, run = text / "train.de", tmp_path / "run"
    short, invalid, empty = tmp_path / "short.en", tmp_path / "invalid.en", tmp_path / "empty.en"
    short.write_text("one line\n")
    invalid.write_bytes(b"fine\nnot \xff fine\n" + b"x\n" * 198)
    empty.write_text("")
    assert "no such file" in one_line(train_on(heedful, tmp_path / "none.en", good, run))
    assert "folder" in one_line(train_on(heedful, tmp_path, good, run))
    assert "1 line but" in (message := one_line(train_on(heedful, short, good, run)))
    assert "200" in message
    assert f"{invalid}:2" in one_line(train_on(heedful, invalid, good, run))
    (tmp_path / "empty.de").write_text("")
    assert "empty" in one_line(train_on(heedful, empty, tmp_path / "empty.de", run))


def test_bad_settings_are_named(heedful: Run, text: Path, tmp_path: Path) -> None:
    good = (text / "train.en", text / "train.de")

    def told(*settings: str) -> str:
        return one_line(train_on(heedful, *good, tmp_path / "run", *settings))

    assert "did you mean model.d_ff?" in told("--set", "model.d_fff=3")
    assert "model.num_heads = 3 equal heads" in told("--set", "model.num_heads=3")
    assert "the text can fill at most" in told("--set", "tokenizer.vocab_size=16000")
    assert "preset 'huge' is unknown" in one_line(heedful("config", "--preset", "huge"))


def test_a_run_of_another_configuration_is_refused(heedful: Run, text: Path, model: Path) -> None:
    before = (model / "config.toml").read_bytes()
    message = one_line(train_on(heedful, text / "train.en", text / "train.de", model, "--set", "model.dropout=0.3"))
    assert "model.dropout = 0.3, but the run" in message
    assert (model / "config.toml").read_bytes() == before


def test_a_device_that_is_not_there_is_named(heedful: Run, model: Path) -> None:
    missing = "mps" if torch.cuda.is_available() else "cuda"
    assert f"device {missing} was asked for" in one_line(heedful("translate", "-m", model, "--device", missing))


def test_a_model_that_is_none_is_named(heedful: Run, model: Path, tmp_path: Path) -> None:
    assert "no such folder" in one_line(heedful("translate", "-m", tmp_path / "none"))
    assert "holds no model" in one_line(heedful("translate", "-m", tmp_path))
    assert "is a file; a model is" in one_line(heedful("translate", "-m", model / "config.toml"))
    assert "shown by --preset base" in one_line(heedful("info", "base"))
    assert "n_best = 9 is more than a beam of 2" in one_line(
        heedful("translate", "-m", model, "-b", "2", "--n-best", "9", stdin=b"the\n")
    )


def test_a_beam_without_room_says_what_is_meant_by_one(heedful: Run, model: Path) -> None:
    def told(*arguments: object) -> str:
        return one_line(heedful("translate", "-m", model, *arguments, stdin=b"the\n"))

    assert "beam_size = 0: expected int >= 1" in told("-b", 0)
    assert "n_best = 0: expected int >= 1" in told("--n-best", 0)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--temperature", "0.5"), "--temperature goes with --sample (heedful translate --help shows how)"),
        (("--seed", "2"), "--seed goes with --sample"),
        (("--sample", "-b", "2"), "--beam-size does not go with --sample"),
        (("--greedy", "-b", "2"), "--greedy is a beam of 1"),
        (("--n-best", "2", "--format", "text"), "--n-best 2 goes with --format nbest or jsonl"),
        (("--prefix", "-"), "FILE and --prefix are both stdin"),
        (("--beam-width", "2"), "No such option"),
        (("-b", "many"), "'many' is not a valid integer"),
    ],
)
def test_options_that_do_not_count_or_do_not_exist_are_one_line(
    heedful: Run, model: Path, flags: tuple[str, ...], message: str
) -> None:
    assert message in one_line(heedful("translate", "-m", model, *flags, stdin=b"the\n"))


def test_invalid_input_is_named_with_its_line_and_leaves_the_output_file(
    heedful: Run, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.txt"
    out.write_text("precious")
    result = heedful("translate", "-m", model, "-o", out, stdin=b"the cat\n\xff\n")
    assert "<stdin>:2: not valid UTF-8" in one_line(result)
    assert out.read_text() == "precious"


def test_a_demo_leaves_that_of_another_pair_alone(heedful: Run, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    for language in ("ko", "en"):
        (tmp_path / "corpus" / f"train.{language}").write_text("precious")
    message = one_line(heedful("demo", "--pair", "en-de", "-o", tmp_path, "--steps", "1"))
    assert "holds the demo of en and ko; name another folder with -o" in message
    assert (tmp_path / "corpus" / "train.en").read_text() == "precious"


def test_a_pair_that_the_corpus_has_not_is_named(heedful: Run, tmp_path: Path) -> None:
    assert "'en-fr'" in one_line(heedful("corpus", "--pair", "en-fr", "-o", tmp_path / "c"))
    assert "'en-en'" in one_line(heedful("demo", "--pair", "en-en"))
