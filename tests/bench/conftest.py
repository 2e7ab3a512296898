"""A stand-in of jieba, which the tests must not need: it knows the words of the examples."""

import re
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from auepora_eval.metrics.answer_base import named_tokenizer

WORDS = ("每周", "冬天", "汉语", "法语", "渡轮", "开行", "蓝湖", "结冰", "停运", "张三", "李岚", "北岭", "山高")
_TOKEN = re.compile(rf"{'|'.join(WORDS)}|[A-Za-z0-9]+|.", re.DOTALL)


@pytest.fixture
def jieba(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Cuts the texts of the examples as jieba 0.42.1 does."""
    module = ModuleType("jieba")
    module.__spec__ = ModuleSpec("jieba", None)
    module.lcut = _TOKEN.findall  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jieba", module)
    named_tokenizer.cache_clear()
    yield
    named_tokenizer.cache_clear()
