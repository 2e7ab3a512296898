"""Systems that are real commands: processes that answer, fall silent, die, and talk too much."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.core.types import Document, EvaluationSample, SystemOutputs
from auepora_eval.errors import BadValueError, SystemCallError
from auepora_eval.systems.command import CommandSystem
from helpers.builders import sample
from helpers.requirements import REPO

Make = Callable[..., CommandSystem]
HEAD = "import json, os, select, sys, time\n"
ECHO = """
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"sample_id": asked["sample_id"], "retrieved": ["d1"], "response": asked["query"], "extra": {"pid": os.getpid(), "asked": asked}}))
"""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes a system of a Python program given as text."""
    made: list[CommandSystem] = []

    def system(code: str = ECHO, **options: Any) -> CommandSystem:
        script = tmp_path / f"system{len(made)}.py"
        script.write_text(HEAD + code, encoding="utf-8")
        made.append(CommandSystem([sys.executable, str(script)], **options))
        return made[-1]

    yield system
    for one in made:
        one.close()


def text(output: SystemOutputs) -> str:
    assert output.response is not None
    return output.response.text


def failure(system: CommandSystem, asked: EvaluationSample | None = None) -> SystemCallError:
    with pytest.raises(SystemCallError) as caught:
        system.run(asked or sample(), top_k=3)
    return caught.value


def is_gone(pid: int) -> bool:
    """Whether a process is gone; one that nobody has waited for is not."""
    for _ in range(200):  # a child of a child is waited for by the system, a moment later
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z" and not is_our_child(pid):
                return True  # dead; whoever adopted it has yet to notice
        time.sleep(0.05)
    return False


def is_our_child(pid: int) -> bool:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) == os.getpid()


# ---- good days ----------------------------------------------------------------------------------------------------------


def test_requests_have_no_gold_and_share_a_process(make: Make) -> None:
    system = make()
    asked_for = sample(["gold"], answer="gold answer", labels={"lang": "en"}, history=[{"text": "Hi"}])
    outputs = [system.run(asked_for, top_k=4) for _ in range(5)]
    assert outputs[0].extra["asked"] == {"sample_id": "1", "query": "why?", "top_k": 4, "history": [{"text": "Hi"}]}
    assert len({output.extra["pid"] for output in outputs}) == 1
    assert [item.doc.doc_id for item in outputs[0].retrieved] == ["d1"]


def test_documents_are_sent_where_they_are_given(make: Make) -> None:
    system = make(documents=True)
    asked = [system.run(sample(), top_k=1, documents=given).extra["asked"] for given in (None, [Document("d", "D.")])]
    assert asked[1] == {**asked[0], "documents": [{"doc_id": "d", "text": "D."}]}
    assert system.takes_documents
    assert not make().takes_documents


@pytest.mark.parametrize(
    "query",
    ["ä 🙂 中文", "a\nb\r\nc\u2028d", '"quoted" \\ {brace}', "", "\x00\x1b", "x" * 1_000_000],
    ids=["scripts", "line breaks", "quotes", "empty", "control characters", "a million characters"],
)
def test_any_text_goes_there_and_back(make: Make, query: str) -> None:
    assert text(make(timeout=60).run(sample(query=query), top_k=1)) == query


def test_a_command_may_be_a_text_and_has_folder_and_environment(make: Make, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        HEAD + "q = json.loads(input())\n"
        "print(json.dumps({'sample_id': q['sample_id'], 'response': sys.argv[1] + os.environ['MINE'] + os.environ['HOME']}))"
    )
    system = CommandSystem(f"{sys.executable} mine.py 'two words'", cwd=tmp_path, env={"MINE": "!"})
    assert text(system.run(sample(), top_k=1)) == f"two words!{os.environ['HOME']}"
    assert "mine.py 'two words'" in repr(system)
    system.close()


def test_one_process_per_call_in_flight(make: Make, tmp_path: Path) -> None:
    # Each process answers only once four have been asked: were they to share one, none would.
    system = make(
        f"""
for line in sys.stdin:
    asked = json.loads(line)
    open({str(tmp_path)!r} + "/" + asked["sample_id"], "w").close()
    while not all(os.path.exists({str(tmp_path)!r} + f"/q{{n}}") for n in range(4)):
        time.sleep(0.01)
    print(json.dumps({{"sample_id": asked["sample_id"], "response": str(os.getpid())}}))
""",
        timeout=60,
    )
    with ThreadPoolExecutor(4) as pool:
        pids = {text(output) for output in pool.map(lambda n: system.run(sample(sample_id=f"q{n}"), top_k=1), range(4))}
        assert len(pids) == 4
        later = {text(system.run(sample(sample_id=f"q{n}"), top_k=1)) for n in range(4)}
    assert later <= pids


def test_many_threads_each_get_their_own_answer(make: Make) -> None:
    system = make()
    with ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(lambda n: system.run(sample(sample_id=f"q{n}", query=f"t{n}"), top_k=1), range(200)))
    assert [text(output) for output in outputs] == [f"t{n}" for n in range(200)]
    assert len({output.extra["pid"] for output in outputs}) <= 4


def test_command_that_exits_after_a_reply_is_restarted(make: Make) -> None:
    for write in ("print", "sys.stdout.write"):  # with and without a line break at the end
        system = make(
            f"asked = json.loads(sys.stdin.readline())\n{write}(json.dumps({{'sample_id': asked['sample_id'], 'response': str(os.getpid())}}))"
        )
        assert len({text(system.run(sample(), top_k=1)) for _ in range(4)}) == 4


def test_error_reported_by_the_command_is_kept(make: Make) -> None:
    system = make("for line in sys.stdin: print(json.dumps({'sample_id': '1', 'error': 'no_model: gone'}))")
    assert system.run(sample(), top_k=1).error == "no_model: gone"


def test_a_chatty_error_output_never_blocks(make: Make) -> None:
    system = make(
        "for line in sys.stdin:\n  sys.stderr.write('x' * 300_000 + '\\n')\n  print(json.dumps({'sample_id': '1', 'response': 'ok'}))"
    )
    assert [text(system.run(sample(), top_k=1)) for _ in range(3)] == ["ok"] * 3


def test_stray_prints_are_ignored(make: Make) -> None:
    system = make(
        "print('loading ...')\n"
        "for line in sys.stdin:\n"
        "  print('thinking'); print(); print('[1, 2]'); print({'python': 1}); print('42')\n"
        "  print(json.dumps({'sample_id': '1', 'response': 'ok'}))\n"
        "  print('done')\n"
    )
    assert [text(system.run(sample(), top_k=1)) for _ in range(3)] == ["ok"] * 3


def test_what_was_written_before_the_question_was_read_is_no_deadlock(make: Make) -> None:
    # Both pipes fill up: the command writes 300 kB of noise before it reads a question of 300 kB.
    system = make("for n in range(300): print('x' * 1000)\n" + ECHO, timeout=60)
    assert len(text(system.run(sample(query="y" * 300_000), top_k=1))) == 300_000


# ---- bad days ---------------------------------------------------------------------------------------------------------

FAULTS: list[tuple[str, str, str, str]] = [  # why, program, reason, message
    ("dies half-way", "sys.stdin.readline(); sys.stderr.write('disk full\\nbye\\n'); sys.exit(3)", "process_died", r"^exit code 3; last words: disk full\nbye$"),
    ("dies at once", "raise SystemError('bad luck')", "process_died", r"^exit code 1; last words: (?s:.*)SystemError: bad luck$"),
    ("kills itself", "sys.stdin.readline(); os.kill(os.getpid(), 9)", "process_died", r"^killed by SIGKILL$"),
    ("leaves without an answer", "sys.stdin.readline()", "process_died", r"^exit code 0$"),
    ("dies within its answer", "sys.stdin.readline(); print('{\"sample_id\": ', end='')", "bad_output", r"not valid JSON"),
    ("closes its output", "sys.stdin.readline(); os.close(1); time.sleep(60)", "process_died", r"it closed its output"),
    ("closes its input and sleeps", "select.select([0], [], []); os.close(0); time.sleep(60)", "timeout", r"no answer after"),
    ("hangs", "sys.stderr.write('loading\\n'); time.sleep(60)", "timeout", r"no answer after (1.5|30) s; does it flush its output\?; last words: loading"),
    ("hangs after noise", "sys.stdin.readline(); print('a'); print('b'); time.sleep(60)", "timeout", r"\(lines passed over that are no JSON objects: 2, the last: b\)"),
    ("dies after noise", "sys.stdin.readline(); print('Segfault ahead'); os._exit(9)", "process_died", r"exit code 9 \(lines passed over .* the last: Segfault ahead\)"),
    ("talks without end", "while True: print('blah')", "bad_output", r"more than 1000 lines, and no answer among them"),
    ("a line without end", "while True: sys.stdout.write('x' * 10000)", "bad_output", r"a line of more than 100000 bytes"),
    ("another sample's answer", "sys.stdin.readline(); print('{\"sample_id\": \"2\"}'); time.sleep(60)", "bad_output", r"for sample '2', not for '1'"),
    ("no id", "sys.stdin.readline(); print('{\"response\": \"x\"}'); time.sleep(60)", "bad_output", r"field 'sample_id' is missing"),
    ("an unknown field", "sys.stdin.readline(); print('{\"sample_id\": \"1\", \"answr\": 1}'); time.sleep(60)", "bad_output", r"unknown field 'answr'"),
    ("says nothing", "sys.stdin.readline(); print('{\"sample_id\": \"1\"}'); time.sleep(60)", "bad_output", r"neither what was retrieved"),
    ("not UTF-8", "sys.stdin.readline(); os.write(1, b'{\"sample_id\": \"\\xff\"}\\n'); time.sleep(60)", "bad_output", r"not valid UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "reason", "message"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_fault_is_an_error_with_its_reason(make: Make, code: str, reason: str, message: str) -> None:
    if reason == "timeout":
        # On a busy machine a process may start after the end of a short call: then a longer one decides.
        errors = (failure(make(code, timeout=timeout)) for timeout in (1.5, 30))
        error = next(one for one in errors if re.search(message, one.message))
        assert (error.reason, error.retry) == (reason, True), error
        return
    system = make(code, timeout=60, max_bytes=100_000)
    for _ in range(2):  # the next call, with a fresh process, finds the same
        error = failure(system)
        assert (error.reason, error.retry) == (reason, True), error
        assert re.search(message, error.message), error.message


@pytest.mark.slow
def test_a_question_that_is_never_read_to_its_end_is_not_waited_for(make: Make) -> None:
    system = make("os.close(0); time.sleep(60)")
    assert failure(system, sample(query="x" * 300_000)).message == "it closed its input"


def test_the_call_after_a_death_is_answered_by_a_fresh_process(make: Make, tmp_path: Path) -> None:
    mark = tmp_path / "died"
    system = make(
        f"if not os.path.exists({str(mark)!r}):\n  sys.stdin.readline(); open({str(mark)!r}, 'w').close(); sys.exit(3)\n"
        + ECHO
    )
    assert failure(system).reason == "process_died"
    assert text(system.run(sample(), top_k=1)) == "why?"


def test_dying_on_one_question_is_that_questions_failure(make: Make) -> None:
    system = make(
        "for line in sys.stdin:\n  asked = json.loads(line)\n  if asked['query'] == 'die': sys.exit(7)\n  print(json.dumps({'sample_id': asked['sample_id'], 'response': 'ok'}))"
    )
    assert text(system.run(sample(), top_k=1)) == "ok"
    assert failure(system, sample(query="die")).message == "exit code 7"
    assert text(system.run(sample(), top_k=1)) == "ok"


def test_two_lines_for_one_question_are_never_taken_for_the_next_answer(make: Make) -> None:
    system = make(
        "for line in sys.stdin:\n"
        "  asked = json.loads(line)\n"
        "  answer = json.dumps({'sample_id': asked['sample_id'], 'response': asked['query']})\n"
        "  print(answer + '\\n' + answer)\n"
    )
    answered = 0
    for n in range(6):
        try:
            assert text(system.run(sample(sample_id=f"q{n}", query=f"t{n}"), top_k=1)) == f"t{n}"
            answered += 1
        except SystemCallError as error:
            assert "is for sample" in error.message  # noqa: PT017  either may happen, depending on when the line arrives
    assert answered >= 3


@pytest.mark.slow
def test_after_a_timeout_a_late_answer_is_not_taken_for_the_next(make: Make, tmp_path: Path) -> None:
    mark = tmp_path / "slow"
    slow = f"if not os.path.exists({str(mark)!r}): open({str(mark)!r}, 'w').close(); time.sleep(60)\n"
    system = make(slow + ECHO, timeout=3)
    assert failure(system).reason == "timeout"
    system._timeout = 60
    assert text(system.run(sample(sample_id="2", query="second"), top_k=1)) == "second"


# ---- nothing stays behind -----------------------------------------------------------------------------------------------

WITH_CHILD = """
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"sample_id": asked["sample_id"], "response": f"{os.getpid()} {child.pid}"}))
    if asked["query"] == "hang": time.sleep(600)
"""


def test_closing_ends_processes_and_their_children(make: Make) -> None:
    system = make(WITH_CHILD)
    pids = [int(word) for word in text(system.run(sample(), top_k=1)).split()]
    system.close()
    assert all(map(is_gone, pids))
    assert failure(system).message == "the system was closed"
    system.close()


def test_a_timeout_ends_the_process_and_its_children(make: Make) -> None:
    system = make(WITH_CHILD, timeout=20)
    pids = [int(word) for word in text(system.run(sample(query="hang"), top_k=1)).split()]
    system._timeout = 0.5
    assert failure(system).reason == "timeout"
    assert all(map(is_gone, pids))


@pytest.mark.slow
def test_processes_that_ignore_sigterm_are_killed(make: Make) -> None:
    system = make("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ECHO + "\ntime.sleep(600)")
    everyone = threading.Barrier(3)

    def ask(_: int) -> int:
        everyone.wait(60)
        return int(system.run(sample(), top_k=1).extra["pid"])

    with ThreadPoolExecutor(3) as pool:
        pids = set(pool.map(ask, range(3)))
    system.close()
    assert all(map(is_gone, pids))


def test_a_process_may_finish_its_work_once_its_input_is_closed(make: Make, tmp_path: Path) -> None:
    system = make(ECHO + f"\nopen({str(tmp_path / 'left')!r}, 'w').close()")
    system.run(sample(), top_k=1)
    system.close()
    assert (tmp_path / "left").exists()


def test_closing_while_a_call_waits_ends_the_call(make: Make) -> None:
    system = make("print('x', file=sys.stderr); time.sleep(600)")
    errors: list[SystemCallError] = []
    asking = threading.Thread(target=lambda: errors.append(failure(system)))
    asking.start()
    while not system._all or system._idle:
        time.sleep(0.01)
    system.close()
    asking.join(30)
    assert [error.reason for error in errors] == ["process_died"]


@pytest.mark.parametrize(
    "ending", ["", "del system", "raise ValueError", "sys.exit(4)"], ids=["end", "forgotten", "raises", "exits"]
)
def test_a_program_that_never_closes_leaves_nothing_behind(tmp_path: Path, ending: str) -> None:
    (tmp_path / "system.py").write_text(HEAD + WITH_CHILD)
    program = (
        "import sys\n"
        "from auepora_eval.core.types import EvaluationSample\n"
        "from auepora_eval.systems.command import CommandSystem\n"
        "system = CommandSystem([sys.executable, 'system.py'])\n"
        "print(system.run(EvaluationSample('1', 'why?'), top_k=1).response.text, flush=True)\n"
        f"{ending}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPO / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2
    assert all(map(is_gone, pids))


def test_a_killed_program_leaves_no_process_that_reads_its_input(tmp_path: Path) -> None:
    (tmp_path / "system.py").write_text(HEAD + ECHO)
    program = (
        "import os, sys\n"
        "from auepora_eval.core.types import EvaluationSample\n"
        "from auepora_eval.systems.command import CommandSystem\n"
        "system = CommandSystem([sys.executable, 'system.py'])\n"
        "print(system.run(EvaluationSample('1', 'why?'), top_k=1).extra['pid'], flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPO / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert is_gone(int(done.stdout))


# ---- what cannot be meant -------------------------------------------------------------------------------------------------


def test_a_command_that_cannot_be_started_is_known_at_once(tmp_path: Path) -> None:
    plain, broken = tmp_path / "plain.txt", tmp_path / "broken"
    plain.write_text("no program")
    broken.write_text("no program")
    broken.chmod(0o755)
    rows: list[tuple[Any, dict[str, Any], str]] = [
        ("no-such-program-xyz --now", {}, "there is no program 'no-such-program-xyz' on the PATH"),
        ("./gone.sh", {"cwd": tmp_path}, f"there is no program './gone.sh' in {tmp_path}"),
        ([sys.executable], {"cwd": tmp_path / "gone"}, f"there is no folder {tmp_path / 'gone'} to run it in"),
        ([str(plain)], {}, f"'{plain}' may not be run; make it executable"),
        ([str(broken)], {}, f"'{broken}' cannot be started: Exec format error"),
        ("", {}, "command is empty"),
        ([], {}, "command is empty"),
        ("say 'hello", {}, "cannot be split into words: No closing quotation"),
        (["a\0b"], {}, "command holds a null character"),
        (7, {}, "command must be a string or a list of strings"),
        ([sys.executable, 7], {}, "command must be a string or a list of strings"),
        ([sys.executable], {"env": {"A": 1}}, "env: 'A' must be a string"),
        ([sys.executable], {"env": {"A=B": "x"}}, "env: 'A=B' is not a variable name"),
        (
            [sys.executable],
            {"timeout": -1, "max_bytes": 0},
            "timeout must be a number > 0, not -1; max_bytes must be an integer >= 1, not 0",
        ),
    ]
    for command, options, message in rows:
        with pytest.raises(BadValueError) as caught:
            CommandSystem(command, **options)
        assert message in str(caught.value)


def test_request_that_json_cannot_represent_starts_no_process(make: Make) -> None:
    system = make()
    assert failure(system, sample(history=[{"at": object()}])).reason == "bad_request"
    assert json.loads(json.dumps(system.run(sample(), top_k=1).extra["asked"]))["query"] == "why?"
