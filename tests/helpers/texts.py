"""Texts made to be difficult, for every test that cuts or compares them."""

from hypothesis import strategies as st

ATOMS = [
    "a", "an", "the", "The", "THE", "cat", "cats", "running", "cats'", "don't", "U.S.", "3.14", "1,000", "2019-20", "-",
    "--", "e.g.,", "(x)", "&amp;", "&quot;hi&quot;", "&lt;", "<skipped>", "x<skipped>y", "<SKIPPED>", "...", "a.", ".b",
    "naïve", "nai\u0308ve", "İstanbul", "ΣΑΣ", "—", "the—cat", "“the”", "a’s", "the\x01cat", "\u212aelvin", "日本", "日本語です",
    "ﬁne", "relational", "generously", "skies", "dying", "100%", "#tag", "a_b", "_the_", "the,", "an-", "x\u00a0y",
    "p\u2003q", "\u2028", "tab\tz", "crlf\r\nq", "end-\nline", "q-<skipped>\nr", "tail-\n", "\x1c", "\x1f", "\x85", "",
    "\x00", "a\x00", "\x01", "\x00\x01", "\x7f", "\ud800", "x\udfffy", "\u200b", "a\u200db", "\u200fשלום\u200e", "مرحبا",
    "हिन्दी", "ก็", "e\u0301", "é", "abcdefgh", "abcdefghi", "abcdefghij", "abcdefghijkl", "abcdefghijklm", "abcdefgh\x00",
    "internationalization", "internationalisation", "x" * 63, "x" * 64, "x" * 65, "x" * 70, "x" * 69 + "y", "😀", "👩‍👩‍👧",
]  # fmt: skip

BLANKS = [" ", " ", " ", "  ", "\n", "\t", "", "\u3000"]
ATOM_TEXT = st.lists(st.tuples(st.sampled_from(ATOMS), st.sampled_from(BLANKS)), max_size=14).map(
    lambda parts: "".join(atom + blank for atom, blank in parts)
)
ANY_TEXT = st.text(st.characters(), max_size=30)
TEXT = ATOM_TEXT | ANY_TEXT | st.text("ab .,'-\n", max_size=20)
