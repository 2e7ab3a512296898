"""Chinese, Japanese and Thai: the script of the gold side decides how texts are cut into tokens."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import (
    Document,
    EvaluationSample,
    MetricResult,
    Response,
    RetrievedDocument,
    SystemOutputs,
    evaluate,
    evaluate_stream,
    metric,
)
from auepora_eval.core.metrics_base import BatchMetric, RunInfo, has_signature
from auepora_eval.core.scores import Scores
from auepora_eval.engine.repeats import evaluate_repeats
from auepora_eval.errors import AueporaWarning, BadTypeError, BadValueError, MissingDependencyError
from auepora_eval.io.jsonl import save_jsonl_dataset, save_jsonl_outputs
from auepora_eval.metrics.answer_base import named_tokenizer
from auepora_eval.scale.sharded import evaluate_files

Rows = Sequence[tuple[str, str, str, str]]
Data = tuple[list[EvaluationSample], list[SystemOutputs]]

CHINESE: Rows = [  # query, reference, answer, document
    ("蓝湖哪一年结冰？", "蓝湖在1901年冬天结冰。", "蓝湖结冰是在1901年冬天。", "1901年冬天，蓝湖结冰，渡轮停运。"),
    ("渡轮哪天开行？", "渡轮每周一开行。", "每周一开行", "渡轮每周一开行，船票便宜。"),
    ("谁绘制了地图？", "李岚绘制了地图。", "地图由李岚绘制", "李岚在夏天绘制了地图。"),
    ("北岭山有多高？", "北岭山高八百米。", "北岭山高八百米。", "北岭山高八百米，山上有雪。"),
    ("学院教什么语言？", "汉语和法语", "汉语、法语、英语", "学院教汉语和法语。"),
]
JAPANESE: Rows = [
    (
        "青湖はいつ凍りましたか。",
        "青湖は冬に凍りました。",
        "冬に青湖が凍りました。",
        "青湖は冬に凍り、船は止まりました。",
    ),
    ("船はいつ出ますか。", "月曜日に出ます。", "船は月曜日に出ます。", "船は月曜日に出ます。"),
    ("山の高さは？", "八百メートル", "山は八百メートルです", "山は八百メートルです。"),
    ("誰が地図を作りましたか。", "花子さんが作りました。", "花子さん", "花子さんが地図を作りました。"),
    ("何語を教えますか。", "日本語と英語", "英語と日本語", "学校は日本語と英語を教えます。"),
]
THAI: Rows = [
    (
        "ทะเลสาบเป็นน้ำแข็งเมื่อไร",
        "ทะเลสาบเป็นน้ำแข็งในฤดูหนาว",
        "ในฤดูหนาวทะเลสาบเป็นน้ำแข็ง",
        "ทะเลสาบเป็นน้ำแข็งในฤดูหนาวและเรือหยุด",
    ),
    ("เรือออกวันไหน", "วันจันทร์", "เรือออกวันจันทร์", "เรือออกวันจันทร์"),
    ("ภูเขาสูงเท่าไร", "แปดร้อยเมตร", "สูงแปดร้อยเมตร", "ภูเขาสูงแปดร้อยเมตร"),
    ("ใครทำแผนที่", "ครูดาวทำแผนที่", "ครูดาว", "ครูดาวทำแผนที่"),
    ("สอนภาษาอะไร", "ภาษาไทยและอังกฤษ", "ภาษาอังกฤษและไทย", "โรงเรียนสอนภาษาไทยและอังกฤษ"),
]
ENGLISH: Rows = [
    ("When does the ferry run?", "The ferry runs on Mondays.", "It runs on Mondays", "The ferry runs on Mondays."),
    ("Who drew the map?", "Lan Li drew the map.", "The map was drawn by Lan Li", "Lan Li drew the map in summer."),
    ("How high is it?", "800 metres", "It is 800 metres high", "The mountain is 800 metres high."),
]
OVERLAP = (
    *("exact_match", "containment", "token_f1", "rouge1_answer", "rougeL_answer", "rougeL_query", "answer_relevance"),
    *("evidence_overlap", "support_density", "support_coverage", "hallucination_rate", "distinct_n"),
    *("response_diversity", "failure_attribution"),
)


def data(rows: Rows) -> Data:
    samples, outputs = [], []
    for place, (query, reference, answer, text) in enumerate(rows):
        document = Document(f"d{place}", text)
        gold = Response(reference)
        samples.append(EvaluationSample(f"q{place}", query, reference_answer=gold, relevant_docs=[document]))
        outputs.append(SystemOutputs([RetrievedDocument(document, 1.0, 1)], Response(answer)))
    return samples, outputs


def by_name(results: Sequence[MetricResult]) -> dict[str, MetricResult]:
    return {result.name: result for result in results}


# The figures of sacrebleu (zh or char), and of ROUGE and F1 over characters by another tokenizer.
WANTED = [  # language, rows, value of each metric
    ("zh", CHINESE, {"token_f1": 0.8730234678, "rouge1_answer": 0.8730234678, "rouge2_answer": 0.7233986928}),
    ("zh", CHINESE, {"rougeL_answer": 0.7737753475, "bleu": 58.2511, "chrf": 55.8244269411}),
    ("ja", JAPANESE, {"token_f1": 0.8192857143, "rouge2_answer": 0.7076190476, "rougeL_answer": 0.6792857143}),
    ("ja", JAPANESE, {"bleu": 60.8937, "chrf": 52.7237868117}),
    ("th", THAI, {"token_f1": 0.8401515152, "bleu": 76.5567, "chrf": 71.8859697104}),
]


@pytest.mark.parametrize(("rows", "wanted"), [row[1:] for row in WANTED])
def test_figures_by_characters(rows: Rows, wanted: dict[str, float]) -> None:
    results = by_name(evaluate(*data(rows), list(wanted)))
    assert {name: results[name].value for name in wanted} == pytest.approx(wanted, abs=5e-5)


@pytest.mark.parametrize("rows", [CHINESE, JAPANESE, THAI])
def test_answers_from_the_documents_are_supported(rows: Rows) -> None:
    results = by_name(evaluate(*data(rows), OVERLAP))
    assert results["hallucination_rate"].value <= 0.2
    for name in ("evidence_overlap", "support_density", "support_coverage"):
        assert results[name].value >= 0.8
    assert results["failure_attribution@5"].details["causes"]["contradicts_context"]["count"] == 0
    for result in results.values():
        assert "|tok:char|" in (result.signature or "")
        assert result.details["tokenizer"]["words"] == 0


def test_bleu_decides_once_for_all_references() -> None:
    for rows, tokens in [(CHINESE, "zh"), (JAPANESE, "char"), (THAI, "char"), (ENGLISH, "13a")]:
        (result,) = evaluate(*data(rows), ["bleu"])
        assert result.signature == f"bleu|tok:{tokens}|case:mixed|order:4|smooth:exp|v1"
        (again,) = evaluate(*data(rows), [{"bleu": {"tokenize": tokens}}])
        assert (again.value, again.signature) == (result.value, result.signature)
        alone = metric("bleu").compute(*data(rows))
        assert (alone.value, alone.signature) == (result.value, result.signature)


def test_a_mixed_dataset_has_the_scores_of_its_halves() -> None:
    names = [name for name in OVERLAP if name not in ("response_diversity", "failure_attribution")]
    both = by_name(evaluate(*data([*ENGLISH, *CHINESE]), names))
    english, chinese = by_name(evaluate(*data(ENGLISH), names)), by_name(evaluate(*data(CHINESE), names))
    for name in names:
        assert list(both[name].scores or ()) == [*(english[name].scores or ()), *(chinese[name].scores or ())]
        assert both[name].details["tokenizer"] == {"words": len(ENGLISH), "char": len(CHINESE)}
        assert "|tok:mixed|" in (both[name].signature or "")
        assert "tokenizer" not in english[name].details
        assert "tok:char" not in (english[name].signature or "")


def test_a_failed_answer_changes_no_signature() -> None:
    samples, outputs = data([*ENGLISH[:1], *CHINESE])
    whole = by_name(evaluate(samples, outputs, ["token_f1", "rougeL_answer"]))
    outputs[0] = SystemOutputs([], error="timeout")
    for result in evaluate(samples, outputs, ["token_f1", "rougeL_answer"]):
        assert result.signature == whole[result.name].signature


def test_processes_streams_and_repeats_give_the_same() -> None:
    rows = [*ENGLISH, *CHINESE, *JAPANESE]
    names = [*OVERLAP, "bleu"]
    want = evaluate(*data(rows), names)
    samples, outputs = data(rows)
    assert evaluate(samples, outputs, names, batch_size=4) == want
    assert evaluate(samples, outputs, names, batch_size=4, executor="processes", workers=2) == want
    lean = evaluate_stream(zip(samples, outputs, strict=True), names, keep_scores=False)
    assert [(part.value, part.signature) for part in lean] == [(part.value, part.signature) for part in want]
    repeated = evaluate_repeats(samples, [lambda: outputs, lambda: outputs], names)
    assert [part.signature for part in repeated] == [part.signature for part in want]


def test_all_references_of_a_stream_decide() -> None:
    samples, outputs = data([*ENGLISH, *CHINESE])
    pairs = list(zip(samples, outputs, strict=True))
    (want,) = evaluate(samples, outputs, ["bleu"])
    assert want.signature == "bleu|tok:zh|case:mixed|order:4|smooth:exp|v1"
    with pytest.raises(BadValueError, match=r"all references together decide for 'bleu.tok:zh.*name the tokenizer"):
        evaluate_stream(iter(pairs), ["bleu"], batch_size=2)
    (known,) = evaluate_stream(iter(pairs), ["bleu"], batch_size=2, samples=samples)
    (named,) = evaluate_stream(iter(pairs), [{"bleu": {"tokenize": "zh"}}], batch_size=2)
    assert (known.value, known.signature) == (named.value, named.signature) == (want.value, want.signature)


def test_shards_and_resumed_runs_give_the_same(tmp_path: Path) -> None:
    samples, outputs = data([*ENGLISH, *CHINESE, *JAPANESE])
    names = [*OVERLAP, "bleu"]
    want = evaluate(samples, outputs, names)
    save_jsonl_dataset(samples, tmp_path / "data.jsonl")
    by_id = {sample.sample_id: output for sample, output in zip(samples, outputs, strict=True)}
    save_jsonl_outputs(by_id, tmp_path / "outputs.jsonl")
    call: dict[str, Any] = {"batch_size": 2, "unit_size": 4, "parts": tmp_path / "parts"}
    first = evaluate_files(tmp_path / "data.jsonl", tmp_path / "outputs.jsonl", names, **call)
    assert [(part.value, part.signature) for part in first] == [(part.value, part.signature) for part in want]
    (tmp_path / "parts" / "part-000001.parquet").unlink()
    again = evaluate_files(tmp_path / "data.jsonl", tmp_path / "outputs.jsonl", names, **call)
    assert [(part.value, part.signature, part.details) for part in again] == [
        (part.value, part.signature, part.details) for part in first
    ]


@pytest.mark.parametrize("name", [*OVERLAP, "bleu", "rouge_scores"])
def test_fast_and_plain_definitions_agree(name: str) -> None:
    samples, outputs = data([*ENGLISH, *CHINESE, *JAPANESE, *THAI])
    built = metric(name)
    assert isinstance(built, BatchMetric)
    (result,) = evaluate(samples, outputs, [built])
    assert isinstance(result.scores, Scores)
    if name in ("bleu", "response_diversity"):
        return
    for row, (sample, output) in enumerate(zip(samples, outputs, strict=True)):
        plain = built.reference(sample, output)
        assert plain is not None
        assert plain.value == pytest.approx(result.scores[row], abs=1e-12), sample.sample_id
    if name == "distinct_n":
        assert hasattr(built, "reference_value")
        assert result.value == built.reference_value(samples, outputs)


PUNCTUATION = [  # reference, answer, exact match, containment
    ("每周一开行", "每周一开行。", 1, 1),
    ("《蓝湖》", "蓝湖", 1, 1),
    ("蓝湖", "它叫「蓝湖」！", 0, 1),
    ("“blue”", "blue", 0, 0),  # a text with spaces between words: SQuAD's script knows ASCII punctuation only
]


@pytest.mark.parametrize(("reference", "answer", "equal", "contained"), PUNCTUATION)
def test_wide_punctuation(reference: str, answer: str, equal: float, contained: float) -> None:
    results = evaluate(*data([("q", reference, answer, "")]), ["exact_match", "containment"])
    assert [result.value for result in results] == [equal, contained]


TOKENIZERS = [  # options, reference, answer, F1, why
    ({"tokenizer": "char3"}, "lakes", "lake", 2 * 1 * (2 / 3) / (1 + 2 / 3), "lak ake of lak ake kes"),
    ({"tokenizer": "words"}, "蓝湖。", "蓝湖", 0, "two words"),
    ({"tokenizer": "unicode"}, "蓝湖。", "蓝湖", 1, "two letters"),
    ({"tokenizer": "char"}, "a GPT 湖", "gpt 湖 b", 2 / 3, "two of three tokens; articles are words"),
    ({"tokenizer": "builtins:list"}, "a b", "b a", 1, "blanks are tokens of this function"),
    ({"tokenizer": "builtins:list"}, "ab", "b a", 4 / 5, "two of three and two of two"),
]


@pytest.mark.parametrize(("options", "reference", "answer", "want"), [row[:4] for row in TOKENIZERS])
@pytest.mark.filterwarnings("ignore:.*takes what is between two spaces:auepora_eval.AueporaWarning")
def test_tokenizers_by_name(options: dict[str, str], reference: str, answer: str, want: float) -> None:
    (result,) = evaluate(*data([("q", reference, answer, "")]), [{"token_f1": options}])
    assert result.value == pytest.approx(want, abs=1e-15)
    assert f"|tok:{options['tokenizer']}" in (result.signature or "")


def test_an_unknown_tokenizer_is_refused() -> None:
    with pytest.raises(BadValueError, match="there is no tokenizer 'chars'; did you mean 'char'"):
        metric("token_f1", tokenizer="chars")
    assert metric("rougeL", tokenizer="rouge_score") == metric("rougeL", tokenizer="rouge_score")


def test_an_explicit_word_tokenizer_warns() -> None:
    with pytest.warns(AueporaWarning, match="'token_f1' takes what is between two spaces for a word.*tokenizer: auto"):
        evaluate(*data(CHINESE), [{"token_f1": {"tokenizer": "words"}}])


LATIN = st.text(alphabet="abcABC éüß’“”.,-1 \n", max_size=20)


@settings(max_examples=25)
@given(st.lists(st.tuples(LATIN, LATIN, LATIN), min_size=1, max_size=4))
def test_latin_text_is_cut_as_ever(texts: list[tuple[str, str, str]]) -> None:
    samples, outputs = data([("which city", *row) for row in texts])
    names = ("token_f1", "answer_relevance", "support_density", "distinct_n")
    specs = [{name: {"tokenizer": "words", "as": f"{name} words"}} for name in names]
    specs.append({"rougeL_answer": {"tokenizer": "rouge_score", "as": "rougeL words"}})
    results = evaluate(samples, outputs, [*names, "rougeL_answer", *specs])
    for result, words in zip(results[: len(specs)], results[len(specs) :], strict=True):
        assert list(result.scores or ()) == list(words.scores or ())
        assert "tokenizer" not in result.details


def test_the_metric_of_a_stored_signature_is_found() -> None:
    samples, outputs = data(CHINESE)
    for result in evaluate(samples, outputs, [*OVERLAP, "bleu"]):
        (spec,) = [name for name in (*OVERLAP, "bleu") if name == result.name.partition("@")[0]]
        built = metric(spec)
        assert isinstance(built, BatchMetric)
        assert has_signature(built, RunInfo(), result.signature), result.signature
        chosen = metric("token_f1", tokenizer="words")
        assert isinstance(chosen, BatchMetric)
        assert not has_signature(chosen, RunInfo(), result.signature)
    bleu = metric("bleu")
    assert isinstance(bleu, BatchMetric)
    assert hasattr(bleu, "for_signature")
    stored = bleu.for_signature("bleu|tok:zh|case:mixed|order:4|smooth:exp|v1")
    assert stored == metric("bleu", tokenize="zh")


def letters(text: str) -> list[str]:
    return list(text)


def raises(text: str) -> list[str]:
    raise RuntimeError("out of paper")


def numbers(text: str) -> list[int]:
    return [len(text)]


@pytest.mark.parametrize(
    ("name", "problem"), [("raises", "raised RuntimeError: out of paper"), ("numbers", "a list of")]
)
def test_a_tokenizer_of_the_user_that_fails(name: str, problem: str) -> None:
    with pytest.raises((BadValueError, BadTypeError), match=f"the tokenizer '{__name__}:{name}'.*{problem}"):
        evaluate(*data(CHINESE), [{"token_f1": {"tokenizer": f"{__name__}:{name}"}}])


def test_a_tokenizer_of_the_user_in_processes() -> None:
    rows = [*ENGLISH, *CHINESE]
    specs = [{name: {"tokenizer": f"{__name__}:letters"}} for name in ("token_f1", "support_density", "distinct_n")]
    want = evaluate(*data(rows), specs)
    assert [part.signature for part in want if f"tok:{__name__}:letters" not in (part.signature or "")] == []
    assert evaluate(*data(rows), specs, executor="processes", workers=2, batch_size=3) == want


def test_jieba_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    named_tokenizer.cache_clear()
    with pytest.raises(MissingDependencyError, match=r"tokenizer 'jieba_characters' needs the package.*pip install"):
        metric("token_f1", tokenizer="jieba_characters")
    with pytest.raises(MissingDependencyError, match=r"'jieba:lcut' needs the package.*auepora-eval\[zh\]"):
        metric("token_f1", tokenizer="jieba:lcut")


def test_words_of_jieba_as_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = ModuleType("jieba")
    monkeypatch.setattr(stand_in, "lcut", str.split, raising=False)  # words are what is between blanks
    monkeypatch.setitem(sys.modules, "jieba", stand_in)
    named_tokenizer.cache_clear()
    (result,) = evaluate(*data([("q", "蓝湖 冰", "蓝 湖冰", "")]), [{"token_f1": {"tokenizer": "jieba_characters"}}])
    named_tokenizer.cache_clear()
    assert result.value == 1  # the blank between two words is a token, wherever it stands
    assert re.search(r"\|tok:jieba_characters(@[\d.]+)?\|", result.signature or ""), (
        "the version, where it is installed"
    )
