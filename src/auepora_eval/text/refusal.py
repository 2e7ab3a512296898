"""Refusals: phrases of people and models that decline to answer, by language, and their detection in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from .tokenizers import casefold_text

# A fixed list: changing it changes scores and requires a new `version` of the metrics that use it. A phrase belongs
# here if it is hardly used except to decline. Too loose, and therefore absent, are "no information" ("there is
# no information loss"; also half an answer: "... but there is no information about B"), "cannot determine", "I do not
# have access to", "unknown", "not mentioned", "I am not sure", an apology alone, and the bare Korean "모릅니다", which
# after a clause means "may be".
REFUSAL_PATTERNS: dict[str, tuple[str, ...]] = {
    "ar": (
        "لا أعرف", "لا اعرف", "لا أعلم", "لا اعلم", "لا أدري", "لا أستطيع الإجابة", "لا يمكنني الإجابة",
        "لا يمكن الإجابة", "لا توجد معلومات كافية", "المعلومات غير كافية",
    ),
    "cs": (
        "nevím", "neznám odpověď", "nemohu odpovědět", "nelze odpovědět", "nemám dostatek informací",
        "není dostatek informací",
    ),
    "de": (
        "ich weiß nicht", "ich weiß es nicht", "das weiß ich nicht", "ich weiß die antwort nicht",
        "ich kenne die antwort nicht", "kann ich nicht beantworten", "ich kann die frage nicht beantworten",
        "ich kann diese frage nicht beantworten", "kann nicht beantwortet werden", "lässt sich nicht beantworten",
        "ich kann keine antwort geben", "kann ich keine antwort geben", "nicht genug informationen",
        "nicht genügend informationen", "nicht ausreichend informationen", "keine ausreichenden informationen",
        "unzureichende informationen", "informationen reichen nicht aus",
    ),
    "en": (
        "i don't know", "i do not know", "i dont know",
        "cannot answer", "can not answer", "can't answer", "cant answer", "unable to answer", "not able to answer",
        "cannot be answered", "can not be answered", "can't be answered",
        "cannot provide an answer", "can't provide an answer", "unable to provide an answer",
        "cannot give an answer", "can't give an answer",
        "not enough information", "don't have enough information", "do not have enough information",
        "doesn't have enough information", "does not have enough information",
        "doesn't provide enough information", "does not provide enough information",
        "don't provide enough information", "do not provide enough information",
        "doesn't contain enough information", "does not contain enough information",
        "don't contain enough information", "do not contain enough information",
        "insufficient information", "not sufficient information", "information is insufficient",
        "information is not sufficient", "information provided is insufficient",
        "doesn't contain the answer", "does not contain the answer",
        "don't contain the answer", "do not contain the answer",
        "i'm sorry, but i couldn't find", "i'm sorry but i couldn't find", "i'm sorry, i couldn't find",
        "i'm sorry, but i can't", "i'm sorry, but i cannot", "i'm sorry, i can't", "i'm sorry, i cannot",
        "i can't help with that", "i cannot help with that", "i can't assist with that", "i cannot assist with that",
    ),
    "es": (
        "no sé", "no lo sé", "desconozco la respuesta", "no puedo responder", "no puedo contestar",
        "no es posible responder", "no se puede responder", "no puede responderse", "no hay suficiente información",
        "no hay información suficiente", "no tengo suficiente información", "no tengo información suficiente",
        "información insuficiente", "información es insuficiente",
    ),
    "fr": (
        "je ne sais pas", "je l'ignore", "j'ignore la réponse", "je ne connais pas la réponse",
        "je ne peux pas répondre", "je ne peux répondre", "impossible de répondre", "pas en mesure de répondre",
        "pas assez d'informations", "pas suffisamment d'informations", "pas assez d'information",
        "pas suffisamment d'information", "informations insuffisantes", "informations sont insuffisantes",
    ),
    "hi": (
        "मुझे नहीं पता", "मुझे पता नहीं", "मैं नहीं जानता", "मैं नहीं जानती", "उत्तर नहीं दे सकता",
        "उत्तर नहीं दे सकती", "जवाब नहीं दे सकता", "जवाब नहीं दे सकती", "पर्याप्त जानकारी नहीं",
    ),
    "id": (
        "saya tidak tahu", "tidak dapat menjawab", "tidak bisa menjawab", "tidak dapat dijawab",
        "informasi tidak cukup", "tidak cukup informasi", "tidak memiliki informasi yang cukup",
        "tidak ada informasi yang cukup",
    ),
    "it": (
        "non so", "non lo so", "non conosco la risposta", "non posso rispondere", "non sono in grado di rispondere",
        "non è possibile rispondere", "non si può rispondere", "non ho abbastanza informazioni",
        "non ho informazioni sufficienti", "non ci sono abbastanza informazioni",
        "non ci sono informazioni sufficienti", "informazioni insufficienti", "informazioni non sufficienti",
    ),
    "ja": (
        "わかりません", "分かりません", "知りません", "わかりかねます", "分かりかねます", "答えられません",
        "答えることができません", "答えることはできません", "回答できません", "回答することができません",
        "回答することはできません", "お答えできません", "お答えすることができません", "お答えすることはできません",
        "情報が不足しています", "情報が不十分です", "十分な情報がありません",
    ),
    "ko": (
        "잘 모르겠습니다", "잘 모르겠어요", "잘 모릅니다", "답을 모르겠습니다", "답을 모릅니다", "저는 모르겠습니다",
        "저는 모릅니다", "대답할 수 없습니다", "답변할 수 없습니다", "답할 수 없습니다", "대답해 드릴 수 없습니다",
        "답변드릴 수 없습니다", "답변해 드릴 수 없습니다", "정보가 부족합니다", "정보가 충분하지 않습니다",
        "충분한 정보가 없습니다",
    ),
    "nl": (
        "ik weet het niet", "weet ik niet", "ik weet het antwoord niet", "ik kan deze vraag niet beantwoorden",
        "ik kan de vraag niet beantwoorden", "kan ik niet beantwoorden", "kan niet worden beantwoord",
        "is niet te beantwoorden", "niet genoeg informatie", "onvoldoende informatie", "niet voldoende informatie",
    ),
    "pl": (
        "nie wiem", "nie znam odpowiedzi", "nie mogę odpowiedzieć", "nie potrafię odpowiedzieć",
        "nie jestem w stanie odpowiedzieć", "nie można odpowiedzieć", "nie da się odpowiedzieć", "za mało informacji",
        "niewystarczające informacje", "nie mam wystarczających informacji", "brak wystarczających informacji",
        "niewystarczająca ilość informacji",
    ),
    "pt": (
        "não sei", "desconheço a resposta", "não posso responder", "não consigo responder",
        "não é possível responder", "não há informações suficientes", "não há informação suficiente",
        "não tenho informações suficientes", "não tenho informação suficiente", "informações insuficientes",
        "informação insuficiente",
    ),
    "ru": (
        "не знаю", "мне неизвестно", "не могу ответить", "не могу дать ответ", "невозможно ответить",
        "не представляется возможным ответить", "недостаточно информации", "не хватает информации",
    ),
    "sv": (
        "jag vet inte", "vet jag inte", "jag kan inte svara", "jag kan inte besvara", "kan inte besvaras",
        "går inte att besvara", "inte tillräckligt med information", "otillräcklig information",
    ),
    "th": (
        "ฉันไม่ทราบ", "ผมไม่ทราบ", "ฉันไม่รู้", "ผมไม่รู้", "ไม่ทราบคำตอบ", "ไม่สามารถตอบได้", "ไม่สามารถตอบคำถาม",
        "ข้อมูลไม่เพียงพอ",
    ),
    "tr": (
        "bilmiyorum", "cevap veremiyorum", "yanıt veremiyorum", "cevaplayamıyorum", "yanıtlayamıyorum",
        "yeterli bilgi yok", "yeterli bilgim yok", "yeterli bilgiye sahip değilim",
    ),
    "uk": (
        "не знаю", "мені невідомо", "не можу відповісти", "не можу дати відповідь", "неможливо відповісти",
        "недостатньо інформації", "бракує інформації",
    ),
    "vi": (
        "tôi không biết", "không thể trả lời", "không đủ thông tin", "không có đủ thông tin", "chưa đủ thông tin",
    ),
    "zh": (
        "我不知道", "我不清楚", "我不了解", "不知道答案", "无法回答", "无法作答", "不能回答", "回答不了",
        "没有足够的信息", "没有足够信息", "信息不足以", "提供的信息不足", "现有信息不足", "文档信息不足",
        "無法回答", "無法作答", "我不瞭解", "沒有足夠的資訊", "沒有足夠資訊", "資訊不足以", "提供的資訊不足",
        "現有資訊不足",
    ),
}  # fmt: skip
"""Phrases by language code. They are natural text; ``normalize_text`` is applied to both sides."""

# Scripts without blanks between words: word boundaries are unknown there.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"  # kana and Chinese characters
)
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"  # Korean has blanks, but particles grow onto the end of a word
# Vowel signs and accents belong to the letter before them, though `\w` leaves them out.
_MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u0900-\u0963\u0966-\u0dff"
)
_IN_FRONT = rf"(?:[^\W{_UNSPACED}]|[{_MARKS}])"
"""A character after which a word continues."""
_BEHIND = rf"(?:[^\W{_UNSPACED}{_HANGUL}]|[{_MARKS}])"
"""A character that continues a word."""
_APOSTROPHES = str.maketrans(dict.fromkeys("‘’‛ʼʹ′＇`´", "'"))


def normalize_text(text: str) -> str:
    """The text in which phrases are searched: casefolded, with every apostrophe as the straight one."""
    text = casefold_text(text)
    straight = text.replace("`", "'") if text.isascii() else text.translate(_APOSTROPHES)
    return straight.strip()


def built_in_patterns(languages: Iterable[str] | None = None) -> tuple[str, ...]:
    """The phrases of these languages, or of all, normalised, sorted and without duplicates."""
    return _patterns_of(tuple(REFUSAL_PATTERNS if languages is None else languages))


@lru_cache(maxsize=64)
def _patterns_of(codes: tuple[str, ...]) -> tuple[str, ...]:
    return normalize_patterns(chain.from_iterable(REFUSAL_PATTERNS[code] for code in codes))


def normalize_patterns(phrases: Iterable[str]) -> tuple[str, ...]:
    """Phrases as ``is_refusal`` expects them: normalised, sorted and without duplicates."""
    return tuple(sorted(set(map(normalize_text, phrases))))


def is_refusal(text: str, patterns: tuple[str, ...], *, whole_words: bool = True) -> bool:
    """Whether a text contains one of these normalised phrases, as whole words or anywhere.

    >>> is_refusal("Sorry, I don’t  KNOW.", ("i don't know",)), is_refusal("Ski don't know.", ("i don't know",))
    (True, False)
    """
    text = normalize_text(text)
    if not whole_words:
        return any(phrase in text for phrase in patterns)
    return _expression(patterns, ascii_alone=text.isascii()).search(text) is not None


@lru_cache(maxsize=64)
def _expression(patterns: tuple[str, ...], *, ascii_alone: bool) -> re.Pattern[str]:
    """All phrases as one expression; of a plain ASCII text only those that can be in it.

    Phrases share common prefixes; otherwise each would be tried at every position, which takes six times as long.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for phrase in patterns:
        if phrase.isascii() or not ascii_alone:
            groups.setdefault(_boundaries(phrase), []).append(phrase)
    # Without any phrase: an expression that never matches.
    parts = [f"{before}{_any_of(some)}{after}" for (before, after), some in groups.items()] or ["(?!)"]
    return re.compile("|".join(parts))


def _any_of(phrases: list[str]) -> str:
    """An expression for any of these phrases, longer ones first where one begins another."""
    by_first: dict[str, list[str]] = {}
    for phrase in phrases:
        by_first.setdefault(phrase[:1], []).append(phrase[1:])
    ends = "" in by_first
    by_first.pop("", None)
    rest = [re.escape(first) + _any_of(others) for first, others in by_first.items()]
    if not rest:
        return ""
    text = rest[0] if len(rest) == 1 and not ends else f"(?:{'|'.join(rest)})"
    return f"{text}?" if ends else text


def _boundaries(phrase: str) -> tuple[str, str]:
    """Lookarounds before and after a phrase; empty on a side where no word could continue."""
    before = f"(?<!{_IN_FRONT})" if re.match(_IN_FRONT, phrase[0]) else ""
    after = f"(?!{_BEHIND})" if re.match(_BEHIND, phrase[-1]) else ""
    return before, after


def contains_phrase(text: str, phrase: str, *, whole_words: bool = True) -> bool:
    """Whether a text contains a phrase, position by position: the definition of ``is_refusal``."""
    text, phrase = normalize_text(text), normalize_text(phrase)
    if not whole_words:
        return phrase in text
    for at in range(len(text) - len(phrase) + 1):
        if text.startswith(phrase, at):
            end = at + len(phrase)
            begins_inside = re.match(_IN_FRONT, phrase[0]) and re.match(_IN_FRONT, text[max(at - 1, 0) : at])
            ends_inside = re.match(_BEHIND, phrase[-1]) and re.match(_BEHIND, text[end : end + 1])
            if not begins_inside and not ends_inside:
                return True
    return False
