"""Kernel logs reach back for weeks; only what is of the run may fail a node."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.facts.reasons import Effect
from steps.documents import Measurements
from steps.parse.api import ParseContext
from steps.parse.kernel.window import ANY_ZONE, MARGIN, Window
from steps.parse.reader import parse_bytes
from tests.feeding import show

STARTED = datetime(2026, 4, 8, 11, 30, tzinfo=UTC)
ENDED = datetime(2026, 4, 8, 12, 10, tzinfo=UTC)
RUN = ParseContext(node="gpu-31", started=STARTED, ended=ENDED)
LOST = (
    "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)


def read(text: str, context: ParseContext = RUN) -> Measurements:
    return parse_bytes(text.encode(), "kernel.log", context)


# What stands in front of the line, and when that is.
STAMPS: dict[str, tuple[str, str | None]] = {
    "dmesg -T, a day before": ("[Tue Apr  7 11:45:00 2026] ", "before"),
    "dmesg -T, during the run": ("[Wed Apr  8 11:45:00 2026] ", None),
    "dmesg -T, hours before, zone not told": ("[Wed Apr  8 01:00:00 2026] ", None),
    "dmesg -T, hours after, zone not told": ("[Wed Apr  8 23:59:00 2026] ", None),
    "dmesg -T, a day after": ("[Thu Apr  9 12:00:00 2026] ", "after"),
    "dmesg -T with facility": ("kern  :err   : [Tue Apr  7 11:45:00 2026] ", "before"),
    "dmesg ISO, hours before": ("[2026-04-08T09:12:13,456789+00:00] ", "before"),
    "dmesg ISO, in another zone": ("[2026-04-08T20:40:00,456789+09:00] ", None),
    "dmesg ISO, without zone": ("[2026-04-08T02:12:13,456789] ", None),
    "rsyslog ISO, hours before": ("2026-04-08T09:12:13.456789+00:00 gpu-31 kernel: ", "before"),
    "rsyslog ISO, during the run": ("2026-04-08T11:45:13.456789+00:00 gpu-31 kernel: ", None),
    "rsyslog ISO, then seconds": ("2026-04-08T09:12:13Z gpu-31 kernel: [99.5] ", "before"),
    "journalctl short-iso": ("2026-04-08T16:12:13+0700 gpu-31 kernel: ", "before"),
    "ISO without zone": ("2026-04-06 11:45:13 gpu-31 kernel: ", "before"),
    "syslog, a day before": ("Apr  7 11:45:00 gpu-31 kernel: ", "before"),
    "syslog, during the run": ("Apr  8 11:45:00 gpu-31 kernel: [ 4242.1] ", None),
    "syslog, in autumn, so of the year before": ("Nov 20 11:45:00 gpu-31 kernel: ", "before"),
    "fabric manager": ("[Apr 02 2026 10:00:00] [ERROR] ", "before"),
    "just before, clocks differ": ("[2026-04-08T11:26:00+00:00] ", None),
    "just after, drivers are late": ("[2026-04-08T12:14:00+00:00] ", None),
    "long before": ("[2026-04-08T11:24:00+00:00] ", "before"),
    "long after": ("[2026-04-08T12:16:00+00:00] ", "after"),
    "seconds since boot": ("[1234567.890123] ", None),
    "seconds since boot, printed later": ("2026-04-09T00:00:00Z [1234567.890123] ", None),
    "no time": ("", None),
    "no date": ("[Wed Apr 31 11:45:00 2026] ", None),
    "no month": ("[Wed Foo  1 11:45:00 2026] ", None),
    "year 0": ("[0000-04-08T11:45:00+00:00] ", None),
    "year 9999": ("[9999-12-31T23:59:59-14:00] ", None),
}


@pytest.mark.parametrize("name", STAMPS)
def test_lines_of_another_time_are_noted_and_no_fault(name: str) -> None:
    stamp, era = STAMPS[name]
    (found,) = read(f"{stamp}{LOST}\n").findings
    show(name, era, (found.effect, found.message))
    assert found.code == "XID_79"
    assert found.effect is (Effect.NOTE if era else Effect.FAIL)
    assert found.message.startswith(f"{era} the run: Xid 79" if era else "Xid 79")
    assert [entity.node for entity in found.entities] == ["gpu-31"]


@pytest.mark.parametrize("name", STAMPS)
def test_every_line_counts_where_the_time_of_the_run_is_not_known(name: str) -> None:
    stamp, _ = STAMPS[name]
    (found,) = read(f"{stamp}{LOST}\n", ParseContext(node="gpu-31")).findings
    assert found.effect is Effect.FAIL


def test_the_same_event_before_and_during_the_run_is_both() -> None:
    old, new = "[Mon Apr  6 03:00:00 2026] ", "[Wed Apr  8 11:45:00 2026] "
    found = read(f"{old}{LOST}\n{old}{LOST}\n{new}{LOST}\n").findings
    assert [(each.effect, each.count) for each in found] == [(Effect.FAIL, 1), (Effect.NOTE, 2)]
    assert found[0].evidence[0].text.startswith(new)


def test_a_sentence_over_several_lines_keeps_the_time_of_its_first() -> None:
    text = (
        "[Mon Apr  6 03:00:00 2026] NVRM: The NVIDIA GPU 0000:9b:00.0\n"
        "                           NVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "                           NVRM: fallen off the bus and is not responding to commands.\n"
    )
    (found,) = read(text).findings
    assert (found.code, found.effect) == ("GPU_FELL_OFF_BUS", Effect.NOTE)
    assert found.entities[0].pci == "0000:9b:00.0"


def test_other_kinds_of_old_lines_are_noted_too() -> None:
    text = "".join(
        f"[Mon Apr  6 03:00:00 2026] {line}\n"
        for line in (
            "nvidia-nvswitch1: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 62 LTSSM Fault Up",
            "mlx5_core 0000:5e:00.0 ib3: Link down",
            "pcieport 0000:40:01.1: AER: Uncorrectable (Fatal) error received: 0000:41:00.0",
            "EDAC MC0: 1 UE memory read error on CPU_SrcID#0",
            "NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x62:0xffff:2477)",
        )
    )
    found = read(text).findings
    assert len(found) == 5
    assert {each.effect for each in found} == {Effect.NOTE}
    assert any(each.effect is Effect.FAIL for each in read(text, ParseContext()).findings)


@given(
    st.timedeltas(min_value=timedelta(days=-900), max_value=timedelta(days=900)),
    st.sampled_from(["%Y-%m-%dT%H:%M:%S+00:00", "%a %b %d %H:%M:%S %Y", "%b %d %H:%M:%S"]),
)
def test_no_line_of_the_run_is_ever_put_outside(shift: timedelta, form: str) -> None:
    time = STARTED + shift
    era = Window(STARTED, ENDED).era(time.strftime(form))
    slack = MARGIN + (timedelta() if "+" in form else ANY_ZONE)
    if STARTED - slack <= time <= ENDED + slack:
        assert era is None
    elif "%Y" in form and era:
        assert era == ("before" if time < STARTED else "after")
    elif "%Y" in form:
        assert STARTED - slack - timedelta(seconds=1) <= time <= ENDED + slack


@given(st.text(max_size=40))
def test_any_time_is_read_without_raising(text: str) -> None:
    assert Window(STARTED, ENDED).era(text) in {None, "before", "after"}
