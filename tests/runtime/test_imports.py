"""The folders in which modules and files of specs are searched."""

import sys
from pathlib import Path

import pytest

from auepora_eval.errors import BadValueError
from auepora_eval.runtime.imports import CodeNotLoadedError, find_file, import_object, search_folders


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setattr(sys, "path", sys.path[:])
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, name in ((first, "searched_a"), (second, "searched_b")):
        folder.mkdir()
        (folder / f"{name}.py").write_text(f"PLACE = '{folder.name}'")
        (folder / f"{name}.md").write_text("")
        monkeypatch.delitem(sys.modules, name, raising=False)
    return first, second


def test_folders_are_searched_in_order(folders: tuple[Path, Path]) -> None:
    first, second = folders
    with search_folders(first, second):
        assert [import_object("searched_a:PLACE"), import_object("searched_b:PLACE")] == ["first", "second"]
        for _ in range(3):
            import_object("searched_a:PLACE.upper"), import_object("searched_b:PLACE")
        assert [sys.path.count(str(one)) for one in folders] == [1, 1]
        assert find_file("searched_b.md") == second / "searched_b.md"
        assert find_file("neither.md") == first / "neither.md"
        with pytest.raises(BadValueError, match=f"no module 'searched_c' in {first} or {second}, nor is one installed"):
            import_object("searched_c:X")
    assert find_file("a.md") == Path("a.md")


def test_nothing_is_imported_without_load(folders: tuple[Path, Path]) -> None:
    with search_folders(*folders, load=False), pytest.raises(CodeNotLoadedError) as caught:
        import_object("searched_a:PLACE")
    assert caught.value.path == "searched_a:PLACE"
    assert "searched_a" not in sys.modules
    with search_folders(*folders, load=False), pytest.raises(BadValueError, match="is no name in Python"):
        import_object("searched a:PLACE")
