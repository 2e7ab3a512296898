"""English words that carry structure rather than content. A fixed list: changing it changes numbers."""

__all__ = ["STOP_WORDS"]

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
