"""All that the page shows of one translation, as JSON: pieces, words, beam tree, top choices, attention, vectors.

`heedful serve` answers with it, `heedful attend` embeds it. A family of models has the kinds of attention that it has,
or none, and its own sizes. Weights travel as bytes (1 = 255) in base64, a third of
what JSON numbers would take; those of a row sum to 255. Of a long sentence only the layers that are asked for are sent.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from heedful.config.settings import DEFAULT_FAMILY, FamilyConfig, ModelConfig
from heedful.config.supported_settings import NUMBERS
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError, DataError, DivergedError
from heedful.inspection.attention_map import AttentionMap, Kind, Tokens, check_kind, map_of_ids, the_model
from heedful.inspection.head_roles import has_grammar, head_roles, known_roles
from heedful.inspection.vectors import halves, num_vector_bytes, vectors, worked_kinds
from heedful.model.embedding import sinusoids
from heedful.model.parameter_count import count, shapes_of
from heedful.score.card import load_card
from heedful.translate.engine import Request, SearchOptions, length_limit
from heedful.translate.forced_pass import packed_sources
from heedful.translate.search import BeamRule, BeamStep, Hypothesis, Search, beam_steps, length_penalty, new_beams
from heedful.translate.translation import Translator, one_line

TOP = 8  # choices shown at each place
MANY_PIECES = 128  # more, and only the layers that are asked for are sent
ALTERNATIVE_BYTES = 300_000  # of attention; alternatives after that come without theirs, which can be asked for
VECTOR_BYTES = 1_000_000  # more, and only those of the layers that are asked for are sent
SIZES = ("encoder_layers", "decoder_layers", "num_heads", "d_model", "d_ff", "positions", "dropout")
TRAINED_WITH = ("label_smoothing", "steps", "batch_tokens", "warmup_steps", "learning_rate_factor", "cooldown_steps")
SEARCHED_WITH = ("beam_size", "alpha")


def trace(
    translator: Translator,
    text: str,
    *,
    options: SearchOptions | None = None,
    prefix: str | None = None,
    layers: Sequence[int] | None = None,
    target: str | None = None,
    hypothesis: int = 0,
    other_vector_bytes: int = 0,
) -> dict[str, Any]:
    """What the model does with a text; with `target`, with this translation of it instead of its own.

    Attention and vectors are those of one hypothesis, the best unless told; the others bring theirs along as far as
    they are small enough.
    """
    options = options or translator.options
    options = msgspec.structs.replace(options, n_best=options.beam_size)
    source_ids = _checked(translator, text)
    steps, found = (
        beam(translator, source_ids, prefix or "", options)
        if target is None
        else ([], [Hypothesis(tuple(_checked_target(translator, target)), math.nan, math.nan, ())])
    )
    if not 0 <= hypothesis < len(found):
        raise DataError(f"hypothesis = {hypothesis}: there are {len(found)} of them, counted from 0")
    kept = {number: map_of_ids(translator, source_ids, found[number].ids) for number in {0, hypothesis}}
    chosen = kept[hypothesis]
    shown = _layers(chosen, layers)
    maps = (kept.get(number) or map_of_ids(translator, source_ids, each.ids) for number, each in enumerate(found))
    has_vectors = layers is not None or num_vector_bytes(chosen, shown) <= VECTOR_BYTES
    sent = _with_numbers(maps, chosen, shown, other_vector_bytes)
    return {
        "source": {"text": text, "language": translator.source_language, **_tokens(chosen.source)},
        "target": {"language": translator.target_language, "given": target is not None, "prefix": prefix or ""},
        "beam": {"width": options.beam_size, "alpha": options.alpha, "steps": steps},
        "heads": {kind: roles.record() for kind, roles in head_roles(translator, kept[0]).items()},
        "model": model_facts(translator),
        "hypotheses": [
            {**_hypothesis(translator, each, its_map), **numbers}
            for each, (its_map, numbers) in zip(found, sent, strict=True)
        ],
        "attention": {kind: _weights(chosen, kind, shown) for kind in chosen.weights_LHTS},
        "worked": worked_kinds(chosen),
        "vectors": vectors(chosen, shown) if has_vectors else None,
    }


def prepare(translator: Translator) -> None:
    """Find the roles of the heads now, which would make the first trace of a model slow."""
    known_roles(translator)


def look(translator: Translator, text: str, target: str | None = None) -> AttentionMap:
    """Where the model looks for its best translation of a text, or for a given one."""
    source_ids = _checked(translator, text)
    if target is None:
        target_ids: Sequence[int] = beam(translator, source_ids, "", translator.options)[1][0].ids
    else:
        target_ids = _checked_target(translator, target)
    found = map_of_ids(translator, source_ids, target_ids)
    check_kind(found.family, found.weights_LHTS)
    return found


def weights_record(found: AttentionMap) -> dict[str, Any]:
    """The weights as plain numbers, for programs: of every kind [layer][head][row][column]."""
    return {
        kind: {
            "rows": list(found.rows(kind).pieces),
            "columns": list(found.columns(kind).pieces),
            "weights": [[[[round(w, 5) for w in row] for row in h] for h in layer] for layer in weights.tolist()],
        }
        for kind, weights in found.weights_LHTS.items()
    }


def _checked(translator: Translator, text: str) -> list[int]:
    """The ids of one sentence that the model takes whole."""
    line = one_line(text)
    parts = translator.cutter.parts(line, translator.tokenizer.encode(line))
    if not parts:
        raise DataError("there is no text to look at: the sentence is blank")
    if len(parts) > 1:
        limit = translator.config.data.max_length
        raise DataError(f"the text has more than {limit} pieces, and is translated in parts; look at one sentence")
    return parts[0].ids


def _checked_target(translator: Translator, target: str) -> list[int]:
    """The ids of a given translation. It may be as long as the model's own at most, as maps grow with the square."""
    ids, data, decode = translator.tokenizer.encode(one_line(target)), translator.config.data, translator.config.decode
    if len(ids) > data.max_length + decode.max_extra:
        raise DataError(
            f"the given translation has {len(ids)} pieces, more than data.max_length = {data.max_length} and "
            f"decode.max_extra = {decode.max_extra} allow; give a shorter one"
        )
    return ids


# ---------------------------------------------------------------------------------------------------------------- beam


def beam(
    translator: Translator, source_ids: Sequence[int], prefix: str, options: SearchOptions
) -> tuple[list[list[dict[str, Any]]], list[Hypothesis]]:
    """The tree of a beam search, step by step, and its finished hypotheses, best first."""
    model, tokenizer = the_model(translator), translator.tokenizer
    prefix_ids = tokenizer.encode(one_line(prefix)) if prefix else []
    limit = length_limit(Request(source_ids, prefix_ids), options, position_limit=model.position_limit)
    rule = BeamRule(options.beam_size, options.alpha, options.n_best)
    source = packed_sources([source_ids], model.device)
    with torch.no_grad():
        memory = model.encode(source)
    decoder = model.new_decoder()
    state = decoder.empty(1, rule.width, source_length=source.longest)
    state.admit(memory, [0], longest=source.longest)
    beams = new_beams(rule, [limit], prefixes=[prefix_ids], like=memory.hidden_SD)
    search = Search(rule, beams, num_steps=limit + 1)
    steps: list[list[dict[str, Any]]] = []
    for step in beam_steps(decoder.step, state, search):
        steps.append(_nodes(step, len(steps) + 1, rule, tokenizer))
        if search.is_done():
            break
    hypotheses = search.history.hypotheses([0], [0], rule)[0]
    if not hypotheses:
        raise DivergedError
    return steps, hypotheses


def _nodes(step: BeamStep, length: int, rule: BeamRule, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The live hypotheses at their places, then those that have just ended."""
    parents, tokens = step.parents_NW[0].tolist(), step.tokens_NW[0].tolist()
    live, ended = step.log_probs_NW[0].tolist(), step.finished_NW[0].tolist()
    nodes = [
        {"place": place, "parent": parents[place], "logp": round(logp, 4), "done": False, **_named(tokenizer, token)}
        for place, (logp, token) in enumerate(zip(live, tokens, strict=True))
        if logp > -math.inf
    ]
    penalty = length_penalty(float(length), rule.alpha)
    for place, logp in enumerate(ended):
        if logp > -math.inf:
            end = {"parent": place, "logp": round(logp, 4), "done": True, "score": round(logp / penalty, 4)}
            nodes.append({**end, **_named(tokenizer, rule.eos_id)})
    return nodes


def _named(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    return {"token": token, "piece": tokenizer.pieces([token])[0]}


# --------------------------------------------------------------------------------------------------------- hypotheses


def _hypothesis(translator: Translator, hypothesis: Hypothesis, found: AttentionMap) -> dict[str, Any]:
    """A translation: its words, how likely each piece was, and what else could have stood there."""
    tokens = _choices(translator.tokenizer, found.reading.log_probs_TV, found.target.ids)
    total = sum(token["logp"] for token in tokens)
    return {
        "text": one_line(translator.tokenizer.decode(hypothesis.ids)),
        "score": _number(hypothesis.score),
        "log_prob": round(total, 4),
        **_tokens(found.target),
        "tokens": tokens,
        "examples": examples(found),
    }


def _choices(tokenizer: Tokenizer, log_probs_TV: Tensor, ids: Sequence[int]) -> list[dict[str, Any]]:
    best = log_probs_TV.topk(min(TOP, log_probs_TV.size(1)), dim=-1)
    chosen = log_probs_TV.gather(1, torch.tensor(ids)[:, None]).squeeze(1).tolist()
    return [
        {
            **_token(tokenizer, token),
            "p": _probability(logp),
            "logp": round(logp, 4),
            "top": [{**_token(tokenizer, i), "p": _probability(v)} for i, v in zip(indices, values, strict=True)],
        }
        for token, logp, indices, values in zip(ids, chosen, best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def examples(found: AttentionMap) -> list[dict[str, Any]]:
    """The training examples that one sentence gives: each prefix, the next word, and its probability."""
    target, log_probs_TV = found.target, found.reading.log_probs_TV
    of_word = [0.0] * len(target.words)
    for row, (token, word) in enumerate(zip(target.ids, target.word_of_piece, strict=True)):
        of_word[word] += float(log_probs_TV[row, token])
    return [
        {"prefix": prefix, "next": word, "p": _probability(log_prob)}
        for prefix, word, log_prob in zip(target.prefixes(), target.words, of_word, strict=True)
    ]


def _tokens(tokens: Tokens) -> dict[str, Any]:
    return {"pieces": list(tokens.pieces), "words": list(tokens.words), "word_of_piece": list(tokens.word_of_piece)}


def _token(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    return {"id": token, "piece": tokenizer.pieces([token])[0]}


def _probability(logp: float) -> float:
    return float(f"{math.exp(logp):.4g}")


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return round(value, 4) if math.isfinite(value) else None


# ---------------------------------------------------------------------------------------------------------- attention


def _layers(found: AttentionMap, asked: Sequence[int] | None) -> list[int]:
    """The layers asked for. By default all, or for a long sentence the last of the encoder and of the decoder."""
    last = {weights.size(0) - 1 for weights in found.weights_LHTS.values()}
    num_layers = max(last, default=-1) + 1
    if asked is not None:
        has = f"it has 0 to {num_layers - 1}" if num_layers else "it has no attention"
        for layer in asked:
            if not 0 <= layer < num_layers:
                raise DataError(f"layers = {layer} is no layer of this model; {has}")
        return sorted(set(asked))
    longest = max(len(found.source.ids), len(found.target.ids))
    return list(range(num_layers)) if longest <= MANY_PIECES else sorted(last)


def _weights(found: AttentionMap, kind: Kind, layers: Iterable[int]) -> dict[str, Any]:
    weights_LHTS = found.weights_LHTS[kind]
    here = [layer for layer in layers if layer < weights_LHTS.size(0)]
    bytes_LHTS = _parts_of_255(weights_LHTS[here])
    data = base64.b64encode(bytes_LHTS.numpy().tobytes()).decode("ascii")
    sizes = {"layers": here, "num_layers": weights_LHTS.size(0)}
    return {"shape": list(bytes_LHTS.shape), "dtype": "u8", **sizes, "data": data}


def _parts_of_255(weights_LHTS: Tensor) -> Tensor:
    """Weights as bytes of which each row sums to 255: rounded down, then up where most was lost."""
    scaled_LHTS = weights_LHTS.double() * 255
    bytes_LHTS = scaled_LHTS.floor()
    missing_LHT1 = 255 - bytes_LHTS.sum(dim=-1, keepdim=True)
    by_loss_LHTS = (scaled_LHTS - bytes_LHTS).argsort(dim=-1, descending=True, stable=True)
    is_up_LHTS = torch.arange(bytes_LHTS.size(-1)) < missing_LHT1  # of those that have lost most
    return bytes_LHTS.scatter_add_(-1, by_loss_LHTS, is_up_LHTS.double()).to(torch.uint8)


def _with_numbers(
    maps: Iterable[AttentionMap], chosen: AttentionMap, shown: Sequence[int], vector_bytes: int
) -> Iterator[tuple[AttentionMap, dict[str, Any]]]:
    """Each map with the attention and vectors to send beside those of the chosen one, as long as there is room.

    Maps are made as they are asked for, and not kept: those of a long sentence are large.
    """
    kinds = [kind for kind in chosen.weights_LHTS if kind != "encoder"]  # which reads the source alone
    room, vector_room = ALTERNATIVE_BYTES, vector_bytes
    for found in maps:
        numbers: dict[str, Any] = {"attention": None, "vectors": None}
        if found is not chosen:
            room -= sum(found.weights_LHTS[kind][:1].numel() for kind in kinds) * len(shown)
            vector_room -= num_vector_bytes(found, shown)
            if room >= 0:
                numbers["attention"] = {kind: _weights(found, kind, shown) for kind in kinds}
            if room >= 0 and vector_room >= 0:
                numbers["vectors"] = vectors(found, shown)
        yield found, numbers


# --------------------------------------------------------------------------------------------------- model, positions


def model_facts(translator: Translator) -> dict[str, Any]:
    """What the model is: languages, sizes, and how it was trained and searches."""
    model, config = the_model(translator), translator.config
    parts = ((config.train, TRAINED_WITH), (config.decode, SEARCHED_WITH))
    return {
        **family_sizes(model.config),
        "source": translator.source_language,
        "target": translator.target_language,
        "parameters": count(shapes_of(model)),
        "vocab_size": model.vocab_size,
        **{name: getattr(part, name) for part, names in parts for name in names},
        "roles_from": "corpus" if has_grammar(translator) else "sentence",
    }


def family_sizes(model: FamilyConfig) -> dict[str, Any]:
    """The sizes of a Transformer and its departures from the paper; of another family all its settings."""
    settings: dict[str, Any] = msgspec.to_builtins(model.spelled_out)
    if not isinstance(model, ModelConfig) or model.family != DEFAULT_FAMILY:
        return {name: value for name, value in settings.items() if value is not None}
    paper, sizes = type(model)(), {name: getattr(model, name) for name in SIZES}
    switches = {name: settings[name] for name in settings.keys() - NUMBERS.keys()}
    departures = {name: value for name, value in sorted(switches.items()) if value != getattr(paper, name)}
    return {"d_k": model.head_d_k, "d_v": model.head_d_v} | sizes | departures


def folder_card(folder: Path | None) -> dict[str, Any] | None:
    """What the card in a model's folder says, without settings and the counts of each sentence; None: it has none."""
    if folder is None:
        return None
    try:
        found: dict[str, Any] = msgspec.to_builtins(load_card(folder))
    except CheckpointError:
        return None
    del found["config"]
    for evaluation in found["evaluations"]:
        del evaluation["sentence_counts"]
    return found


def positions(num_positions: int, d_model: int) -> dict[str, Any]:
    """§3.5: the sinusoids of the first positions."""
    table_LD = sinusoids(num_positions, d_model)
    return {"n": num_positions, "d": d_model, "table": halves(table_LD)}
