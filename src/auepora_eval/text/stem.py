"""The Porter stemmer with nltk's extensions: ``relational`` and ``relate`` become the same ``relat``.

The algorithm is M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980: five steps, each a table of
suffixes with a condition on what is left when the suffix is gone. nltk departs from the paper in a few places, and
rouge-score's numbers depend on every one of them; each is marked "nltk:" where it happens.

The conditions speak of the *shape* of a stem, a ``v`` or a ``c`` per letter, and of its *measure* m, the number of
times a vowel is followed by a consonant: ``tree`` (ccvv) has m = 0, ``trouble`` (ccvvccv) has 1, ``private`` has 2.
"""

from functools import lru_cache

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
    stem = _final_e(stem)
    return _final_ll(stem)


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
