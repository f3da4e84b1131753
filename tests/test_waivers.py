"""Tests of the file of waivers: what is read, refused and written; and of the rules, on records."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from pytest_byoc.config.errors import SettingsError
from pytest_byoc.config.settings import Settings
from pytest_byoc.gate import waiver_rules, waivers
from pytest_byoc.gate.planned import PARAMETERS, Selection
from pytest_byoc.gate.problems import Gate
from pytest_byoc.gate.waivers import Waiver, matches, may_start_with
from pytest_byoc.record.listed import Excused
from pytest_byoc.record.target_record import TargetRecord

from .conftest import make_settings

#: One IR is enough: the tests examine the host.
pytestmark = pytest.mark.once

ENTRY = '[[waiver]]\ncheck = "numerics"\ncase = "nn.relu[float32]"\nreason = "known"\n'
BY_MESSAGE = '[[waiver]]\ncheck = "views"\nmessage = "output # of a run whose *"\nreason = "known"\n'


def read(tmp_path: Path, text: str | bytes, update: bool = False) -> waivers.Waivers:
    path = tmp_path / "w.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return waivers.read(path, update)


@pytest.mark.parametrize(
    ("pattern", "case", "fits"),
    [
        ("nn.relu[float32]", "nn.relu[float32]", True),
        ("nn.relu[float32]", "nn.relu[float16]", False),
        ("nn.relu[*]", "nn.relu[float32-shape_2x3]", True),
        ("nn.relu[float??]", "nn.relu[float32]", True),
        ("nn?relu[*]", "nn.relu[float32]", True),
        # Brackets are neither a class of characters nor part of a regular expression.
        ("[ab]dd[float32]", "add[float32]", False),
        ("nn.relu[float32]", "nnxrelu[float32]", False),
        ("relu*", "nn.relu[float32]", False),
        ("random[*]", "random[nn.relu]", True),
    ],
)
def test_patterns_match_cases(pattern: str, case: str, fits: bool) -> None:
    assert matches(pattern, case) is fits
    if fits:
        assert all(may_start_with(pattern, case[:i]) for i in range(len(case)))


def test_beginnings_of_matching_names() -> None:
    assert may_start_with("*_relu[a]", "conv_")
    assert not may_start_with("conv[a]", "convolution[")
    assert not may_start_with("conv[a", "conv[a]x")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (ENTRY + ENTRY, 5, "the same check and case as in line 1; remove one"),
        (ENTRY.replace("reason", "raeson"), 1, "unknown key 'raeson' (did you mean reason?)"),
        (ENTRY.replace('reason = "known"\n', ""), 1, "has no reason; every waiver needs"),
        (ENTRY.replace('case = "nn.relu[float32]"\n', ""), 1, "no case and no message; every waiver needs"),
        (BY_MESSAGE + BY_MESSAGE, 5, "the same check and message as in line 1; remove one"),
        (ENTRY.replace('"known"', '" "'), 1, "reason must be a string that is not empty"),
        (ENTRY.replace('"known"', "7"), 1, "reason must be a string that is not empty, found 7"),
        (ENTRY.replace('"nn.relu[float32]"', '["a"]'), 1, "case must be a string"),
        (ENTRY.replace("numerics", "numeric"), 1, "unknown check 'numeric' (did you mean numerics?)"),
        (ENTRY.replace("numerics", "*"), 1, "unknown check '*'; known are process, offload"),
        (ENTRY + 'expires = "2030-01-01"\n', 1, "expires must be a date, written as 2027-01-31"),
        (ENTRY + "expires = 2030-01-01T00:00:00\n", 1, "expires must be a date"),
        (ENTRY + "expires = 2030\n", 1, "expires must be a date"),
        (ENTRY + "expires = 31.12.2030\n", 5, "a date is written as expires = 2027-01-31"),
        (ENTRY + "expires = 2030-13-01\n", 5, "a date is written as expires = 2027-01-31"),
        (ENTRY + 'ir = "tflite"\n', 1, "ir must be relay or relax"),
        ("\n" + ENTRY + "case = \n", 6, "this is not valid TOML: Invalid value"),
        (ENTRY + 'issue = "\n', 5, "this is not valid TOML"),
        (ENTRY + "[[waivers]]\n", 5, "unknown table or key 'waivers'; the file holds entries [[waiver]]"),
        ("# x\n" + ENTRY.replace("[[waiver]]", "[waiver]"), 2, "a table with the header [[waiver]]"),
        ('waiver = [{check = "numerics"}]\n', 1, "a table with the header [[waiver]]"),
        ("waiver = 7\n", 1, "a table with the header [[waiver]]"),
        (b"# \xff\n", 1, "this is not UTF-8"),
        (ENTRY.encode("utf-16"), 1, "this is not UTF-8"),
    ],
)
def test_errors_are_reported_with_their_line(
    tmp_path: Path, text: str | bytes, line: int, message: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(f"{tmp_path / 'w.toml'}:{line}: "), raised.value
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_unreadable_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"there is no file .*; --byoc-update-waivers would write one"):
        waivers.read(tmp_path / "none.toml", False)
    assert waivers.read(tmp_path / "none.toml", True).entries == ()
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        waivers.read(tmp_path, False)
    assert read(tmp_path, "").entries == ()
    assert read(tmp_path, "# nothing is waived\n").entries == ()


@pytest.mark.parametrize("epoch", ["soon", "1e400", "9" * 30])
def test_source_date_epoch(monkeypatch: pytest.MonkeyPatch, epoch: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86399")
    assert waivers.today() == datetime.date(1970, 1, 1)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    with pytest.raises(SettingsError, match="SOURCE_DATE_EPOCH must be seconds"):
        waivers.today()


def test_an_entry_applies_on_its_last_day(tmp_path: Path) -> None:
    (entry,) = read(tmp_path, ENTRY + "expires = 2030-01-31\n").entries
    assert not entry.expired(datetime.date(2030, 1, 31))
    assert entry.expired(datetime.date(2030, 2, 1))


TRICKY = '''# head

# above the first
[[waiver]] # its header
check = "numerics"
case = "a[*]"
reason = """
[[waiver]]
# no comment\u2028, "quoted" """

  [[ waiver ]]
check = "rerun"
case = 'b["x"]'
reason = "\u00fc"
# below b
# above c
[[waiver]]
check = "process"
case = "c"
reason = "z"'''


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_kept_entries_are_written_unchanged(tmp_path: Path, bom: bytes, newline: str) -> None:
    data = bom + TRICKY.replace("\n", newline).encode()
    original = read(tmp_path, data)
    assert [(e.line, e.case) for e in original.entries] == [(4, "a[*]"), (11, 'b["x"]'), (17, "c")]
    assert original.entries[0].comments() == "# above the first\n"
    original.write(original.entries)
    assert original.path.read_bytes() == data
    _, b, c = original.entries
    new = Waiver("offload", 'd["\\]', 'tab\t, "quote", \x7f', expires=datetime.date(2031, 1, 2))
    original.write([b, c, new])
    again = waivers.read(original.path, False)
    assert [(e.check, e.case) for e in again.entries] == [
        ("rerun", 'b["x"]'), ("process", "c"), ("offload", 'd["\\]'),
    ]
    assert again.entries[2].reason == 'tab , "quote",  ' and again.entries[2].expires == new.expires
    text = original.path.read_bytes().decode("utf-8-sig")
    assert text.startswith(f"# head{newline}") and "above the first" not in text
    assert f"# below b{newline}# above c" in text
    assert (text.count("\r\n") == text.count("\n")) is (newline == "\r\n")
    assert original.path.read_bytes().startswith(bom)


COMMENTED = '''# head
[["waiver"]]
check = "numerics"  # beside a value
case = """
# no comment
[[waiver]]"""
reason = "x"
# of the first: an empty line follows

# of the second
  # indented
[[waiver]]
# below the header
check = "rerun"

case = 'b'
reason = ''' + """'''
[[waiver]]
# no comment'''
# of the third
[[waiver]]
check = "process"
case = "c"
reason = "z"
# the end
"""


def test_comments_go_with_the_entry_below_them(tmp_path: Path) -> None:
    found = read(tmp_path, COMMENTED)
    assert [(e.line, e.comments()) for e in found.entries] == [
        (2, "# head\n"), (12, "# of the second\n  # indented\n"), (21, "# of the third\n"),
    ]
    first, second, third = found.entries
    found.write([first, third])
    kept = found.path.read_text()
    assert kept == first.text + third.text and first.text + second.text + third.text == COMMENTED
    assert "# of the first" in kept and "# of the second" not in kept and "# below the header" not in kept
    found.write([second])
    assert found.path.read_text() == second.text
    # Removing all leaves what stands before the first entry.
    apart = read(tmp_path, "# head\n\n" + COMMENTED)
    apart.write([])
    assert apart.path.read_text() == "# head\n\n"


# --- the rules -----------------------------------------------------------------------------------


def selection(*planned: str, run: tuple[str, ...] | None = None) -> Selection:
    return Selection(set(PARAMETERS), set(planned), set(planned if run is None else run))


def recorded(**outcomes: str) -> TargetRecord:
    """Returns a record with outcomes by case; "wrong-result" fails the check numerics."""
    record = TargetRecord("mine", "relay", {})
    for case, outcome in outcomes.items():
        record._case(case, outcome, ["numerics"] if outcome == "wrong-result" else [])
    return record


def entry(case: str, line: int = 1, **more: object) -> Waiver:
    return Waiver("numerics", case, "known", line=line, **more)  # type: ignore[arg-type]


def judged(
    tmp_path: Path, record: TargetRecord, ran: Selection, *entries: Waiver, settings: Settings | None = None
) -> tuple[Gate, list[Waiver]]:
    gate = Gate()
    file = waivers.Waivers(tmp_path / "w.toml", datetime.date(2030, 6, 1), entries)
    needed = waiver_rules.judge(gate, file, settings or make_settings(tmp_path), [record], [ran])
    return gate, needed


def texts(gate: Gate) -> list[str]:
    return [p.text for p in gate.problems]


def test_an_entry_that_waives_a_failure_is_no_problem(tmp_path: Path) -> None:
    waiver = entry("a*")
    gate, needed = judged(
        tmp_path, recorded(a1="wrong-result", a2="not-offloaded"), selection("a1", "a2"), waiver
    )
    assert not gate.problems and not gate.notes and needed == [waiver]


def test_a_waiver_of_a_passing_case_is_stale(tmp_path: Path) -> None:
    record = recorded(a1="wrong-result", a2="pass", a3="pass")
    wide, exact = entry("a[123]"), entry("a?", line=7, text="# why\n[[waiver]]\n", issue="#7")
    gate, needed = judged(tmp_path, record, selection("a1", "a2", "a3"), exact)
    (text,) = texts(gate)
    assert text.startswith("w.toml:7: waived, but passes: a2, a3; narrow its pattern")
    # The failing cases keep reason, link and comment.
    assert needed == [Waiver("numerics", "a1", "known", "#7", text="# why\n")]
    gate, needed = judged(tmp_path, record, selection("a1", "a2", "a3"), entry("a2"))
    assert texts(gate) == [
        "w.toml:1: waived, but passes: a2; remove the entry (--byoc-update-waivers does it)"
    ]
    assert needed == []
    assert "fits no case" in texts(judged(tmp_path, record, selection("a1"), wide)[0])[0]


@pytest.mark.parametrize("outcome", ["not-offloaded", "inconclusive", "reference-wrong"])
def test_a_waiver_of_a_case_without_failure_is_stale(tmp_path: Path, outcome: str) -> None:
    gate, needed = judged(tmp_path, recorded(a1=outcome), selection("a1"), entry("a1"))
    assert f"waives nothing of check numerics: a1 is {outcome}" in texts(gate)[0] and needed == []


def test_an_entry_is_not_judged_while_its_case_fails_another_check(tmp_path: Path) -> None:
    record = TargetRecord("mine", "relay", {})
    record._case("a1", "crash", ["process"])
    gate, needed = judged(tmp_path, record, selection("a1"), entry("a1"))
    assert not gate.problems and needed == [entry("a1")]
    assert gate.notes == [
        "w.toml: the entries in line 1 were not judged, since the case fails check process instead"
    ]
    record._excuse(Excused("waived", "a1", "process", "crash", "", "new"))
    gate, needed = judged(tmp_path, record, selection("a1"), entry("a1"))
    assert "a1 is crash" in texts(gate)[0]
    assert needed == [Waiver("process", "a1", "new")]


def test_an_expired_entry_is_kept_and_reported(tmp_path: Path) -> None:
    old = entry("a1", line=3, expires=datetime.date(2030, 5, 31))
    for record in (recorded(a1="wrong-result"), recorded(a1="pass")):
        gate, needed = judged(tmp_path, record, selection("a1"), old)
        assert any(t.startswith("w.toml:3: the waiver of a1 expired after 2030-05-31: ") for t in texts(gate))
        assert needed == [old]


def test_entries_for_cases_that_were_not_run_are_not_judged(tmp_path: Path) -> None:
    record = recorded(**{"a[1]": "pass"})
    ran = selection("a[1]", "a[2]", "conv[", run=("a[1]",))
    ran.leave_out(["nn.dense"], ["fused"])
    names = ["a[2]", "a[*2]", "conv[way]", "*", "random[nn.dense]", "nn.dense[float32]", "fused[way]"]
    names += ["tests/test_x.py::test_own"]
    for name in names[:3] + names[4:]:
        gate, needed = judged(tmp_path, record, ran, entry(name))
        assert not gate.problems and needed == [entry(name)], name
        assert gate.notes == [
            "w.toml: the entries in line 1 were not judged, since tests that it may be for were not run"
        ]
    for name in ("a[3]", "con[way]", "random[nn.relu]", "nn.dens[float32]"):
        assert "fits no case" in texts(judged(tmp_path, record, ran, entry(name))[0])[0], name
    # Files of the suite that were not collected may have any case.
    part = selection("a[1]")
    part.parameters.discard("byoc_onnx")
    assert not judged(tmp_path, record, part, entry("a[3]"))[0].problems
    # A vendor's own tests are known if their file was collected.
    own = selection("a[1]", "tests/test_x.py::test_a")
    assert "fits no case" in texts(judged(tmp_path, record, own, entry(names[-1]))[0])[0]


@pytest.mark.parametrize(
    "case", ["random[add]", "region[add]", "followed[add]", "thorough[diamond]", "diamond"]
)
def test_entries_for_cases_narrowed_by_options_are_not_judged(tmp_path: Path, case: str) -> None:
    settings = make_settings(tmp_path, narrowed=("--byoc-max-examples",))
    record = recorded(**{case: "pass", "add[float32]": "pass"})
    ran = selection(case, "add[float32]")
    gate, _ = judged(tmp_path, record, ran, entry(case), settings=settings)
    assert not gate.problems and "--byoc-max-examples decide what is generated" in gate.notes[0]
    assert texts(judged(tmp_path, record, ran, entry(case))[0])
    assert texts(judged(tmp_path, record, ran, entry("add[*"), settings=settings)[0])


def test_entries_for_another_target_or_ir_are_not_judged(tmp_path: Path) -> None:
    record, ran = recorded(a="pass"), selection("a")
    for other in (entry("a", target="yours"), entry("a", ir="relax")):
        gate, needed = judged(tmp_path, record, ran, other)
        assert not gate.problems and needed == [other] and "no such target or IR" in gate.notes[0]
    assert texts(judged(tmp_path, record, ran, entry("a", target="mine", ir="relay"))[0])


def excused(case: str, message: str, line: int = 1) -> Excused:
    return Excused("waived", case, "views", "wrong-result", message, "known", line=line, normalised=message)


def test_a_waiver_by_message_applies_to_all_cases_with_the_message(tmp_path: Path) -> None:
    file = read(tmp_path, BY_MESSAGE)
    (entry,) = file.entries
    assert (entry.case, entry.message) == ("", "output # of a run whose *")
    message = "output # of a run whose inputs are views"
    for case in ("nn.relu[float32]", "random[add]"):
        assert file.find("t", "relay", case, "views", message) is entry
        assert file.find("t", "relay", case, "numerics", message) is None
        assert file.find("t", "relay", case, "views", "the process died") is None
    narrowed = read(tmp_path, BY_MESSAGE.replace("message", 'case = "nn.*"\nmessage', 1))
    assert narrowed.find("t", "relay", "nn.relu[float32]", "views", message) is not None
    assert narrowed.find("t", "relay", "random[add]", "views", message) is None


def test_a_waiver_by_message_without_a_failure_is_stale(tmp_path: Path) -> None:
    (waiver,) = read(tmp_path, BY_MESSAGE).entries
    record = recorded(a1="pass", a2="wrong-result")
    gate, needed = judged(tmp_path, record, selection("a1", "a2"), waiver)
    assert "waives nothing: no failure of check views has the message" in texts(gate)[0] and not needed
    # Passing cases do not make the waiver stale.
    record.excused["a2", "views"] = excused("a2", "output # of a run whose inputs are views")
    gate, needed = judged(tmp_path, record, selection("a1", "a2"), waiver)
    assert not gate.problems and needed == [waiver]
    # Cases that were not run may fail with the message.
    record.excused.clear()
    gate, _ = judged(tmp_path, record, selection("a1", "a2", "a3", run=("a1", "a2")), waiver)
    assert not gate.problems and "tests that it may be for were not run" in gate.notes[0]
