"""Tokenizers: a plain definition each, and an equal fast form for many texts; casefolding, stems, stop words, terms."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, product

from .scripts import is_unspaced, script_tokens, word_bounds

# --- the Porter stemmer with nltk's extensions: ``relational`` and ``relate`` become the same ``relat`` --------------
# The algorithm is M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980: five steps, each a table of
# suffixes with a condition on what is left when the suffix is gone. nltk departs from the paper in a few places, and
# rouge-score's numbers depend on every one of them; each is marked "nltk:" where it happens.
#
# The conditions speak of the *shape* of a stem, a ``v`` or a ``c`` per letter, and of its *measure* m, the number of
# times a vowel is followed by a consonant: ``tree`` (ccvv) has m = 0, ``trouble`` (ccvvccv) has 1, ``private`` has 2.

# nltk: words the rules get wrong, and what they should have been.
_IRREGULAR = {
    "skies": "sky",
    "sky": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "news": "news",
    "innings": "inning",
    "inning": "inning",
    "outings": "outing",
    "outing": "outing",
    "cannings": "canning",
    "canning": "canning",
    "howe": "howe",
    "proceed": "proceed",
    "exceed": "exceed",
    "succeed": "succeed",
}

# Where one suffix ends with another the longer comes first: the first that fits decides.
_STEP_2 = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),  # Porter's later revision; the paper has abli -> able
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),  # nltk: not in the paper
)

_STEP_3 = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)

_STEP_4 = tuple(
    (suffix, "")
    for suffix in (
        *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment"),
        *("ent", "ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
    )
)


# Running text repeats its words: this many distinct ones cover a large collection in some ten megabytes.
@lru_cache(maxsize=2**16)
def porter_stem(word: str) -> str:
    """The stem of ``word``, in lower case, as nltk's ``PorterStemmer().stem(word)`` gives it.

    Whatever is not a vowel counts as a consonant, digits and other alphabets included. (One difference is left, on
    purpose: nltk takes the characters ``*d`` at the end of a stem for the name of a rule, here they are characters.)
    """
    stem = word.lower()
    if stem in _IRREGULAR:
        return _IRREGULAR[stem]
    if len(word) <= 2:  # too short to carry a suffix
        return stem
    stem = _plural(stem)
    stem = _past_or_progressive(stem)
    stem = _final_y(stem)
    stem = _double_suffix(stem)
    stem = _replace(stem, _STEP_3, least=1)
    stem = _single_suffix(stem)
    return _final_ll(_final_e(stem))


def _shape(stem: str) -> str:
    """A ``v`` or ``c`` per letter; y is a vowel after a consonant, as in ``syzygy`` but not in ``toy`` or ``yes``."""
    shape = []
    vowel = True  # so that a leading y is a consonant
    for letter in stem:
        vowel = letter in "aeiou" or (letter == "y" and not vowel)
        shape.append("v" if vowel else "c")
    return "".join(shape)


def _measure(stem: str) -> int:
    """Porter's m: how often a vowel is followed by a consonant."""
    return _shape(stem).count("vc")


def _ends_short(stem: str) -> bool:
    """Porter's ``*o``: ends consonant, vowel, consonant, as ``hop`` does, the last one not w, x or y."""
    shape = _shape(stem)
    # nltk: a whole stem of vowel and consonant is short too, so that owed -> owe
    return shape == "vc" or (shape.endswith("cvc") and stem[-1] not in "wxy")


def _replace(word: str, rules: tuple[tuple[str, str], ...], *, least: int) -> str:
    """Replace the first suffix that fits, if what is before it has a measure of ``least`` or more."""
    for suffix, replacement in rules:
        if word.endswith(suffix):
            stem = word.removesuffix(suffix)
            # A suffix that fits but may not go ends the step: no shorter one is tried.
            return stem + replacement if _measure(stem) >= least else word
    return word


def _plural(word: str) -> str:
    """Step 1a: caresses -> caress, ponies -> poni, cats -> cat."""
    if not word.endswith("s") or word.endswith("ss"):
        return word
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]  # nltk: ties -> tie
    return word[:-2] if word.endswith(("sses", "ies")) else word[:-1]


def _past_or_progressive(word: str) -> str:
    """Step 1b: agreed -> agree, plastered -> plaster, motoring -> motor."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]  # nltk: tied -> tie, cried -> cri
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix):
            stem = word.removesuffix(suffix)
            return _restored(stem) if "v" in _shape(stem) else word
    return word


def _restored(stem: str) -> str:
    """The end of step 1b, the spelling before -ed or -ing came: conflat -> conflate, hopp -> hop, fil -> file."""
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if stem[-2:-1] == stem[-1] and _shape(stem)[-1] == "c":
        return stem if stem[-1] in "lsz" else stem[:-1]  # fall, hiss and fizz are spelt with two
    return stem + "e" if _measure(stem) == 1 and _ends_short(stem) else stem


def _final_y(word: str) -> str:
    """Step 1c: happy -> happi."""
    # nltk: asks for a consonant before the y and a letter before that (the paper: for any vowel before it), so that
    # enjoy stays, by stays, and fly -> fli meets flies -> fli
    return word[:-1] + "i" if word.endswith("y") and len(word) > 2 and _shape(word[:-1])[-1] == "c" else word


def _double_suffix(word: str) -> str:
    """Step 2, suffixes made of two: relational -> relate, hopefulness -> hopeful."""
    if word.endswith("logi"):
        # nltk: the l counts with the stem, so that the short geologi -> geolog goes the way of archaeologi
        return word[:-1] if _measure(word[:-3]) > 0 else word
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        word = word[:-2]  # nltk: goes on with the shorter word, so that relationalli -> relational -> relate
    return _replace(word, _STEP_2, least=1)


def _single_suffix(word: str) -> str:
    """Step 4, the suffixes that are left: revival -> reviv, adoption -> adopt."""
    if word.endswith("ion") and not word.endswith(("sion", "tion")):
        return word  # champion keeps what adoption loses
    return _replace(word, _STEP_4, least=2)


def _final_e(word: str) -> str:
    """Step 5a: probate -> probat and cease -> ceas, but rate stays."""
    if not word.endswith("e"):
        return word
    stem = word[:-1]
    measure = _measure(stem)
    return stem if measure > 1 or (measure == 1 and not _ends_short(stem)) else word


def _final_ll(word: str) -> str:
    """Step 5b: controll -> control, but roll stays."""
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


# --- normalisation for comparison: case, Unicode composition and white space are ignored -----------------------------

# Any run of white space except a single blank, which needs no replacement.
_BLANKS = re.compile(r"[^\S ]\s*| \s+")


def casefold_text(text: str) -> str:
    """The text casefolded, in one Unicode form, with runs of white space as one blank."""
    if text.isascii():  # a third of the time, and most texts
        return _BLANKS.sub(" ", text.lower())
    caseless = unicodedata.normalize("NFD", text).casefold()  # canonical caseless matching, Unicode D145
    return _BLANKS.sub(" ", unicodedata.normalize("NFC", caseless))


# --- plain ROUGE tokens: lower case, split at everything but letters and digits, longer tokens stemmed ---------------

_LATIN_WORD = re.compile(r"[a-z0-9]+")
# Scripts written without blanks, in which a character is the nearest thing to a word: Chinese characters and kana.
_WORD_BY_ITSELF = re.compile(
    r"[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003fffd]"
)


def rouge_tokens(text: str, *, stem: bool = True) -> list[str]:
    """The tokens of ``text`` as ``rouge_score.tokenizers.DefaultTokenizer(use_stemmer=stem)`` gives them.

    Any other script is separator only: a text without Latin letters or digits has no tokens, and ``café`` is ``caf``.
    """
    # Lower case comes first, and may turn another character into a Latin one: the Kelvin sign is a k.
    words = _LATIN_WORD.findall(text.lower())
    # The stemmer leaves at least one letter of a word and adds only letters, so that nothing needs dropping after it.
    return [_stem(word) for word in words] if stem else words


def unicode_tokens(text: str, *, stem: bool = True) -> list[str]:
    """Tokens in any script: runs of letters, digits and combining marks; each Chinese character or kana is one.

    Invisible characters (zero-width joiners, direction marks) are dropped, and accents are equal
    however they are encoded. Words of a-z and 0-9 are stemmed like ROUGE's own, others stay as they are.
    """
    tokens: list[str] = []
    inside = False
    for character in unicodedata.normalize("NFC", text.lower()):
        category = unicodedata.category(character)
        if category == "Cf":
            continue
        if _WORD_BY_ITSELF.fullmatch(character):
            tokens.append(character)
            inside = False
        elif category[0] in "LN" or (category[0] == "M" and inside):
            if inside:
                tokens[-1] += character
            else:
                tokens.append(character)
            inside = True
        elif category[0] == "M" and tokens and _WORD_BY_ITSELF.match(tokens[-1]):
            tokens[-1] += character
        else:
            inside = False
    return [_stem_latin_token(word)[0] for word in tokens] if stem else tokens


def _stem(word: str) -> str:
    return porter_stem(word) if len(word) > 3 else word


# --- tokenizer classes: a plain definition, and an equal fast form for many texts ------------------------------------

BLANK, NEXT_TEXT = 0, 1
"""The bytes that end a token and a text."""
RESERVED_BYTES = {0: 0xC0, 1: 0xC1}
"""Bytes that cannot occur in UTF-8 represent the characters with the codes of those two."""
_ASCII_BLANKS = b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "
_OTHER_BLANKS = re.compile("[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_PUNCTUATION = string.punctuation
WITHOUT_PUNCTUATION = str.maketrans("", "", _PUNCTUATION)
_WITHOUT_WIDE_PUNCTUATION = str.maketrans("", "", "。，、！？；：「」『』（）《》“”")
_CACHED_WORDS = 1 << 16

ARTICLE = re.compile(r"\b(?:a|an|the)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ByteTokenizer:
    """Converts texts to bytes in which a blank ends each token and ``NEXT_TEXT`` each text."""

    name: str
    table: bytes = field(repr=False)
    dropped: bytes = b""
    lower: bool = False
    prepare: Callable[[str], str] | None = None
    """Applied to a text first, for tokenizers that look at more than one token."""
    only_lines: bool = True
    """Whether ``prepare`` is needed only for texts of several lines."""
    compose: bool = False
    """Whether accents are equal however they are encoded."""

    def __call__(self, texts: Sequence[str]) -> bytes:
        """The bytes of all texts."""
        if self.prepare is not None:
            ready = self.prepare
            texts = [ready(text) if "\n" in text or not self.only_lines else text for text in texts]
        joined = "\n".join([text.replace("\n", " ") for text in texts])
        if not joined.isascii():
            if self.compose:  # nothing is composed with a line end
                joined = unicodedata.normalize("NFC", joined)
            # Over all texts at once: a letter's lower case depends on its neighbours at most, never across a line end.
            joined = _OTHER_BLANKS.sub(" ", joined.lower() if self.lower else joined)
        return joined.encode("utf-8", "surrogatepass").translate(self.table, self.dropped)


def _table(*, lower: bool, blank: bytes = b"") -> bytes:
    table = bytearray(range(256))
    if lower:
        table = bytearray(bytes(table).lower())
    for byte in (*_ASCII_BLANKS, *blank):
        table[byte] = BLANK
    for byte, stand_in in RESERVED_BYTES.items():
        if byte not in blank:
            table[byte] = stand_in
    table[ord("\n")] = NEXT_TEXT
    return bytes(table)


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A tokenizer: ``tokenize`` is its definition, the other fields compute the same for many texts."""

    name: str
    tokenize: Callable[[str], list[str]] = field(repr=False)
    byte_tokenizer: ByteTokenizer = field(repr=False)
    transform: Callable[[str], tuple[str, ...]] | None = field(default=None, repr=False)
    """The tokens of a raw token; ``None`` if raw tokens are final."""
    changeable_bytes: bytes | None = field(default=None, repr=False)
    """Raw tokens without any of these bytes do not change; ``None``: any token may change."""
    exceptions: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False, hash=False)
    """Raw tokens that change although they contain none of ``changeable_bytes``."""


# --- the tokenizer of SQuAD, and the same with articles --------------------------------------------------------------


def plain_words(text: str, *, case: bool = True, punctuation: bool = True) -> list[str]:
    """Tokens separated by white space, by default in lower case and without ASCII punctuation.

    Accents are equal however they are encoded.

    >>> plain_words("Cafe\u0301!") == plain_words("café")
    True
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if case:
        text = text.lower()
    return (text.translate(WITHOUT_PUNCTUATION) if punctuation else text).split()


def squad_words(text: str, *, case: bool = True, punctuation: bool = True) -> list[str]:
    """``plain_words`` without articles: the normalisation of SQuAD's evaluation script."""
    return ARTICLE.sub(" ", " ".join(plain_words(text, case=case, punctuation=punctuation))).split()


@lru_cache(maxsize=_CACHED_WORDS)
def _without_articles(word: str) -> tuple[str, ...]:
    return tuple(ARTICLE.sub(" ", word).split())


# An article inside a raw token needs a neighbour that is not a letter or digit: punctuation, a control character,
# or anything beyond ASCII.
_ARTICLE_NEIGHBOURS = bytes(byte for byte in range(2, 256) if not chr(byte).isalnum() or byte >= 128)


@lru_cache
def word_tokenizer(*, case: bool = True, punctuation: bool = True, articles: bool = False) -> Tokenizer:
    """A tokenizer at white space; ``case``, ``punctuation`` and ``articles`` say what is ignored."""
    options = f"{'lower' if case else 'cased'},{'bare' if punctuation else 'punctuated'}"
    dropped = _PUNCTUATION.encode() if punctuation else b""
    byte_tokenizer = ByteTokenizer(f"words[{options}]", _table(lower=case), dropped, lower=case, compose=True)

    if not articles:
        return Tokenizer(
            byte_tokenizer.name, lambda text: plain_words(text, case=case, punctuation=punctuation), byte_tokenizer
        )
    spellings = ["a", "an", "the"]
    if not case:
        spellings = list(chain.from_iterable(_case_variants(article) for article in spellings))
    return Tokenizer(
        f"{byte_tokenizer.name} without articles",
        lambda text: squad_words(text, case=case, punctuation=punctuation),
        byte_tokenizer,
        transform=_without_articles,
        changeable_bytes=_ARTICLE_NEIGHBOURS,
        exceptions=dict.fromkeys(spellings, ()),
    )


def without_wide_punctuation(text: str) -> str:
    """A text without the punctuation of Chinese and Japanese.

    >>> without_wide_punctuation("每周一开行。")
    '每周一开行'
    """
    return text.translate(_WITHOUT_WIDE_PUNCTUATION)


@lru_cache
def unspaced_word_tokenizer(words: Tokenizer) -> Tokenizer:
    """A tokenizer at white space, to which the punctuation of Chinese and Japanese is punctuation too."""
    byte_tokenizer = replace(
        words.byte_tokenizer,
        name=f"{words.byte_tokenizer.name} without wide punctuation",
        prepare=without_wide_punctuation,
        only_lines=False,
    )

    def tokenize(text: str) -> list[str]:
        return words.tokenize(without_wide_punctuation(text))

    name = f"{words.name} without wide punctuation"
    return replace(words, name=name, tokenize=tokenize, byte_tokenizer=byte_tokenizer)


def _case_variants(word: str) -> list[str]:
    """All combinations of upper and lower case of a word."""
    return ["".join(form) for form in product(*zip(word, word.upper(), strict=True))]


# --- the tokenizer of ROUGE ------------------------------------------------------------------------------------------

_LATIN = bytes(byte for byte in range(256) if chr(byte) in string.ascii_letters + string.digits)
_ROUGE_BYTES = ByteTokenizer(
    "rouge", _table(lower=True, blank=bytes(byte for byte in range(256) if byte not in _LATIN)), lower=True
)
_UNICODE_BYTES = ByteTokenizer("unicode", _table(lower=True), lower=True)


@lru_cache(maxsize=_CACHED_WORDS)
def _stem_latin_token(word: str) -> tuple[str, ...]:
    return (_stem(word) if word.isascii() else word,)


@lru_cache(maxsize=_CACHED_WORDS)
def _unicode_token(stem: bool, word: str) -> tuple[str, ...]:
    return tuple(unicode_tokens(word, stem=stem))


@lru_cache
def rouge_tokenizer(*, stem: bool = True, script: str = "latin") -> Tokenizer:
    """The tokenizer of ROUGE: ``latin`` equals the rouge-score package, ``unicode`` supports every script."""
    name = f"rouge[{script},{'stemmed' if stem else 'whole'}]"
    if script == "latin":
        transform = _stem_latin_token if stem else None
        return Tokenizer(name, lambda text: rouge_tokens(text, stem=stem), _ROUGE_BYTES, transform=transform)
    plain = partial(unicode_tokens, stem=stem)
    return Tokenizer(name, plain, _UNICODE_BYTES, transform=partial(_unicode_token, stem))


# --- the tokenizers of BLEU and chrF ---------------------------------------------------------------------------------

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_SYMBOL = re.compile(r"([!-&(-+:-@\[-`{-~/])")
_STOP_AFTER_NO_DIGIT = re.compile(r"([^0-9])([.,])")
_STOP_BEFORE_NO_DIGIT = re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])-")


def tokenize_13a(text: str) -> list[str]:
    """The tokens of mteval-v13a, WMT's tokenizer: separates symbols, and full stops and commas outside of numbers.

    A hyphen at the end of a line joins it with the next; trailing white space is removed first.
    """
    return _tokenize_13a_line(_join_lines(text).replace("\n", " "))


def _join_lines(text: str) -> str:
    return text.rstrip().replace("<skipped>", "").replace("-\n", "")


def _tokenize_13a_line(text: str) -> list[str]:
    text = text.replace("<skipped>", "")
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    return _split_symbols(f" {text} ")


def _split_symbols(text: str) -> list[str]:
    text = _SYMBOL.sub(r" \1 ", text)
    text = _STOP_AFTER_NO_DIGIT.sub(r"\1 \2 ", text)
    text = _STOP_BEFORE_NO_DIGIT.sub(r" \1 \2", text)
    return _DASH_AFTER_DIGIT.sub(r"\1 - ", text).split()


# The blocks of sacrebleu's tokenizer "zh", and what its range for U+20000 to U+2A6D6 covers: it is written with four
# digits of five, so that it begins after U+2000 and ends with U+2A6D.
_ZH_CHARACTER = re.compile(
    "([\u2001-\u2a6d\u2e80-\u2fdf\u2ff0-\u303f\u3100-\u312f\u31a0-\u31bf\u31c0-\u31ef\u3200-\u4db5\u4e00-\u9fbb"
    "\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef])"
)


@lru_cache(maxsize=_CACHED_WORDS)
def _tokenize_13a_word(word: str) -> tuple[str, ...]:
    # Every pattern looks at neighbours at most, and white space does not matter: token by token is exact.
    return tuple(_tokenize_13a_line(word))


_ASCII_SYMBOLS = string.punctuation.replace("'", "").encode()


@lru_cache
def bleu_tokenizer(*, tokenize: str = "13a", lowercase: bool = False) -> Tokenizer:
    """The tokenizer of BLEU: mteval-v13a (``13a``), sacrebleu's for Chinese (``zh``), or white space (``none``)."""
    name = f"bleu[{tokenize},{'lower' if lowercase else 'cased'}]"
    table = _table(lower=lowercase)

    def cased(text: str) -> str:
        return text.lower() if lowercase else text

    if tokenize == "none":
        return Tokenizer(name, lambda text: cased(text).split(), ByteTokenizer(name, table, lower=lowercase))
    if tokenize == "zh":

        def words(text: str) -> list[str]:
            return _split_symbols(_ZH_CHARACTER.sub(r" \1 ", cased(text).strip()))

        return custom_tokenizer(name, words)
    byte_tokenizer = ByteTokenizer(name, table, lower=lowercase, prepare=lambda text: _join_lines(cased(text)))
    return Tokenizer(
        name,
        lambda text: tokenize_13a(cased(text)),
        byte_tokenizer,
        transform=_tokenize_13a_word,
        changeable_bytes=_ASCII_SYMBOLS,
    )


# --- the tokenizers that metrics take by name ------------------------------------------------------------------------

_VISIBLE_BLANKS = {blank: chr(0xF0000 + blank) for blank in range(0x3001) if chr(blank).isspace()}


def visible_token(token: str) -> str:
    """A token in which white space is part of the token: each blank as a private character."""
    return token.translate(_VISIBLE_BLANKS)


def character_trigrams(text: str) -> list[str]:
    """The character trigrams of the words of a text, as SQuAD's script gives them; short words stay whole.

    >>> character_trigrams("The lakes of it")
    ['lak', 'ake', 'kes', 'of', 'it']
    """
    trigrams: list[str] = []
    for word in squad_words(text):
        starts = range(max(len(word) - 2, 1))
        trigrams += [word[start : start + 3] for start in starts]
    return trigrams


@lru_cache
def script_tokenizer(*, stem: bool = False) -> Tokenizer:
    """Words, and in scripts without spaces letters; ``stem`` stems words of a-z and 0-9."""
    words = custom_tokenizer("scripts", script_tokens)
    return stemmed(words) if stem else words


def stemmed(words: Tokenizer) -> Tokenizer:
    """A tokenizer whose words of a-z and 0-9 are stemmed; it has no other transformation."""

    def tokenize(text: str) -> list[str]:
        return [_stem_latin_token(word)[0] for word in words.tokenize(text)]

    return replace(words, name=f"{words.name} stemmed", tokenize=tokenize, transform=_stem_latin_token)


def custom_tokenizer(name: str, words: Callable[[str], list[str]]) -> Tokenizer:
    """A tokenizer from a function that tokenises one text."""
    byte_tokenizer = ByteTokenizer(
        name, _table(lower=False), prepare=lambda text: " ".join(words(text)), only_lines=False
    )
    return Tokenizer(name, words, byte_tokenizer)


@lru_cache
def chrf_tokenizer(*, lowercase: bool = False) -> Tokenizer:
    """The word tokenizer of chrF++: splits at white space, and off a punctuation mark at the end, or else the start."""
    name = f"chrf words[{'lower' if lowercase else 'cased'}]"

    def plain(text: str) -> list[str]:
        cased = text.lower() if lowercase else text
        return list(chain.from_iterable(_split_punctuation(word) for word in cased.split()))

    byte_tokenizer = ByteTokenizer(name, _table(lower=lowercase), lower=lowercase)
    return Tokenizer(name, plain, byte_tokenizer, transform=_split_punctuation, changeable_bytes=_PUNCTUATION.encode())


@lru_cache(maxsize=_CACHED_WORDS)
def _split_punctuation(word: str) -> tuple[str, ...]:
    if len(word) > 1 and word[-1] in _PUNCTUATION:
        return word[:-1], word[-1]
    if len(word) > 1 and word[0] in _PUNCTUATION:
        return word[0], word[1:]
    return (word,)


@dataclass(frozen=True, slots=True)
class CharacterTokenizer:
    """A tokenizer into characters, with or without white space."""

    lowercase: bool = False
    whitespace: bool = False

    @property
    def name(self) -> str:
        """The unique name of the tokenizer."""
        return f"characters[{'lower' if self.lowercase else 'cased'},{'all' if self.whitespace else 'seen'}]"

    def text(self, text: str) -> str:
        """The text reduced to the characters that count."""
        text = text.lower() if self.lowercase else text
        return text if self.whitespace else "".join(text.split())

    def tokenize(self, text: str) -> list[str]:
        """The characters as a list."""
        return list(self.text(text))


# --- stop words: English words of structure; a fixed list, because changing it changes numbers -----------------------

_DETERMINERS = """
a an the this that these those each every either neither some any no all both few many much more most several such
other another own same
"""
_PRONOUNS = """
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
herself it its itself they them their theirs themselves one who whom whose which what whoever whatever there
"""
_VERBS = """
am is are was were be been being have has had having do does did doing done will would shall should can could may
might must ought
"""
_PREPOSITIONS = """
of in on at by for with about against between into through during before after above below to from up down out off
over under within without upon across along among around behind beside besides beyond despite except inside near onto
outside per since than toward towards until via
"""
_CONNECTIVES = """
and or but nor so yet if because as while although though unless whereas whether when where why how then once here
again further only just not very too also even still ever never now
"""
# Contractions without the apostrophe.
_CONTRACTIONS = """
dont doesnt didnt isnt arent wasnt werent hasnt havent hadnt wont wouldnt shouldnt cant cannot couldnt mustnt im ive
id ill youre youve youd youll hes shes weve theyre theyve theyd theyll thats theres whats s t d ll re ve m
"""

STOP_WORDS = frozenset(" ".join((_DETERMINERS, _PRONOUNS, _VERBS, _PREPOSITIONS, _CONNECTIVES, _CONTRACTIONS)).split())
"""In lower case and without punctuation, as ``plain_words`` gives words."""


def content_terms(text: str) -> set[str]:
    """Words that are no stop words, in lower case, and pairs of neighbours among them.

    In a script without spaces a character is a word, and a pair is two characters next to each other.

    >>> sorted(content_terms("What is the first episode?"))
    ['episode', 'first', 'first episode']
    >>> sorted(content_terms("如何退款？"))
    ['何', '何退', '如', '如何', '款', '退', '退款']
    """
    text = unicodedata.normalize("NFC", text).lower()
    found: set[str] = set()
    before, before_end = "", 0
    for start, end in zip(*word_bounds(text), strict=True):
        word = text[start:end]
        if word in STOP_WORDS:
            continue
        found.add(word)
        if not (is_unspaced(before) and is_unspaced(word)):
            found.add(f"{before} {word}".strip())
        elif start == before_end:
            found.add(f"{before}{word}")
        before, before_end = word, end
    return found
