"""Systems named by an import path: supported objects, and errors for others."""

import asyncio
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.errors import BadValueError
from auepora_eval.systems.interfaces import as_system, load_python
from helpers.builders import sample

Write = Callable[[str], str]
NUMBERS = count()
SYSTEMS = """
    import functools
    from auepora_eval import Document, Response, RetrievedDocument, SystemOutputs
    from auepora_eval.core.rag_interface import SimpleRAGSystem

    def made(text):
        return SystemOutputs(retrieved=[], response=Response(text))

    class System:
        def __init__(self, text="class", *, loud=False):
            self.text = text.upper() if loud else text

        def run(self, sample, *, top_k=5):
            return made(f"{self.text} {top_k}")

        @classmethod
        def build(cls, text="built"):
            return cls(text)

    class Slots:
        __slots__ = ()

        def run(self, sample, *, top_k):
            return made(f"slots {top_k}")

    class Async:
        async def arun(self, sample, *, top_k=5):
            return made(f"async {top_k}")

    class Callable:
        def __call__(self, sample, *, top_k):
            return made(f"called {top_k}")

    def factory(text="factory"):
        return System(text)

    def factory_of_anything(**settings):
        return System(str(settings))

    def factory_of_a_function(word="closure"):
        return lambda sample, *, top_k: made(f"{word} {top_k}")

    def answer(sample, *, top_k):
        return made(f"function {top_k}")

    def answer_with_default(question, top_k=3):
        return made(f"default {top_k}")

    async def aanswer(sample, *, top_k):
        return made(f"async function {top_k}")

    async def amake():
        return System()

    def makes_nothing():
        pass

    def needs(path, size):
        return System(f"{path} {size}")

    class Silent:
        pass

    class Breaks:
        def __init__(self, key="x"):
            self.prepare(key)

        def prepare(self, key):
            return {}[key]  # the line to name

    class Leaves:
        def __init__(self):
            raise SystemExit(3)

    class Finder:
        def retrieve(self, query, *, top_k=5):
            return [RetrievedDocument(Document(str(n)), None, n) for n in range(1, top_k + 1)]

    class Sayer:
        def __init__(self, word="said"):
            self.word = word

        def generate(self, query, documents):
            return Response(f"{self.word} {len(documents)}")

    class Both(Finder, Sayer):
        def __call__(self):
            raise AssertionError("it is not a factory")

    both = Both("parts")
    pair = Finder(), Sayer()

    def factory_of_a_pair(word):
        return Finder(), Sayer(word)

    def simple():
        return SimpleRAGSystem(Finder(), Sayer("simple"))

    instance = System("instance")
    callable_instance = Callable()
    partial = functools.partial(System, "partial")
    number = 7
"""


@pytest.fixture(autouse=True)
def _own_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Writes a module of a new name; gives the name."""
    names: list[str] = []

    def module(code: str) -> str:
        names.append(f"module_of_test_{next(NUMBERS)}")
        (tmp_path / f"{names[-1]}.py").write_text(textwrap.dedent(code), encoding="utf-8")
        return names[-1]

    yield module
    for name in names:
        sys.modules.pop(name, None)


def ask(system: object) -> str:
    asked = as_system(system)
    output = asked.call(sample(), 2)
    if asked.is_async:
        output = asyncio.run(output)
    return str(output.response.text if output.response else "nothing said")


LOADED: list[tuple[str, str, dict[str, Any], str]] = [
    ("a class", "System", {}, "class 2"),
    ("a class with args", "System", {"text": "hi", "loud": True}, "HI 2"),
    ("a class without attributes", "Slots", {}, "slots 2"),
    ("an async class", "Async", {}, "async 2"),
    ("a class method", "System.build", {"text": "mine"}, "mine 2"),
    ("a factory", "factory", {}, "factory 2"),
    ("a factory with args", "factory", {"text": "mine"}, "mine 2"),
    ("a factory that takes anything", "factory_of_anything", {"a": 1}, "{'a': 1} 2"),
    ("... or nothing", "factory_of_anything", {}, "{} 2"),
    ("a factory that needs args", "needs", {"path": "p", "size": 3}, "p 3 2"),
    ("a factory of a function", "factory_of_a_function", {"word": "w"}, "w 2"),
    ("a partial class", "partial", {}, "partial 2"),
    ("a function that answers", "answer", {}, "function 2"),
    ("... by other names", "answer_with_default", {}, "default 2"),
    ("an async function that answers", "aanswer", {}, "async function 2"),
    ("an object", "instance", {}, "instance 2"),
    ("an object that is called", "callable_instance", {}, "called 2"),
    ("retrieve and generate in a class", "Both", {"word": "both"}, "both 2"),
    ("... in an object that can also be called", "both", {}, "parts 2"),
    ("a retriever alone", "Finder", {}, "nothing said"),
    ("a pair", "pair", {}, "said 2"),
    ("a factory of a pair", "factory_of_a_pair", {"word": "mine"}, "mine 2"),
    ("a simple system", "simple", {}, "simple 2"),
]


@pytest.mark.parametrize(("attribute", "args", "want"), [row[1:] for row in LOADED], ids=[row[0] for row in LOADED])
def test_what_a_system_may_be(write: Write, tmp_path: Path, attribute: str, args: dict[str, Any], want: str) -> None:
    assert ask(load_python(f"{write(SYSTEMS)}:{attribute}", args, folder=tmp_path)) == want


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("a misspelt name", "Sytem", {}, "'M' has no 'Sytem'; did you mean 'System'?"),
    ("a name like no other", "qqq", {}, "'M' has no 'qqq'; it has: Async, Both, Breaks, Callable"),
    ("a misspelt argument", "System", {"lout": 1}, "M:System takes no argument 'lout'; did you mean 'loud'?"),
    ("an argument of nobody", "Slots", {"zzz": 1}, "M:Slots takes no argument 'zzz'; it takes none"),
    ("missing arguments", "needs", {"path": "p"}, "the args do not fit M:needs: missing a required argument: 'size'; it takes: path, size"),
    ("a factory without its args", "needs", {}, "the args do not fit M:needs"),
    ("args for a function that answers", "answer", {"x": 1}, "M:answer takes no argument 'x'; it takes: sample, top_k"),
    ("args for an object", "instance", {"x": 1}, "M:instance is neither a class nor a function but an object: it takes no args"),
    ("a constructor that raises", "Breaks", {}, "M:Breaks raised KeyError: 'x' (M.py, line LINE: return {}[key]"),
    ("a constructor that exits", "Leaves", {}, "M:Leaves raised SystemExit: 3"),
    ("a factory that gives nothing", "makes_nothing", {}, "M:makes_nothing gave None: a system is an object with a method run(sample, *, top_k)"),
    ("a class that cannot answer", "Silent", {}, "M:Silent gave an object of type Silent: a system is an object with a method run(sample, *, top_k), or arun"),
    ("a generator alone", "Sayer", {}, "M:Sayer gave an object of type Sayer: a system is an object with a method run(sample, *, top_k); Sayer has generate() and no retrieve(): give a pair"),
    ("an async factory", "amake", {}, "M:amake is an async function that makes a system"),
    ("a number", "number", {}, "M:number is an object of type int: a system is"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("attribute", "args", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_be_a_system(
    write: Write, tmp_path: Path, attribute: str, args: dict[str, Any], message: str
) -> None:
    module = write(SYSTEMS)
    line = next(number for number, text in enumerate(SYSTEMS.splitlines(), 1) if "the line to name" in text)
    with pytest.raises(BadValueError) as caught:
        load_python(f"{module}:{attribute}", args, folder=tmp_path)
    assert (
        str(caught.value)
        .replace(module, "M")
        .replace(f"line {line}", "line LINE")
        .startswith(message.partition("it has")[0])
    )
    assert message in str(caught.value).replace(module, "M").replace(f"line {line}", "line LINE")


PATHS: list[tuple[str, Any, str]] = [
    ("no colon", "my_rag.System", "write module:name, such as 'my_rag:System'"),
    ("a word alone", "my_rag", "write module:name, such as 'my_rag:MySystem'"),
    ("nothing", "", "write module:name"),
    ("no text", 7, "7 names no object"),
    ("no name", "my_rag:", "'' is no name in Python"),
    ("no module", ":System", "'' is no name in Python"),
    ("a file", "file_of_test.py:System", "there is no module 'file_of_test'"),
    ("a path", "src/my_rag:System", "'src/my_rag' is no name in Python; name the module, not its file"),
]


@pytest.mark.parametrize(("path", "message"), [row[1:] for row in PATHS], ids=[row[0] for row in PATHS])
def test_bad_paths(tmp_path: Path, path: Any, message: str) -> None:
    with pytest.raises(BadValueError) as caught:
        load_python(path, {}, folder=tmp_path)
    assert message in str(caught.value)


def test_missing_module_and_missing_import_of_a_module(write: Write, tmp_path: Path) -> None:
    with pytest.raises(BadValueError, match=f"no module 'no_such_module_xyz' in {tmp_path}, nor is one installed"):
        load_python("no_such_module_xyz:System", {}, folder=tmp_path)
    package = tmp_path / "package_of_test"
    package.mkdir()
    with pytest.raises(BadValueError, match=r"no module 'package_of_test\.gone'"):
        load_python("package_of_test.gone:System", {}, folder=tmp_path)
    sys.modules.pop("package_of_test", None)
    module = write("import no_such_package_xyz\n")
    with pytest.raises(BadValueError) as caught:
        load_python(f"{module}:System", {}, folder=tmp_path)
    assert str(caught.value) == (
        f"module '{module}' needs 'no_such_package_xyz', which is not installed "
        f"({module}.py, line 1: import no_such_package_xyz)"
    )


def test_a_misspelt_module_is_suggested(write: Write, tmp_path: Path) -> None:
    module = write(SYSTEMS)
    with pytest.raises(BadValueError, match=f"did you mean '{module}'"):
        load_python(f"{module}x:System", {}, folder=tmp_path)


BROKEN: list[tuple[str, str, str]] = [
    ("a syntax error", "x = 1\ndef f(:\n", r"raised SyntaxError: .* \(M.py, line 2\)"),
    (
        "an error",
        "a = 1\nb = a / 0\n",
        r"importing 'M' raised ZeroDivisionError: division by zero \(M.py, line 2: b = a / 0\)",
    ),
    (
        "a script that exits",
        "import sys\nsys.exit('usage')\n",
        r"importing 'M' raised SystemExit: usage \(M.py, line 2",
    ),
    ("an error without words", "raise RuntimeError", r"importing 'M' raised RuntimeError \(M.py, line 1"),
]


@pytest.mark.parametrize(("code", "message"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_module_that_cannot_be_imported(write: Write, tmp_path: Path, code: str, message: str) -> None:
    module = write(code)
    with pytest.raises(BadValueError) as caught:
        load_python(f"{module}:System", {}, folder=tmp_path)
    assert re.search(message, str(caught.value).replace(module, "M"))


def test_earlier_module_of_the_same_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("class System: ...")
    with pytest.raises(BadValueError, match="'json' is already the name of another module"):
        load_python("json:System", {}, folder=tmp_path)


def test_later_imports_find_the_folder(write: Write, tmp_path: Path) -> None:
    other = write("WORD = 'late'")
    module = write(f"""
        from auepora_eval import Response, SystemOutputs

        def answer(sample, *, top_k):
            from {other} import WORD
            return SystemOutputs([], Response(WORD))
    """)
    assert ask(load_python(f"{module}:answer", None, folder=tmp_path)) == "late"
    assert sys.path[0] == str(tmp_path)
    load_python(f"{module}:answer", {}, folder=tmp_path)
    assert sys.path.count(str(tmp_path)) == 1


def test_a_package_within_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "deep_of_test" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("")
    (inner / "__init__.py").write_text("")
    (inner / "system.py").write_text(textwrap.dedent(SYSTEMS))
    assert ask(load_python("deep_of_test.inner.system:System", {}, folder=tmp_path)) == "class 2"
    for name in [name for name in sys.modules if name.startswith("deep_of_test")]:
        del sys.modules[name]
