"""The Porter stemmer: published examples by rule, and nltk word by word."""

import itertools
import random
import re
from collections.abc import Callable, Iterable

import pytest
from hypothesis import example, given, strategies as st

from auepora_eval.text.tokenizers import porter_stem
from helpers.requirements import examples, need, need_data

ROWS = [  # word, want, why; Porter's own examples where the paper has one
    ("caresses", "caress", "1a sses -> ss"),
    ("ponies", "poni", "1a ies -> i"),
    ("caress", "caress", "1a ss stays"),
    ("cats", "cat", "1a s goes"),
    ("feed", "feed", "1b eed stays: nothing measured before it"),
    ("agreed", "agre", "1b eed -> ee, 5a e goes: m(agre) = 1, not short"),
    ("plastered", "plaster", "1b ed goes; 4 er stays: m(plast) = 1"),
    ("bled", "bled", "1b ed stays: no vowel in bl"),
    ("motoring", "motor", "1b ing goes"),
    ("sing", "sing", "1b ing stays: no vowel in s"),
    ("conflated", "conflat", "1b at -> ate, 5a e goes: m(conflat) = 2"),
    ("troubled", "troubl", "1b bl -> ble, 5a e goes: m(troubl) = 1, not short"),
    ("sized", "size", "1b iz -> ize, 5a e stays: siz is short"),
    ("hopping", "hop", "1b double p -> p"),
    ("falling", "fall", "1b double l stays"),
    ("hissing", "hiss", "1b double s stays"),
    ("fizzed", "fizz", "1b double z stays"),
    ("failing", "fail", "1b no e: vowel before il"),
    ("filing", "file", "1b e comes back: m(fil) = 1 and short"),
    ("boxed", "box", "1b no e: cvc but ends with x"),
    ("happy", "happi", "1c y -> i after a consonant"),
    ("syzygy", "syzygi", "1c the y before g is a vowel, g is not"),
    ("relational", "relat", "2 ational -> ate, 4 stays: m(rel) = 1, 5a e goes: m(relat) = 2"),
    ("conditional", "condit", "2 tional -> tion, 4 ion goes after t: m(condit) = 2"),
    ("rational", "ration", "2 ational stays: m(r) = 0, tional is not tried; 4 al goes: m(ration) = 2"),
    ("hesitancy", "hesit", "2 anci -> ance, 4 ance goes: m(hesit) = 2"),
    ("digitizer", "digit", "2 izer -> ize, 4 ize goes: m(digit) = 2"),
    ("conformably", "conform", "2 bli -> ble, 4 able goes: m(conform) = 2"),
    ("radically", "radic", "2 alli -> al, 3 ical -> ic, 4 ic stays: m(rad) = 1"),
    ("differently", "differ", "2 entli -> ent, 4 ent goes: m(differ) = 2"),
    ("vietnamization", "vietnam", "2 ization -> ize, 4 ize goes: m(vietnam) = 2"),
    ("operator", "oper", "2 ator -> ate, 4 ate goes: m(oper) = 2"),
    ("feudalism", "feudal", "2 alism -> al, 4 al stays: m(feud) = 1"),
    ("hopefulness", "hope", "2 fulness -> ful, 3 ful goes, 5a e stays: hop is short"),
    ("callousness", "callous", "2 ousness -> ous, 4 ous stays: m(call) = 1"),
    ("sensibility", "sensibl", "2 biliti -> ble, 4 ible stays: m(sens) = 1, 5a e goes: m(sensibl) = 2"),
    ("triplicate", "triplic", "3 icate -> ic, 4 ic stays: m(tripl) = 1"),
    ("formative", "form", "3 ative goes"),
    ("electrical", "electr", "3 ical -> ic, 4 ic goes: m(electr) = 2"),
    ("goodness", "good", "3 ness goes"),
    ("revival", "reviv", "4 al goes: m(reviv) = 2"),
    ("gyroscopic", "gyroscop", "4 ic goes, and y is a vowel here: m(gyroscop) = 3"),
    ("replacement", "replac", "4 ement goes, the longest of ement, ment, ent"),
    ("adoption", "adopt", "4 ion goes after t"),
    ("champion", "champion", "4 ion stays after p"),
    ("homologous", "homolog", "4 ous goes: m(homolog) = 3"),
    ("probate", "probat", "4 ate stays: m(prob) = 1, 5a e goes: m(probat) = 2"),
    ("rate", "rate", "5a e stays: m(rat) = 1 and short"),
    ("cease", "ceas", "5a e goes: m(ceas) = 1, not short"),
    ("controlling", "control", "5b ll -> l: m(control) = 2"),
    ("roll", "roll", "5b ll stays: m(rol) = 1"),
    ("generalizations", "gener", "the paper's walk: s, ization -> ize, alize -> al, al"),
    ("oscillators", "oscil", "the paper's walk: s, ator -> ate, ate, ll -> l"),
    ("skies", "sky", "nltk: irregular, not ski"),
    ("dying", "die", "nltk: irregular, not dy"),
    ("news", "news", "nltk: irregular, not new"),
    ("innings", "inning", "nltk: irregular, not in"),
    ("proceed", "proceed", "nltk: irregular, not proce"),
    ("proceeds", "proce", "nltk: irregular only as listed; 1b eed -> ee, 5a e goes: m(proce) = 1"),
    ("ties", "tie", "nltk: 1a ies -> ie in a word of four"),
    ("tied", "tie", "nltk: 1b ied -> ie in a word of four"),
    ("cried", "cri", "nltk: 1b ied -> i otherwise"),
    ("owed", "owe", "nltk: vowel and consonant are short, even with w"),
    ("enjoy", "enjoy", "nltk: 1c y stays after a vowel"),
    ("fly", "fli", "nltk: 1c asks for no vowel"),
    ("relationally", "relat", "nltk: 2 goes on after alli -> al"),
    ("hopefully", "hope", "nltk: 2 fulli -> ful, 3 ful goes"),
    ("geology", "geolog", "nltk: 2 logi -> log, m(geol) = 1 with its l"),
    ("logy", "logi", "nltk: 2 logi stays, m(l) = 0"),
    ("is", "is", "two letters carry no suffix"),
    ("", "", "nothing to stem"),
    ("RUNNING", "run", "lower case comes first"),
    ("1990s", "1990", "digits are consonants"),
    ("a*ding", "a*d", "nltk reads *d as a rule's name and says ad; we do not"),
]


@pytest.mark.parametrize(("word", "want"), [pytest.param(word, want, id=f"{word}: {why}") for word, want, why in ROWS])
def test_rule(word: str, want: str) -> None:
    assert porter_stem(word) == want


Stem = Callable[[str], str]


@pytest.fixture(scope="module")
def nltk_stem() -> Stem:
    stem: Stem = need("nltk.stem.porter").PorterStemmer().stem
    return stem


def check_all(words: Iterable[str], nltk_stem: Stem) -> None:
    """Every difference at once: a wrong rule shows itself by the words it spoils."""
    assert {word: (ours, theirs) for word in words if (ours := porter_stem(word)) != (theirs := nltk_stem(word))} == {}


@pytest.mark.slow
def test_equals_nltk_on_its_irregular_words(nltk_stem: Stem) -> None:
    check_all(need("nltk.stem.porter").PorterStemmer().pool, nltk_stem)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["rouge_score/*.txt", "clapnq/*.jsonl", "squad2/*.json"])
def test_equals_nltk_on_written_words(source: str, nltk_stem: Stem) -> None:
    folder, pattern = source.split("/")
    texts = [path.read_text(encoding="utf-8") for path in sorted(need_data(folder).glob(pattern))]
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    assert len(words) > 1000, f"{source} should be a large vocabulary"
    check_all(words, nltk_stem)


# Every suffix a rule names, in the spelling in which it reaches the stemmer.
SUFFIXES = re.findall(
    r"\w+",
    """
    s ss ies sses eed ied ed ing y ational tional ency ancy izer bly ally ently ely ously ization ation ator alism
    iveness fulness ousness ality ivity bility fully logy icate ative alize icity ical ful ness al ance ence er ic able
    ible ant ement ment ent ion sion tion ou ism ate ity ous ive ize e ll at bl iz
    """,
)
ENDINGS = ["", "s", "ed", "ing", "ly"]


@pytest.mark.slow
def test_equals_nltk_on_every_suffix_after_every_short_stem(nltk_stem: Stem) -> None:
    stems = ["".join(letters) for size in range(4) for letters in itertools.product("aylt", repeat=size)]
    check_all((a + b + c for a in stems for b in SUFFIXES for c in ENDINGS), nltk_stem)


@pytest.mark.slow
def test_equals_nltk_on_two_suffixes_after_longer_stems(nltk_stem: Stem) -> None:
    rng = random.Random(1980)
    stems = ["".join(rng.choices("aeioubdglnprstvwxyz", k=rng.randint(2, 7))) for _ in range(examples(30))]
    check_all((a + b + c for a in stems for b in SUFFIXES for c in SUFFIXES), nltk_stem)


WORD = st.builds(
    "".join,
    st.tuples(
        st.text("aeiouybltsxz0aAY", max_size=6),
        st.sampled_from(["", *SUFFIXES]),
        st.sampled_from(["", *SUFFIXES]),
    ),
)


@given(WORD)
@example("y" * 5000)
def test_equals_nltk_on_made_up_words(nltk_stem: Stem, word: str) -> None:
    assert porter_stem(word) == nltk_stem(word)


# The asterisk is nltk's slip, pinned in the table above.
ANY = st.text(st.characters(exclude_characters="*"), max_size=4)


@given(ANY, st.sampled_from(SUFFIXES))
@example("İ", "")  # one character, two in lower case: nltk counts it before
@example("İ", "s")
@example("\ud800", "ing")
def test_equals_nltk_on_any_characters(nltk_stem: Stem, start: str, suffix: str) -> None:
    assert porter_stem(start + suffix) == nltk_stem(start + suffix)
