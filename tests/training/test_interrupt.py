"""Signals: the first one is remembered, the second one ends the process, an ignored one stays ignored."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import tiny

from seqwright.training.interrupt import SIGNALS, Interrupt, Interrupted


@pytest.fixture(autouse=True)
def nothing_is_ignored():
    """As in a terminal, also where the tests themselves run under nohup or in the background."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_remembered_until_a_loop_checks(number):
    interrupt = Interrupt()
    interrupt.check()
    with interrupt.listening():
        os.kill(os.getpid(), number)
        assert interrupt.number == number
        with pytest.raises(Interrupted) as left:
            interrupt.check()
    assert left.value.exit_code == 128 + number
    assert str(left.value) == signal.Signals(number).name


def test_the_second_signal_ends_the_process_at_once():
    def twice() -> None:
        with Interrupt().listening():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    assert tiny.in_child(twice) == -signal.SIGINT


def test_the_old_handlers_are_back_after_the_block():
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interrupt().listening():
        assert not set(before) & {signal.getsignal(number) for number in SIGNALS}
    assert [signal.getsignal(number) for number in SIGNALS] == before
    with pytest.raises(ValueError, match="inside"), Interrupt().listening():
        raise ValueError("inside")
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_signals_ignored_by_nohup_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        interrupt = Interrupt()
        with interrupt.listening():
            os.kill(os.getpid(), signal.SIGHUP)
        assert interrupt.number is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_handle_no_signals():
    heard: list[int | None] = []

    def listen() -> None:
        with Interrupt().listening() as interrupt:
            heard.append(interrupt.number)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert heard == [None]


def test_no_handler_for_errors_catches_an_interruption():
    assert not issubclass(Interrupted, Exception)
