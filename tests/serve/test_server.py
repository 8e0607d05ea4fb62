"""The server: what clients of LibreTranslate and DeepL get, errors in their shape, limits, keys, and odd input."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from functools import partial
from html import escape
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.testclient import TestClient

from heedful.config.setting_layers import resolve
from heedful.data import language_detection
from heedful.serve import deepl, page_api
from heedful.serve import service as served
from heedful.serve.app import PATHS, create_app
from heedful.serve.gateway import _key
from heedful.serve.language_pairs import load_pairs
from heedful.serve.limits import Limits, RateLimit, RefusalError
from heedful.serve.parameters import Parameters
from heedful.serve.queue import BatchQueue
from heedful.serve.service import Service
from heedful.translate.alignment import Aligner
from heedful.translate.translation import Translator
from tests.model.test_checkpoint import run_with_model
from tests.served import TOKENIZER, serving, shouting
from tests.small_translator import family_translator

PAIRS = [shouting("en", "de"), shouting("de", "en"), shouting("ko", "en")]


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(PAIRS)) as client:
        yield client


def translate(client: TestClient, **body: Any) -> Any:
    answer = client.post("/translate", json={"source": "en", "target": "de"} | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


# ----------------------------------------------------------------------------------------------------- LibreTranslate


def test_json_form_multipart_and_query_say_the_same(client: TestClient) -> None:
    given = {"q": "the cat", "source": "en", "target": "de"}
    ways: list[dict[str, Any]] = [
        {"json": given},
        {"data": given},
        {"params": given},
        {"files": {name: (None, value) for name, value in given.items()}},
    ]
    for way in ways:
        answer = client.post("/translate", **way)
        assert (answer.status_code, answer.json()) == (200, {"translatedText": "the cat!"}), way


FORM = "application/x-www-form-urlencoded"
PART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\ncaf%s\r\n--x--\r\n'


@pytest.mark.parametrize("cafe", ["café".encode(), b"caf%C3%A9"], ids=["bytes", "escaped"])
def test_a_form_in_utf_8_is_read_as_such(client: TestClient, cafe: bytes) -> None:
    """`curl -d` sends the bytes as they are."""
    content = b"source=en&target=de&q=" + cafe
    answer = client.post("/translate", content=content, headers={"Content-Type": FORM})
    assert answer.json() == {"translatedText": "café!"}


@pytest.mark.parametrize(
    ("kind", "content", "query"),
    [
        (FORM, b"q=caf\xe9", ""),
        (FORM, b"q=caf%E9", ""),
        ("multipart/form-data; boundary=x", PART % b"\xe9", ""),
        ("multipart/form-data; boundary=x; charset=undefined", PART % b"e", ""),
        ("multipart/form-data; boundary=x; charset=punycode", PART % b"e-", ""),
        (FORM, b"", "&q=caf%E9"),
    ],
    ids=["bytes", "escaped", "multipart", "no charset", "another charset", "query"],
)
def test_a_form_that_is_not_in_utf_8_is_refused(client: TestClient, kind: str, content: bytes, query: str) -> None:
    url = f"/translate?source=en&target=de{query}"
    answer = client.post(url, content=content, headers={"Content-Type": kind})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("Invalid request: the form is not in UTF-8 (")


def test_a_multipart_form_in_utf_8_is_read_as_such(client: TestClient) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = client.post("/translate?source=en&target=de", content=PART % "é".encode(), headers=kind)
    assert answer.json() == {"translatedText": "café!"}


def test_what_the_body_says_goes_over_the_query(client: TestClient) -> None:
    query = {"q": "a", "source": "en", "target": "de"}
    assert client.post("/translate", params=query, json={"q": "b"}).json() == {"translatedText": "b!"}


def test_a_repeated_field_is_no_batch_and_nothing_of_it_is_dropped(client: TestClient) -> None:
    query = client.post("/translate?q=a&q=b&source=en&target=de")
    form = client.post("/translate", data={"q": ["a", "b"], "source": "en", "target": "de"})
    for answer in (query, form):
        assert answer.status_code == 400
        assert answer.json()["error"] == "Invalid request: q is given more than once"
    for twice in ("source=&source=en", "source=en&alternatives=1&alternatives=2"):
        assert client.post(f"/translate?q=a&target=de&{twice}").status_code == 400


def test_a_batch_gives_lists(client: TestClient) -> None:
    answer = translate(client, q=["the cat", "", "the mat"], source="auto", alternatives=2)
    assert answer["translatedText"] == ["the cat!", "", "the mat!"]
    assert answer["alternatives"] == [["the cat!!", "the cat!!!"], [], ["the mat!!", "the mat!!!"]]
    assert [detected["language"] for detected in answer["detectedLanguage"]] == ["en"] * 3


def test_a_batch_of_one_is_still_a_list(client: TestClient) -> None:
    assert translate(client, q=["a"]) == {"translatedText": ["a!"]}


def test_an_array_may_hold_nothing_but_an_empty_text(client: TestClient) -> None:
    for texts in ([""], ["", ""]):
        assert translate(client, q=texts) == {"translatedText": texts}
    found = client.post("/v2/translate", json={"text": [""], "source_lang": "EN", "target_lang": "DE"})
    assert [each["text"] for each in found.json()["translations"]] == [""]


def test_what_is_null_is_not_given(client: TestClient) -> None:
    assert translate(client, q="a", format=None, alternatives=None, api_key=None) == {"translatedText": "a!"}


def test_paragraphs_sentences_and_spaces_are_kept(client: TestClient) -> None:
    text = "  The cat sat.   The mat lay.\r\n\r\n\tIt rained!\n"
    assert translate(client, q=text)["translatedText"] == "  The cat sat.!   The mat lay.!\r\n\r\n\tIt rained!!\n"


def test_marks_alone_are_no_sentence_and_stay(client: TestClient) -> None:
    assert translate(client, q="the cat\n\n* * *\n→ :)\n42")["translatedText"] == "the cat!\n\n* * *\n→ :)\n42!"
    text, translated = "<p>the cat <code>x</code>.</p><a>|</a>", "<p>the cat! <code>x</code>.</p><a>|</a>"
    assert translate(client, q=text, format="html")["translatedText"] == translated
    assert translate(client, q="—", alternatives=2) == {"translatedText": "—", "alternatives": []}


def test_html_keeps_its_tags(client: TestClient) -> None:
    text = '<p class="x">the cat &amp; <b>the mat</b></p><script>a < b</script>'
    translated = '<p class="x">the cat &amp; <b>the mat</b>!</p><script>a < b</script>'
    assert translate(client, q=text, format="html")["translatedText"] == translated


def test_text_into_its_own_language_is_left_alone(client: TestClient) -> None:
    assert translate(client, q="die Katze", source="de", target="de") == {"translatedText": "die Katze"}


def test_languages_and_settings(client: TestClient) -> None:
    assert client.get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "ko", "name": "Korean", "targets": ["en"]},
    ]
    shown = client.get("/frontend/settings").json()
    assert (shown["charLimit"], shown["keyRequired"], shown["language"]["target"]["name"]) == (20_000, False, "German")
    assert client.get("/health").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": 3}, "Invalid request: q must be a string or an array of strings"),
        ({"q": [None]}, "Invalid request: q must be a string or an array of strings"),
        ({"q": ["a", 3]}, "Invalid request: q must be a string or an array of strings"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"source": ["en"]}, "Invalid request: source must be a string"),
        ({"source": "zz"}, "zz is not supported"),
        ({"target": "zz", "source": "auto"}, "zz is not supported"),
        ({"source": "en", "target": "ko"}, "en to ko is not supported"),
        ({"format": "xml"}, "xml format is not supported"),
        ({"alternatives": "x"}, "Invalid request: alternatives is not a number, or too large a one"),
        ({"alternatives": True}, "Invalid request: alternatives is not a number, or too large a one"),
        ({"alternatives": 0.5}, "Invalid request: alternatives is not a whole number"),
        ({"alternatives": -1}, "Invalid request: alternatives (-1) is not within 0 and 8"),
        ({"alternatives": 99}, "Invalid request: alternatives (99) is not within 0 and 8"),
        ({"q": "x" * 20_001}, "Invalid request: request (20001) exceeds text limit (20000)"),
        ({"q": ["x"] * 129}, "Invalid request: request (129) exceeds batch limit (128)"),
    ],
)
def test_a_wrong_request_gets_one_line_that_says_why(client: TestClient, body: dict[str, Any], error: str) -> None:
    answer = client.post("/translate", json={"q": "a", "source": "en", "target": "de"} | body)
    assert (answer.status_code, answer.json()) == (400, {"error": error})


@pytest.mark.parametrize("body", [b"{", b'{"q": "\xff"}', b"[1]", b'{"q": "\\ud800"}', b"[" * 100_000, b"NaN"])
def test_what_is_no_json_object_is_refused(client: TestClient, body: bytes) -> None:
    answer = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("Invalid request: the body is no")


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "missing q parameter (the body has no Content-Type; JSON needs application/json)"),
        (
            {"Content-Type": "application/x-www-form-urlencoded"},  # curl's own
            "missing q parameter (the body has Content-Type application/x-www-form-urlencoded; "
            "JSON needs application/json)",
        ),
        (
            {"Content-Type": "text/plain; charset=utf-8"},
            "missing q parameter (the body has Content-Type text/plain; JSON needs application/json)",
        ),
        (
            {"Content-Type": "application/json", "Content-Encoding": "gzip"},
            "Content-Encoding gzip is not supported; send it as it is",
        ),
    ],
)
def test_a_body_that_cannot_be_read_is_told_why(client: TestClient, headers: dict[str, str], reason: str) -> None:
    answer = client.post("/translate", content=b'{"q": "a"}', headers=headers)
    assert (answer.status_code, answer.json()) == (400, {"error": f"Invalid request: {reason}"})


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_without_a_body_its_kind_does_not_matter(client: TestClient, kind: str) -> None:
    headers = {"Content-Type": kind}
    assert "character_count" in client.get("/v2/usage", headers=headers).json()
    languages = client.get("/v2/languages?type=target", headers=headers).json()
    assert [each["language"] for each in languages] == ["DE", "EN"]
    query = {"q": "a", "source": "en", "target": "de"}
    assert client.post("/translate", params=query, headers=headers).json() == {"translatedText": "a!"}
    answer = client.post("/translate", headers=headers)
    assert (answer.status_code, answer.json()) == (400, {"error": "Invalid request: missing q parameter"})


def test_json_may_begin_with_a_byte_order_mark(client: TestClient) -> None:
    content = b'\xef\xbb\xbf{"q": "a", "source": "en", "target": "de"}'
    answer = client.post("/translate", content=content, headers={"Content-Type": "application/json"})
    assert answer.json() == {"translatedText": "a!"}


@pytest.mark.parametrize("form", ["text", "html"])
def test_a_text_may_begin_with_a_byte_order_mark(client: TestClient, form: str) -> None:
    assert translate(client, q="\ufeffthe cat", format=form) == {"translatedText": "the cat!"}
    assert translate(client, q=["\ufeffa", "b"], format=form) == {"translatedText": ["a!", "b!"]}
    answer = client.post("/api/sentences", json={"q": "\ufeffthe cat", "source": "en", "target": "de"}).json()
    assert answer["source"]["sentences"] == ["the cat"]


def test_every_error_is_json_in_the_clients_shape(client: TestClient) -> None:
    assert (client.get("/translate").status_code, client.get("/translate").json()) == (
        405,
        {"error": "Method Not Allowed"},
    )
    assert client.get("/nothing").json() == {"error": "Not Found"}
    assert client.put("/nothing").headers["content-type"] == "application/json"
    assert client.get("/v2/translate").json() == {"message": "Method Not Allowed"}
    assert client.get("/v2/nothing").json() == {"message": "Not Found"}


def test_a_body_over_the_limit_is_refused_before_it_is_read(client: TestClient) -> None:
    for content in (b"x" * (2**20 + 1), iter([b"x" * 2**20, b"x"])):
        answer = client.post("/translate", content=content)
        assert answer.status_code == 413
        assert "1048576 bytes" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/health", "/nothing", "/translate", "/v2/usage", "/spec"])
def test_every_answer_has_the_headers_of_cors_and_security(client: TestClient, path: str) -> None:
    for answer in (client.get(path), client.post(path), client.options(path)):
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.options(path).status_code == 204


def test_script_from_a_user_is_never_html(client: TestClient) -> None:
    script = "<script>alert(1)</script>"
    for body in ({"q": script}, {"source": script}, {"target": script}, {"format": script}):
        answer = client.post("/translate", json={"q": "a", "source": "en", "target": "de"} | body)
        assert answer.headers["content-type"] == "application/json"
    escaped = "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert translate(client, q=escaped, format="html")["translatedText"] == escaped + "!"


def test_an_error_of_our_own_is_a_500_without_its_details() -> None:
    def fail(texts: list[str]) -> None:
        raise RuntimeError("secret")

    with TestClient(create_app([shouting(before=fail)]), raise_server_exceptions=False) as client:
        answer = client.post("/translate", json={"q": "a", "source": "en", "target": "de"})
        assert (answer.status_code, answer.json()) == (500, {"error": "internal error"})
        assert answer.headers["access-control-allow-origin"] == "*"
        assert client.get("/health").status_code == 200


# -------------------------------------------------------------------------------------------------------------- DeepL


def test_deepl_translates_lists(client: TestClient) -> None:
    body = {"text": ["the cat", "a"], "source_lang": "EN", "target_lang": "DE"}
    expected = [
        {"detected_source_language": "EN", "text": "the cat!", "billed_characters": 7},
        {"detected_source_language": "EN", "text": "a!", "billed_characters": 1},
    ]
    for way in ({"json": body}, {"data": body}):
        assert client.post("/v2/translate", **way).json() == {"translations": expected}  # type: ignore[arg-type]


def test_deepls_codes_find_a_model_of_that_very_variant() -> None:
    service = cast(Service, SimpleNamespace(languages=("pt_BR", "zh_Hans", "en")))
    codes = [deepl._code(service, code) for code in ("PT-BR", "pt_br", "ZH-HANS", "EN-US")]
    assert codes == ["pt_BR", "pt_BR", "zh_Hans", "en"]


def test_deepl_takes_variants_and_guesses_the_source(client: TestClient) -> None:
    answer = client.post("/v2/translate", json={"text": ["a"], "target_lang": "EN-GB"}).json()
    assert answer["translations"][0]["text"] in ("a!", "a")


def test_deepl_lists_languages_and_errors(client: TestClient) -> None:
    assert client.get("/v2/languages?type=target").json() == [
        {"language": "DE", "name": "German", "supports_formality": False},
        {"language": "EN", "name": "English", "supports_formality": False},
    ]
    assert client.get("/v2/languages?type=x").json() == {"message": "Value for 'type' not supported: x"}
    assert client.post("/v2/translate", json={"text": ["a"]}).json() == {
        "message": "Invalid request: missing target_lang parameter"
    }


LINES = "A cat. A\ndog. A hat.\n\nA mat"


@pytest.mark.parametrize(
    ("value", "form", "text", "expected"),
    [
        (None, "text", LINES, "A cat.! A!\ndog.! A hat.!\n\nA mat!"),
        ("1", "text", LINES, "A cat.! A!\ndog.! A hat.!\n\nA mat!"),
        ("0", "text", LINES, "A cat. A!\ndog. A hat.!\n\nA mat!"),
        ("nonewlines", "text", LINES, "A cat.! A dog.! A hat.!\n\nA mat!"),
        (None, "html", "<p>A cat\ndog. A hat.</p>", "<p>A cat dog.! A hat.!</p>"),
        ("nonewlines", "html", "<p>A cat\ndog. A hat.</p>", "<p>A cat dog.! A hat.!</p>"),
        ("1", "html", "<p>A cat\r\ndog. A hat.</p>", "<p>A cat!\r\ndog.! A hat.!</p>"),
        ("0", "html", "<p>A cat\ndog. A hat.</p><p>A mat</p>", "<p>A cat dog. A hat.!</p><p>A mat!</p>"),
    ],
)
@pytest.mark.parametrize("kind", ["json", "data"])
def test_split_sentences_says_what_divides_a_text(
    client: TestClient, kind: str, value: str | None, form: str, text: str, expected: str
) -> None:
    wish = {} if value is None else {"split_sentences": value}
    body = {"text": text, "source_lang": "EN", "target_lang": "DE"} | ({"tag_handling": form} if form == "html" else {})
    answer = client.post("/v2/translate", **{kind: body | wish})  # type: ignore[arg-type]
    assert answer.json()["translations"][0]["text"] == expected
    body = {"q": text, "source": "en", "target": "de", "format": form}
    assert client.post("/translate", **{kind: body | wish}).json() == {"translatedText": expected}  # type: ignore[arg-type]


def test_a_line_too_long_for_the_model_is_cut_as_without_a_server(client: TestClient) -> None:
    line = " ".join(["A cat sat on the mat."] * 100)
    translator = PAIRS[0]
    (found,) = translator.translate([line], split=False)
    assert found.is_cut
    assert translate(client, q=line, split_sentences="0") == {"translatedText": found.text}


@pytest.mark.parametrize("value", [0, False, "0", "false"])
def test_split_sentences_may_be_a_number_or_a_truth_value(client: TestClient, value: Any) -> None:
    assert translate(client, q="A cat. A dog.", split_sentences=value) == {"translatedText": "A cat. A dog.!"}


DEEPL = {"text": ["a"], "source_lang": "EN", "target_lang": "DE"}
LIBRETRANSLATE = {"q": "a", "source": "en", "target": "de"}


@pytest.mark.parametrize("path", ["/v2/translate", "/translate", "/api/sentences"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("glossary_id", "def3a26b"),
        ("glossary_ids", ["def3a26b"]),
        ("formality", "more"),
        ("formality", "less"),
        ("formality", "LESS"),
        ("context", "It is about animals."),
        ("split_sentences", "2"),
        ("split_sentences", ["1"] * 2),
        ("preserve_formatting", True),
        ("preserve_formatting", "1"),
        ("model_type", "quality_optimized"),
        ("outline_detection", False),
        ("non_splitting_tags", "b,i"),
        ("splitting_tags", ["p"]),
        ("ignore_tags", ["x"]),
        ("custom_instructions", ["Be brief."]),
        ("style_id", "a74d88fb"),
        ("translation_memory_id", "a74d88fb"),
        ("translation_memory_threshold", 75),
        ("tag_handling_version", "v1"),
        ("beam_size", 1),
        ("alpha", 0),
        ("prefix", "Die"),
    ],
)
def test_what_would_change_the_translation_is_refused_by_name(
    client: TestClient, path: str, name: str, value: Any
) -> None:
    body: dict[str, Any] = (DEEPL if path.startswith("/v2") else LIBRETRANSLATE) | {name: value}
    form = {key: list(map(str, each if isinstance(each, list) else [each])) for key, each in body.items()}
    for way in ({"json": body}, {"data": form}):
        answer = client.post(path, **way)
        assert answer.status_code == 400, way
        (told,) = answer.json().values()
        assert f"'{name}'" in told or f" {name} " in told


def test_what_the_other_api_calls_so_is_refused(client: TestClient) -> None:
    for path, body, name, value in (
        ("/v2/translate", DEEPL, "format", "html"),
        ("/v2/translate", DEEPL, "alternatives", 2),
        ("/v2/translate", DEEPL, "tag_handling", "xml"),
        ("/translate", LIBRETRANSLATE, "tag_handling", "html"),
    ):
        answer = client.post(path, json={**body, name: value})
        assert (answer.status_code, f"'{name}'" in answer.text) == (400, True)


@pytest.mark.parametrize("path", ["/v2/translate", "/translate"])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("show_billed_characters", [True, False, "1"]),
        ("preserve_formatting", [False, "0", 0, None]),
        ("formality", ["default", "prefer_more", "prefer_less", "", None]),
        ("glossary_id", ["", None]),
        ("glossary_ids", [[], None]),
        ("context", ["", None]),
        ("custom_instructions", [[]]),
        ("ignore_tags", [[], ""]),
        ("outline_detection", [True, "1"]),
        ("model_type", ["latency_optimized", "prefer_quality_optimized"]),
        ("tag_handling_version", ["v2"]),
        ("split_sentences", ["", None]),
        ("enable_beta_languages", [True]),
        ("a_name_that_nobody_knows", [7]),
    ],
)
def test_what_would_not_is_accepted(client: TestClient, path: str, name: str, values: list[Any]) -> None:
    body: dict[str, Any] = {**(DEEPL if path.startswith("/v2") else LIBRETRANSLATE)}
    plain = client.post(path, json=body)
    for value in values:
        answer = client.post(path, json=body | {name: value})
        assert (answer.status_code, answer.json()) == (200, plain.json()), value


# ------------------------------------------------------------------------------------------------- keys, rates, limits


def test_with_keys_only_clients_with_one_translate() -> None:
    body = {"q": "a", "source": "en", "target": "de"}
    with TestClient(create_app([shouting()], keys=["one", "two"])) as client:
        for wrong in ({}, {"api_key": "on"}, {"api_key": ""}, {"api_key": 1}, {"api_key": "ö\x00"}):
            assert client.post("/translate", json=body | wrong).status_code == 403, wrong
        assert client.post("/translate", json=body).json() == {"error": "Invalid API key"}
        assert client.post("/translate", json=body | {"api_key": "two"}).status_code == 200
        assert client.post("/translate", json=body, headers={"Authorization": "Bearer one"}).status_code == 200
        deepl = {"text": ["a"], "target_lang": "DE"}
        assert client.post("/v2/translate", json=deepl).json() == {"message": "Invalid API key"}
        key = {"Authorization": "DeepL-Auth-Key two"}
        assert client.post("/v2/translate", json=deepl, headers=key).status_code == 200
        assert client.get("/frontend/settings").json()["keyRequired"] is True
        assert client.get("/languages").status_code == 200


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_key_may_have_any_letters_in_a_header_too(encoding: str) -> None:
    """curl sends UTF-8, Python's own client Latin-1."""
    header = (b"authorization", "Bearer schlüssel".encode(encoding))
    assert _key(Request({"type": "http", "headers": [header]}), Parameters({})) == "schlüssel"


def test_without_keys_any_key_is_ignored(client: TestClient) -> None:
    assert translate(client, q="a", api_key="whatever") == {"translatedText": "a!"}


def test_a_client_over_its_rate_is_told_when_to_come_again() -> None:
    with TestClient(create_app([shouting()], requests_per_minute=2)) as client:
        answers = [client.post("/detect", json={"q": "a"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].json()["error"].startswith("Slowdown:")
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30


def test_wrong_keys_are_counted_too_and_keep_no_right_one_out() -> None:
    with TestClient(create_app([shouting()], keys=["one"], requests_per_minute=2)) as client:
        answers = [client.post("/detect", json={"q": "a", "api_key": key}) for key in ("x", "y", "z", "one", "")]
    assert [answer.status_code for answer in answers] == [403, 403, 429, 200, 403]


def test_the_rate_recovers_with_time_and_is_each_clients_own() -> None:
    now = 0.0
    rate = RateLimit(6, clock=lambda: now)
    for _ in range(6):
        rate.check("a")
    with pytest.raises(RefusalError) as refused:
        rate.check("a")
    assert refused.value.headers == {"Retry-After": "10"}
    rate.check("b")
    now = 10.0
    rate.check("a")


def test_limits_can_be_set() -> None:
    limits = Limits(body=1000, characters=5, batch=2, alternatives=1)
    with TestClient(create_app([shouting()], limits=limits)) as client:
        body = {"q": "a", "source": "en", "target": "de"}
        assert client.post("/translate", json=body | {"q": "123456"}).status_code == 400
        assert client.post("/translate", json=body | {"q": ["a", "b", "c"]}).status_code == 400
        assert client.post("/translate", json=body | {"alternatives": 2}).status_code == 400
        assert client.post("/translate", json=body | {"x": "y" * 1000}).status_code == 413
        assert client.get("/frontend/settings").json()["charLimit"] == 5


# --------------------------------------------------------------------------------------------------- described, counted


def test_the_page_is_served_beside_the_api(client: TestClient) -> None:
    page = client.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    script = client.get("/main.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert client.get("/../server.py").status_code == 404
    assert client.get("/%2e%2e/server.py").status_code == 404


def test_a_server_whose_worker_has_stopped_is_not_healthy() -> None:
    app = create_app([shouting()])
    client = TestClient(app)
    assert client.get("/health").status_code == 200
    app.state.gateway.service.close()
    assert client.get("/health").status_code == 503


def test_the_description_names_every_route(client: TestClient) -> None:
    spec = client.get("/spec").json()
    assert set(spec["paths"]) == PATHS
    for path, operations in spec["paths"].items():
        for method in operations:
            assert client.request(method.upper(), path).status_code != 405, path


def test_metrics_count_requests_by_route(client: TestClient) -> None:
    client.get("/health")
    client.get("/one-of-a-million-paths")
    lines = client.get("/metrics").text.splitlines()
    assert any(line.startswith('heedful_requests_total{route="/health",status="200"} ') for line in lines)
    assert not any("million" in line for line in lines)
    for line in lines:
        name, _, value = line.rpartition(" ")
        assert line.startswith("# TYPE heedful_") or (name.startswith("heedful_") and float(value) >= 0)


# --------------------------------------------------------------------------------------------------------- real models


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights, which knows its languages."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    model = {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    config = resolve({"model": model, "data": {"source_language": "en", "target_language": "de", "max_length": 40}})
    run_with_model(folder, TOKENIZER, config)
    samples = {"en": ["the cat sat on the mat with this"], "de": ["die Katze saß auf der Matte mit ß"]}
    language_detection.fit(samples).save(folder / "model")
    (folder / "metrics.jsonl").write_text('{"kind": "step", "step": 1, "loss": 2.0}\n')
    return folder


@pytest.fixture(scope="module")
def real(run: Path) -> Iterator[TestClient]:
    with TestClient(create_app([run], device="cpu", engine="torch")) as client:
        yield client


def test_a_served_model_translates_as_the_translator_does(real: TestClient, run: Path) -> None:
    texts = ["the cat sat", "on the mat", "a b c d e f g a b c d e f g", "the"]
    expected = [translation.text for translation in Translator.load(run, device="cpu", engine="torch").translate(texts)]
    assert translate(real, q=texts)["translatedText"] == expected


def test_the_language_is_guessed_with_what_the_model_knows(real: TestClient) -> None:
    answer = translate(real, q="the cat and the mat", source="auto")
    assert answer["detectedLanguage"]["language"] == "en"
    assert 50 < answer["detectedLanguage"]["confidence"] <= 100
    assert real.post("/detect", data={"q": "die Matte"}).json()[0]["language"] == "de"
    german = translate(real, q="die Katze saß auf der Matte", source="auto")
    assert german["translatedText"] == "die Katze saß auf der Matte"


LANGUAGES = {
    "en": ["the quick brown fox jumps over the lazy dog with a cat"] * 20,
    "de": ["die Katze saß auf der Matte und der Hund lief in den Wald"] * 20,
    "ko": ["고양이가 앉았다"] * 20,
}


@pytest.fixture
def knowing() -> Iterator[TestClient]:
    """A server that can tell three languages apart, and translates neither German into Korean nor the other way."""
    app = create_app([*PAIRS, shouting("en", "ko")])
    app.state.gateway.service.detector = language_detection.fit(LANGUAGES)
    with TestClient(app) as client:
        yield client


@pytest.mark.parametrize("path", ["/translate", "/api/sentences", "/api/trace"])
def test_text_in_the_script_of_a_language_that_does_not_lead_into_the_target_is_refused(
    knowing: TestClient, path: str
) -> None:
    answer = knowing.post(path, json={"q": "고양이가 앉았다", "source": "auto", "target": "de"})
    assert (answer.status_code, answer.json()) == (400, {"error": "ko to de is not supported"})
    assert knowing.post("/detect", data={"q": "고양이가 앉았다"}).json()[0]["language"] == "ko"


def test_a_name_that_looks_like_another_language_is_translated_all_the_same(knowing: TestClient) -> None:
    name = "Katze und Hund"
    assert knowing.post("/detect", data={"q": name}).json()[0] == {"language": "de", "confidence": 100}
    found = translate(knowing, q=["the dog", name], source="auto", target="ko")["detectedLanguage"]
    assert [each["language"] for each in found] == ["en", "en"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_html_is_translated_as_whole_sentences_with_its_tags_around_words(run: Path, engine: str) -> None:
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
    with TestClient(create_app([run], device="cpu", engine=engine)) as client:
        plain = translate(client, q="the cat sat on the mat", alternatives=2)
        tagged = translate(
            client, q='<p>the <b id="1">cat sat</b> on <i>the mat</i></p>', format="html", alternatives=2
        )
    for text, html in zip(
        [plain["translatedText"], *plain["alternatives"]],
        [tagged["translatedText"], *tagged["alternatives"]],
        strict=True,
    ):
        assert re.sub("<.*?>", "", html).split() == escape(text, quote=False).split()
        assert sorted(re.findall("<.*?>", html)) == sorted(["<p>", '<b id="1">', "</b>", "<i>", "</i>", "</p>"])


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["full", "closed", "fails", "no aligner"])
def test_a_translation_that_cannot_be_aligned_keeps_its_tags_all_the_same(
    run: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("no memory")

    if trouble == "fails":
        monkeypatch.setattr(Aligner, "align_translation", broken)
    if trouble == "no aligner":
        monkeypatch.setattr(Aligner, "load", broken)
    app = create_app([run], device="cpu", engine="torch")
    aligning = app.state.gateway.service.aligning
    with TestClient(app) as client:
        if trouble == "full":
            aligning.max_waiting = 0
        if trouble == "closed":
            aligning.close()
        plain = translate(client, q="the cat sat on the mat")["translatedText"]
        tagged = translate(client, q="<p>the <b>cat sat</b> on the mat</p>", format="html")["translatedText"]
    assert re.sub("<.*?>", "", tagged).split() == escape(plain, quote=False).split()
    assert re.findall("<.*?>", tagged) == ["<p>", "<b>", "</b>", "</p>"]


@pytest.mark.usefixtures("families_of_others")
def test_a_model_without_attention_places_tags_word_for_word_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = create_app([family_translator({"family": "bag"}, "en", "de")])
    with TestClient(app) as client:
        for _ in range(2):
            tagged = translate(client, q="<p>the <b>cat sat</b> on the mat</p>", format="html")["translatedText"]
            assert re.findall("<.*?>", tagged) == ["<p>", "<b>", "</b>", "</p>"]
    (record,) = [each for each in caplog.records if "word for word" in each.message]
    assert record.message.endswith("words cannot be aligned by model.family = 'bag': its decoder has no attention")
    assert record.exc_info is None


def test_what_the_first_html_needs_is_loaded_behind_the_start(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Path] = []

    def load(folder: Path, **options: Any) -> None:
        loaded.append(folder)

    monkeypatch.setattr(Aligner, "load", load)
    app = create_app([run], device="cpu", engine="torch")
    with TestClient(app) as client:
        asyncio.run(page_api.prepare(app.state.gateway))
        assert loaded == [run]
        translate(client, q="the <b>cat</b>", format="html")
    assert loaded == [run]


@pytest.mark.parametrize("device", ["mps", "cpu"])
def test_looking_and_aligning_have_their_own_weights_where_a_device_allows_one_thread(
    run: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "ONE_THREAD", (device,))
    (pair,) = load_pairs([run], device="cpu", engine="torch")
    service = Service([pair], BatchQueue())
    insight = asyncio.run(service.look(pair, lambda translator: translator))
    service.close()
    own, others = (weights(translator) for translator in (pair.translator, insight))
    assert [a.data_ptr() == b.data_ptr() for a, b in zip(own, others, strict=True)] == [device == "mps"] * len(own)
    assert all(torch.equal(a, b) for a, b in zip(own, others, strict=True))


def weights(translator: Translator) -> list[torch.Tensor]:
    return list(translator.engine.models[0].parameters())


def test_models_of_one_pair_are_an_ensemble(run: Path) -> None:
    with TestClient(create_app([run, run], device="cpu", engine="torch")) as client:
        assert len(client.get("/languages").json()) == 2
        translate(client, q="the cat")


def woven(side: dict[str, Any]) -> str:
    first, *spaces = side["spaces"]
    return "".join([first, *chain.from_iterable(zip(side["sentences"], spaces, strict=True))])


@pytest.mark.parametrize(
    "text",
    [
        "  The cat sat.   The mat lay.\r\n\r\n\tIt rained!\n",
        "the cat",
        " \n",
        "猫坐了。垫子在。",
        "a" * 2500,
        "It cost 3.5 e.g. in Mr. Cat's shop. Dr. Mat",
    ],
)
def test_sentences_are_those_of_translate(client: TestClient, text: str) -> None:
    body = {"q": text, "source": "en", "target": "de"}
    answer = client.post("/api/sentences", json=body).json()
    assert woven(answer["source"]) == text
    assert woven(answer["target"]) == translate(client, **body)["translatedText"]
    told = [translate(client, **body | {"q": each})["translatedText"] for each in answer["source"]["sentences"]]
    assert answer["target"]["sentences"] == told


def test_the_source_language_says_where_sentences_end(client: TestClient) -> None:
    found = {}
    for source, target in (("en", "de"), ("de", "en")):
        body = {"q": "bbl. age 33. Abe. Cab.", "source": source, "target": target}
        found[source] = client.post("/api/sentences", json=body).json()["source"]["sentences"]
    assert found == {"en": ["bbl. age 33.", "Abe.", "Cab."], "de": ["bbl. age 33. Abe.", "Cab."]}


def test_alternatives_of_a_text_have_the_greatest_sums_of_scores(client: TestClient) -> None:
    q = "A cat. A dog."
    answer = translate(client, q=q, alternatives=3)
    assert answer["translatedText"] == "A cat.! A dog.!"
    assert answer["alternatives"] == ["A cat.! A dog.!!", "A cat.!! A dog.!", "A cat.! A dog.!!!"]


def test_sentences_of_the_targets_language_are_left_alone(client: TestClient) -> None:
    body = {"q": "Die Katze.Die Matte. Es", "source": "de", "target": "de"}
    answer = client.post("/api/sentences", json=body).json()
    assert answer["source"] == answer["target"]
    assert woven(answer["target"]) == body["q"]


def test_the_language_of_sentences_is_guessed_unless_told(real: TestClient) -> None:
    answer = real.post("/api/sentences", json={"q": "the cat sat. The dog"}).json()
    assert (answer["source"]["language"], answer["target"]["language"]) == ("en", "de")


def test_the_model_can_be_looked_into(real: TestClient) -> None:
    found = real.post("/api/trace", json={"q": "the cat sat", "beam_size": 3}).json()
    assert len(found["hypotheses"]) == 3
    assert real.get("/api/model").json()["d_model"] == 16
    for d in (16, 9):
        assert real.get(f"/api/positions?n=8&d={d}").json()["d"] == d
    assert real.get("/api/run/metrics").json()["step"][0]["loss"] == 2.0


@pytest.mark.parametrize(
    ("given", "layers"),
    [([1, 0], [1, 0]), (["1", "0"], [1, 0]), ([], None), ([None], None), ([""], None)],
)
def test_layers_are_numbers_or_their_digits(given: list[Any], layers: list[int] | None) -> None:
    assert page_api.chosen_layers(Parameters({"layers": given})) == layers
    for wrong in ("x", "-1", "1.0", "9" * 10, True, 1.0):
        with pytest.raises(RefusalError, match="layers must be whole numbers"):
            page_api.chosen_layers(Parameters({"layers": [*given, wrong]}))


def test_a_model_without_its_run_has_no_curves(client: TestClient) -> None:
    assert client.get("/api/run/metrics").json() == {"step": [], "validation": []}


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        ("/api/trace", {"q": "a", "beam_size": 17}, "beam_size (17) is not within 1 and 16"),
        ("/api/trace", {"q": "a", "alpha": -1}, "alpha = -1.0: expected float >= 0.0"),
        ("/api/trace", {"q": "a", "layers": ["x"]}, "layers must be whole numbers"),
        ("/api/trace", {"q": "a", "layers": [True]}, "layers must be whole numbers"),
        ("/api/trace", {"q": "a", "layers": [7]}, "layers = 7"),
        ("/api/trace", {"q": "a", "hypothesis": 9}, "hypothesis = 9"),
        ("/api/trace", {"q": "a " * 500}, ""),
        ("/api/trace", {"q": "a", "prefix": "b " * 500}, ""),
        ("/api/trace", {"q": "a", "target_text": "☃" * 1000}, "data.max_length = "),
        ("/api/trace", {"q": "a", "source": "zz"}, "zz is not supported"),
        ("/api/sentences", {}, "missing q parameter"),
        ("/api/sentences", {"q": ["a"]}, "q must be a string"),
        ("/api/sentences", {"q": "a", "target": "zz"}, "zz is not supported"),
        ("/api/sentences", {"q": "a" * 20_001}, "request (20001) exceeds text limit (20000)"),
    ],
)
def test_a_wrong_wish_to_look_inside_is_refused(real: TestClient, path: str, body: dict[str, Any], error: str) -> None:
    answer = real.post(path, json=body)
    assert answer.status_code == 400
    assert error in answer.json()["error"]


# -------------------------------------------------------------------------------------------------------- real clients


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(create_app(PAIRS)) as url:
        yield url


def test_libretranslatepy(url: str) -> None:
    api = pytest.importorskip("libretranslatepy").LibreTranslateAPI(url)
    assert api.translate("the cat & ü", "en", "de") == "the cat & ü!"
    assert api.detect("the cat")[0]["language"] == "en"
    assert [language["code"] for language in api.languages()] == ["en", "de", "ko"]


def test_deep_translator(url: str) -> None:
    module = pytest.importorskip("deep_translator")
    translator = module.LibreTranslator(source="en", target="de", custom_url=f"{url}/", api_key="x")
    assert translator.translate("the cat") == "the cat!"
    assert translator.translate_batch(["a", "b"]) == ["a!", "b!"]


def test_deepl(url: str) -> None:
    client = pytest.importorskip("deepl").DeepLClient("key", server_url=url)
    results = client.translate_text(["the cat", "b"], source_lang="EN", target_lang="DE")
    assert [result.text for result in results] == ["the cat!", "b!"]
    assert [result.billed_characters for result in results] == [7, 1]
    assert [language.code for language in client.get_target_languages()] == ["DE", "EN"]
    assert client.get_usage().character.count > 0
    client.close()


def test_deepls_client_hears_what_is_not_supported(url: str) -> None:
    deepl_client = pytest.importorskip("deepl")
    client = deepl_client.DeepLClient("key", server_url=url)
    ask = partial(client.translate_text, "A cat. A dog.", source_lang="EN", target_lang="DE")
    plain = "A cat.! A dog.!"
    assert ask(formality="prefer_less", preserve_formatting=False, outline_detection=True).text == plain
    assert ask(split_sentences="1").text == ask(split_sentences="nonewlines").text == plain
    assert ask(split_sentences=deepl_client.SplitSentences.OFF).text == "A cat. A dog.!"
    wishes: dict[str, dict[str, Any]] = {
        "formality": {"formality": deepl_client.Formality.MORE},
        "glossary_id": {"glossary": "def3a26b"},
        "glossary_ids": {"glossary_ids": ["def3a26b"]},
        "context": {"context": "animals"},
        "style_id": {"style_rule": "a74d88fb"},
        "custom_instructions": {"custom_instructions": ["Be brief."]},
        "translation_memory_id": {"translation_memory": "a74d88fb"},
        "ignore_tags": {"tag_handling": "html", "ignore_tags": ["x"]},
    }
    for name, wish in wishes.items():
        with pytest.raises(deepl_client.DeepLException, match=f"'{name}'"):
            ask(**wish)
    client.close()


def test_a_long_text_fits_into_the_query(url: str) -> None:
    text = "ü" * 15_000
    translator = pytest.importorskip("deep_translator").LibreTranslator("en", "de", "x", custom_url=f"{url}/")
    assert translator.translate(text).replace(" ", "").strip("!").replace("!", "") == text


# ---------------------------------------------------------------------------------------------------------------- fuzz

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        "q",
        "source",
        "target",
        "format",
        "alternatives",
        "api_key",
        "text",
        "target_lang",
        "source_lang",
        "n",
        "d",
        "type",
    ]
) | st.text(max_size=5)
LIKELY = st.sampled_from(["en", "de", "auto", "html", "text", "1", 2, "<p>the <b>cat</p>", "The cat. The mat.", ["a"]])
KINDS = st.sampled_from(
    [
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
        "text/plain",
        "",
        "\x00",
    ]
)
ODD_PATHS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8).map("/".__add__)
OFTEN = settings(max_examples=150, suppress_health_check=list(HealthCheck))


def holds(answer: Any) -> None:
    """Never a 500, always JSON (but for the metrics)."""
    assert answer.status_code in (200, 204, 307, 400, 403, 404, 405, 413), (answer.status_code, answer.text)
    if answer.content and not answer.headers["content-type"].startswith(("text/plain", "text/html", "text/css")):
        assert answer.json() is not None


@pytest.mark.slow
@OFTEN
@given(path=st.sampled_from(sorted(PATHS)), body=st.dictionaries(NAMES, VALUES | LIKELY, max_size=6))
def test_no_json_brings_the_server_down(client: TestClient, path: str, body: dict[str, Any]) -> None:
    holds(client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"}))


@OFTEN
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "HEAD", "DELETE"]),
    path=st.sampled_from(sorted(PATHS))
    | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8).map(
        lambda text: f"/{text.lstrip('/')}"
    ),  # //x: a host
    query=st.lists(st.tuples(NAMES, st.text(max_size=8) | LIKELY.map(str)), max_size=5),
    body=st.binary(max_size=60),
    kind=KINDS,
)
def test_no_bytes_bring_the_server_down(
    client: TestClient, method: str, path: str, query: list[tuple[str, str]], body: bytes, kind: str
) -> None:
    headers = {"Content-Type": kind.encode()}
    holds(client.request(method, path, params=query, content=body, headers=headers, follow_redirects=False))  # type: ignore[arg-type]


@OFTEN
@given(fields=st.dictionaries(NAMES, st.text(max_size=20) | LIKELY.map(str), max_size=6))
def test_no_form_brings_the_server_down(client: TestClient, fields: dict[str, str]) -> None:
    holds(client.post("/translate", data=fields))
    holds(client.post("/translate", files={name: (None, value) for name, value in fields.items()}))


@pytest.mark.slow
@settings(OFTEN, max_examples=40)
@given(
    q=st.text(min_size=1, max_size=30),
    body=st.dictionaries(
        st.sampled_from(["beam_size", "alpha", "prefix", "layers", "target_text"]),
        LIKELY | st.integers(-1, 5) | st.floats() | st.lists(st.integers(-1, 2), max_size=2) | st.text(max_size=30),
    ),
)
def test_no_wish_to_look_inside_brings_the_server_down(real: TestClient, q: str, body: dict[str, Any]) -> None:
    content = json.dumps({"q": q} | body)
    holds(real.post("/api/trace", content=content, headers={"Content-Type": "application/json"}))


@pytest.mark.slow
@settings(OFTEN, max_examples=40)
@given(q=st.text(max_size=60) | st.lists(st.text(max_size=20), max_size=3), form=st.sampled_from(["text", "html"]))
def test_no_text_brings_a_real_model_down(real: TestClient, q: str | list[str], form: str) -> None:
    body = {"q": q, "source": "en", "target": "de", "format": form, "alternatives": 1}
    for path in ("/translate", "/api/sentences"):
        holds(real.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"}))


def test_the_server_is_alive_at_the_end(client: TestClient) -> None:
    assert translate(client, q="the cat") == {"translatedText": "the cat!"}
    assert "heedful_requests_in_flight 1" in client.get("/metrics").text
