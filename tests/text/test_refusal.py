"""Phrases that decline to answer: rows with reasons, one sentence per language, and the plain definition."""

import hashlib
import json

import pytest
from hypothesis import given, strategies as st

from auepora_eval.metrics.abstention import NegativeRejectionRate
from auepora_eval.text.refusal import (
    REFUSAL_PATTERNS,
    built_in_patterns,
    contains_phrase,
    is_refusal,
    normalize_patterns,
    normalize_text,
)
from helpers.requirements import need_data
from helpers.texts import ATOMS, TEXT

ALL = built_in_patterns()
ROWS: list[tuple[str, str, bool, str]] = [  # phrase, text, want, why
    ("i don't know", "I don't know.", True, "whatever the case, before a full stop"),
    ("i don't know", "Sorry, I don’t know", True, "a typographic apostrophe"),
    ("i don't know", "I donʼt know", True, "a modifier letter as apostrophe"),
    ("i don't know", "I don＇t know", True, "a full-width apostrophe"),
    ("i don't know", "I don`t know, I don´t", True, "a grave accent as apostrophe"),
    ("i don't know", "I don´t know", True, "an acute accent as apostrophe"),
    ("I don’t know", "i don't know", True, "the phrase is folded as the text is"),
    ("i don't know", "I don't\n\t know", True, "any white space is a blank"),
    ("i don't know", "I\u00a0don't\u202fknow", True, "so is a no-break one"),
    ("i don't know", "ski don't know", False, "the phrase begins inside a word"),
    ("i don't know", "i don't knowingly", False, "the phrase ends inside a word"),
    ("i don't know", "I don't know1", False, "a digit goes on with a word"),
    ("i don't know", "“I don't know”", True, "quotation marks are boundaries"),
    ("i don't know", "**I don't know**", True, "so is markup"),
    ("cannot answer", "I cannot answered", False, "a longer word is another word"),
    ("cannot answer", "I can not answer", False, "two words are not one"),
    ("cannot answer", "unanswerable: cannot answer!", True, "a later place counts as well"),
    ("cannot answer", "cannot answered, cannot answer", True, "the first place is none, the second is"),
    ("cannot answer", "", False, "nothing is found in nothing"),
    ("não sei", "Na\u0303o sei.", True, "composed and decomposed letters are the same"),
    ("no sé", "no se sabe", False, "an accent is part of its letter"),
    ("no sé", "no sé\u0323", False, "a further accent makes it another letter"),
    ("ich weiß nicht", "ICH WEISS NICHT", True, "ß folds to ss"),
    ("无法回答", "抱歉，我无法回答这个问题。", True, "Chinese has no blanks"),
    ("わかりません", "答えはわかりませんでした", True, "nor has Japanese"),
    ("ไม่ทราบคำตอบ", "ขออภัยฉันไม่ทราบคำตอบค่ะ", True, "nor Thai"),
    ("답할 수 없습니다", "질문에 답할 수 없습니다만", True, "a Korean ending grows onto the word"),
    ("답할 수 없습니다", "대답할 수 없습니다", False, "but a Korean word has a beginning"),
    ("i don't know", "对不起I don't know的答案", True, "Latin letters among Chinese ones"),
    ("i don't know", "I don't know라고", True, "a Korean particle on a Latin word"),
    ("पता नहीं", "मुझे पता नहीं।", True, "the Hindi full stop is a boundary"),
    ("जान", "मैं जाना", False, "a vowel sign belongs to the word before it"),
    ("जान", "अजान", False, "so does a letter"),
    ("[no answer]", "x[NO ANSWER]y", True, "a phrase that ends in no letter needs no boundary"),
    ("n/a", "n/a.", True, "marks inside a phrase are no expressions"),
    ("a.b", "axb", False, "a point is a point"),
]


@pytest.mark.parametrize(("phrase", "text", "want"), [row[:3] for row in ROWS], ids=[row[3] for row in ROWS])
def test_by_hand(phrase: str, text: str, want: bool) -> None:
    assert is_refusal(text, normalize_patterns([phrase])) is want
    assert contains_phrase(text, phrase) is want


REFUSALS = {
    "ar": "عذرًا، لا أعرف الإجابة.",
    "cs": "Bohužel nevím.",
    "de": "Das kann ich nicht beantworten.",
    "en": "I'm unable to answer this question from the documents.",
    "es": "Lo siento, no puedo responder a esa pregunta.",
    "fr": "Je ne dispose pas d’assez d’éléments : je ne sais pas.",
    "hi": "क्षमा करें, मुझे नहीं पता।",
    "id": "Maaf, saya tidak tahu.",
    "it": "Mi dispiace, non lo so.",
    "ja": "申し訳ありませんが、お答えできません。",
    "ko": "죄송하지만 잘 모르겠습니다.",
    "nl": "Helaas is er onvoldoende informatie.",
    "pl": "Przykro mi, nie wiem.",
    "pt": "Desculpe, não sei.",
    "ru": "К сожалению, я не знаю ответа.",
    "sv": "Tyvärr vet jag inte.",
    "th": "ขออภัย ไม่สามารถตอบคำถามนี้ได้",
    "tr": "Üzgünüm, bilmiyorum.",
    "uk": "На жаль, я не знаю.",
    "vi": "Xin lỗi, tôi không biết.",
    "zh": "很抱歉，我不知道。",
}
ANSWERS = {
    "ar": "عاصمة فرنسا هي باريس.",
    "cs": "Hlavním městem Francie je Paříž.",
    "de": "Er wollte die Frage nicht beantworten und ging.",
    "en": "There is no information loss: the format is known to be lossless.",
    "es": "No se sabe quién lo construyó; lo terminó su hijo.",
    "fr": "Elle ne sait pas nager, mais elle a traversé la Manche en bateau.",
    "hi": "फ़्रांस की राजधानी पेरिस है।",
    "id": "Ibu kota Prancis adalah Paris.",
    "it": "Non solo Roma, anche Milano.",
    "ja": "その可能性があるかもしれません。東京です。",
    "ko": "서울일지도 모릅니다.",
    "nl": "Zij wist niet dat het Parijs was.",
    "pl": "Stolicą Francji jest Paryż.",
    "pt": "A capital da França é Paris.",
    "ru": "Столица Франции — Париж.",
    "sv": "Huvudstaden är Paris.",
    "th": "ระบบไม่สามารถตอบสนองได้เพราะไฟดับ",
    "tr": "Fransa'nın başkenti Paris'tir.",
    "uk": "Столиця Франції — Париж.",
    "vi": "Thủ đô của Pháp là Paris.",
    "zh": "法国的首都是巴黎。",
}


@pytest.mark.parametrize("language", REFUSAL_PATTERNS)
def test_every_language(language: str) -> None:
    assert is_refusal(REFUSALS[language], built_in_patterns([language]))
    assert not is_refusal(ANSWERS[language], ALL)
    for phrase in REFUSAL_PATTERNS[language]:
        assert is_refusal(f"({phrase.upper()})", ALL) or language == "tr"  # I and ı, İ and i
        assert is_refusal(phrase, ALL)


def test_the_languages_and_the_first_phrases() -> None:
    assert set(REFUSAL_PATTERNS) >= {"en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "zh", "ja", "ko"}
    assert list(REFUSAL_PATTERNS) == sorted(REFUSAL_PATTERNS)
    assert {"i don't know", "cannot answer", "not enough information"} <= set(REFUSAL_PATTERNS["en"])
    for phrases in REFUSAL_PATTERNS.values():
        assert len(set(map(normalize_text, phrases))) == len(phrases)


def test_the_list_and_the_version_of_the_metrics_change_together() -> None:
    fingerprint = hashlib.sha256(json.dumps(ALL).encode()).hexdigest()[:12]
    assert (fingerprint, NegativeRejectionRate.metadata.version) == ("5c4cb606cb87", 2), (
        "another list asks for another version"
    )


@given(st.lists(st.sampled_from([*ATOMS, *ALL]), max_size=6).map(" ".join) | TEXT, st.lists(TEXT, max_size=3))
def test_expression_equals_search_at_every_position(text: str, phrases: list[str]) -> None:
    patterns = normalize_patterns(phrase for phrase in [*phrases, *ALL[:40]] if phrase.strip())
    assert is_refusal(text, patterns) == any(contains_phrase(text, phrase) for phrase in patterns)


@given(TEXT)
def test_casefolding_is_idempotent(text: str) -> None:
    assert normalize_text(normalize_text(text)) == normalize_text(text)


def test_right_answers_of_five_systems() -> None:
    rows = json.loads((need_data("evouna") / "NQ.json").read_text(encoding="utf-8"))
    names = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")
    answers = [(row[f"judge_{name}"], row[f"answer_{name}"]) for row in rows for name in names]
    declined = [right for right, text in answers if text and is_refusal(text, ALL)]
    # Whom a human found right has hardly ever declined; the three say "I couldn't find ... However, ..." first.
    assert declined.count(True) == 3
    assert declined.count(False) == 60
