"""Reading and writing files: every kind of bad input, and round trips that lose nothing."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel_migrate.command.write import encode, write_all, write_atomically
from accel_migrate.errors import UserError
from accel_migrate.source import read_source

BAD_INPUTS = {
    "a syntax error is named with its line": (b"x = 1\ny = (\n", "f.py:2: syntax error: '(' was never closed"),
    "what only the compiler finds too": (b"x = 1\nreturn x\n", "f.py:2: syntax error: 'return' outside function"),
    "wrong indentation": (b"if x:\ny = 1\n", "f.py:2: syntax error: expected an indented block"),
    "tabs and spaces that disagree": (b"if x:\n\ty = 1\n        z = 1\n", "f.py:3: syntax error: "),
    "Python 2: print": (b"import torch\nprint 'loss', loss\n", "f.py:2: is Python 2 (a print statement)"),
    "Python 2: except": (b"try:\n    f()\nexcept IOError, e:\n    pass\n", "f.py:3: is Python 2 (an `except X, e`"),
    "Python 2: exec": (b"exec 'x = 1'\n", "f.py:1: is Python 2 (an exec statement)"),
    "Python 2: raise": (b"raise ValueError, 'no'\n", "f.py:1: is Python 2 (a `raise X, message`"),
    "Python 2: long": (b"x = 10L\n", "f.py:1: is Python 2 (a long number"),
    "Python 2: octal": (b"x = 0777\n", "f.py:1: is Python 2 (an octal number"),
    "Python 2: <>": (b"x = 1 <> 2\n", "f.py:1: is Python 2 (the operator `<>`)"),
    "not UTF-8": (b"x = 1\n# caf\xe9\n", "f.py:2: is not UTF-8 (byte 0xe9)"),
    "UTF-16": (codecs.BOM_UTF16_LE + "x = 1\n".encode("utf-16-le"), "f.py: is not UTF-8 but UTF-16"),
    "a null byte": (b"x = 1\n\x00", "f.py:2: contains a null byte"),
    "an encoding nobody knows": (b"# coding: klingon\nx = 1\n", "f.py: declares an unknown encoding: klingon"),
    "an encoding that is none of text": (b"# coding: hex\nx = 1\n", "f.py: "),
    "not what it declares": (b"# coding: ascii\nx = '\xc3\xa9'\n", "f.py: is not in the encoding 'ascii'"),
    "mark and declaration differ": (codecs.BOM_UTF8 + b"# coding: latin-1\n", "f.py: has a UTF-8 byte order mark but"),
    "too deeply nested": (b"x = " + b"a(" * 150 + b"b" + b")" * 150 + b".c()" * 30000, "f.py: is too deeply nested"),
    "too many brackets": (b"x = " + b"(" * 5000 + b")" * 5000, "f.py"),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_input_is_one_clear_line(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if case == "Python 2: except" and sys.version_info >= (3, 14):
        pytest.skip("`except A, B:` means something in Python 3.14")
    data, expected = BAD_INPUTS[case]
    monkeypatch.chdir(tmp_path)
    Path("f.py").write_bytes(data)
    with pytest.raises(UserError) as error:
        read_source(Path("f.py"))
    assert str(error.value).startswith(expected)
    assert "\n" not in str(error.value)


def test_what_is_no_readable_file_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook, pipe, secret = tmp_path / "n.ipynb", tmp_path / "pipe.py", tmp_path / "secret.py"
    notebook.write_text("{}")
    os.mkfifo(pipe)
    secret.write_text("x = 1\n")
    for path, what in (
        (tmp_path / "none.py", "no such file"),
        (tmp_path, "is a directory"),
        (notebook, "is not a notebook"),
        (pipe, "is not a regular file"),
        (Path("a\0b.py"), "cannot be read"),
        (tmp_path / ("x" * 300 + ".py"), "cannot be read: File name too long"),
    ):
        with pytest.raises(UserError, match=what):
            read_source(path)
    monkeypatch.setattr(Path, "read_bytes", _denied)
    with pytest.raises(UserError, match=r"secret\.py: cannot be read: permission denied"):
        read_source(secret)


def _denied(_: Path) -> bytes:
    raise PermissionError(errno.EACCES, "Permission denied")


GOOD_INPUTS = {
    "plain": b"x = 1\n",
    "empty": b"",
    "only a comment, no newline": b"# nothing",
    "no newline at the end": b"x = 1\ny = 2",
    "byte order mark": codecs.BOM_UTF8 + b"x = 1\n",
    "CRLF": b"x = 1\r\ny = 2\r\n",
    "old Mac": b"x = 1\ry = 2\r",
    "mixed line ends": b"x = 1\r\ny = 2\nz = 3\rw = 4\r\n",
    "form feeds": b"x = 1\n\x0c\ny = 2\x0c\n",
    "tabs": b"if x:\n\ty = 1\n",
    "Latin-1": b"# -*- coding: latin-1 -*-\nx = 'caf\xe9'\n",
    "Latin-1 by Vim, CRLF": b"# vim: set fileencoding=iso-8859-15 :\r\nx = '\xa4'\r\n",
    "line separators that end no line": "x = '\x1c\x85\u2028'\ny = 1\n".encode(),
    "mark and CRLF": codecs.BOM_UTF8 + b"x = '\xc3\xa9'\r\n",
    "invalid escape, which only warns": b"x = '\\d'\n",
}


@pytest.mark.parametrize("case", GOOD_INPUTS)
@pytest.mark.filterwarnings("error")
def test_writing_unchanged_text_gives_the_same_bytes(case: str, tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_bytes(GOOD_INPUTS[case])
    source = read_source(file)
    assert "\r" not in source.text
    assert source.line_count == len(source.text.split("\n")) - source.text.endswith("\n")
    write_atomically(file, source.text, source)
    assert file.read_bytes() == GOOD_INPUTS[case]


_LINES = st.lists(st.sampled_from(["x = 1", "", "# café", "\x0c", "if x: pass", "s = '\u2028'"]), max_size=12)
_ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@given(lines=_LINES, data=st.data(), bom=st.booleans(), ended=st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_file_survives_reading_and_writing(
    lines: list[str], data: st.DataObject, bom: bool, ended: bool, tmp_path: Path
) -> None:
    text = "".join(line + data.draw(_ENDS) for line in lines) + ("" if ended else "y = 2")
    stored = (codecs.BOM_UTF8 if bom else b"") + text.encode()
    file = tmp_path / "f.py"
    file.write_bytes(stored)
    source = read_source(file)
    assert encode(source.text, source) == stored


@given(data=st.binary(max_size=40) | st.text("#coding:=utf-81(\\\r\n\t\x0c '\"\0é", max_size=40).map(str.encode))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused_in_one_line(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_bytes(data)
    try:
        source = read_source(file)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert encode(source.text, source) == data


@given(ends=st.lists(_ENDS, min_size=3, max_size=9), where=st.integers(0, 8), removes=st.booleans())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lines_that_stay_keep_their_own_line_end(ends: list[str], where: int, removes: bool, tmp_path: Path) -> None:
    where %= len(ends)
    before = [f"x{number} = {number}" for number in range(len(ends))]
    file = tmp_path / "f.py"
    file.write_bytes("".join(line + end for line, end in zip(before, ends, strict=True)).encode())
    source = read_source(file)
    after = [*before[:where], "new = 1", "newer = 2", *before[where + removes :]]
    stored = encode("".join(line + "\n" for line in after), source).decode()
    written = re.findall("([^\r\n]+)(\r\n|\r|\n)", stored)
    assert [line for line, _ in written] == after
    own = dict(zip(before, ends, strict=True))
    assert all(end == own.get(line, source.newline) for line, end in written)


def test_mode_and_symbolic_link_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "code" / "real.py", tmp_path / "link.py"
    real.parent.mkdir()
    real.write_text("x = 1\n")
    real.chmod(0o751)
    link.symlink_to(real)
    write_atomically(link, "x = 2\n", read_source(link))
    assert link.is_symlink()
    assert real.read_text() == "x = 2\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o751
    assert [path.name for path in real.parent.iterdir()] == ["real.py"]


def test_a_read_only_file_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text("x = 1\n")
    file.chmod(0o444)
    with pytest.raises(UserError, match="is read-only; nothing was changed"):
        write_atomically(file, "x = 2\n", read_source(file))
    assert file.read_text() == "x = 1\n"


@pytest.mark.parametrize("call", ["tempfile.mkstemp", "os.fsync", "os.replace"])
def test_a_failure_at_any_moment_loses_nothing(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f.py"
    file.write_text("x = 1\n")
    source = read_source(file)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(call, full)
    with pytest.raises(UserError, match="No space left on device; nothing was changed"):
        write_atomically(file, "x = 2\n", source)
    assert file.read_text() == "x = 1\n"
    assert list(tmp_path.iterdir()) == [file]


def test_no_file_of_several_changes_when_one_cannot(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    for file in (good, bad):
        file.write_text("x = 1\n")
    bad.chmod(0o444)
    with pytest.raises(UserError, match=r"bad\.py: is read-only"):
        write_all([(file, "x = 2\n", read_source(file)) for file in (good, bad)])
    assert good.read_text() == bad.read_text() == "x = 1\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.py", "good.py"]


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text("x = 1\n")
    source = read_source(file)
    file.write_text("x = 3\n")
    with pytest.raises(UserError, match="has changed on disk"):
        write_atomically(file, "x = 2\n", source)
    assert file.read_text() == "x = 3\n"


def test_a_character_that_the_encoding_lacks_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_bytes(b"# coding: latin-1\nx = 1\n")
    source = read_source(file)
    with pytest.raises(UserError, match="does not exist in its encoding 'iso-8859-1'"):
        write_atomically(file, "# coding: latin-1\nx = '\u2192'\n", source)


def test_a_new_file_gets_the_mode_of_the_one_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text("x = 1\n")
    file.chmod(0o555)
    write_atomically(tmp_path / "new" / "deep" / "f.py", "x = 2\n", read_source(file))
    assert stat.S_IMODE((tmp_path / "new" / "deep" / "f.py").stat().st_mode) == 0o755


def test_twenty_thousand_lines(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text("".join(f"x{number} = f({number})\n" for number in range(20_000)))
    assert read_source(file).line_count == 20_000
