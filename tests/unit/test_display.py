"""Where a training shows how far it is: a log, a terminal with and without tqdm, a notebook."""

import io
import sys
from types import SimpleNamespace

import pytest

from fedrepro.runs.display import Bar, Log, Overwritten, display


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_log_gets_all_lines(capsys):
    shown = display()
    assert isinstance(shown, Log)
    shown.show("1 of 2", 0.5)
    shown.say("a run ended")
    shown.close()
    assert capsys.readouterr().err == "1 of 2\na run ended\n"
    assert shown.every == 20.0


def test_nothing_is_shown_where_standard_error_is_closed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    display().say("a run ended")
    assert capsys.readouterr().out == ""


def test_a_terminal_has_one_line_that_is_overwritten(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    shown = display()
    assert isinstance(shown, Overwritten)
    shown.show("1 of 2", 0.5)
    shown.say("a run ended")
    shown.close()
    assert terminal.getvalue() == "\r1 of 2\x1b[K\r\x1b[Ka run ended\n\r\x1b[K"
    assert shown.every == 1.0


def test_a_terminal_has_a_bar_where_tqdm_is_installed(monkeypatch):
    pytest.importorskip("tqdm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    shown = display()
    assert isinstance(shown, Bar)
    shown.say("nothing is shown yet")
    shown.show("1 of 2", 0.5)
    shown.say("a run ended")
    shown.show("2 of 2", 1.0)
    shown.close()
    shown.close()
    text = terminal.getvalue()
    assert text.startswith("nothing is shown yet\n")
    assert "\r1 of 2 " in text
    assert "\ra run ended\n" in text
    assert "\r2 of 2 " in text
    assert text.endswith("\r")  # nothing of the bar is left


@pytest.mark.parametrize("installed", [True, False])
def test_a_notebook_has_a_bar_where_tqdm_is_installed(monkeypatch, installed):
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    auto = SimpleNamespace(tqdm=None) if installed else None
    monkeypatch.setitem(sys.modules, "tqdm.auto", auto)
    assert isinstance(display(), Bar if installed else Log)
