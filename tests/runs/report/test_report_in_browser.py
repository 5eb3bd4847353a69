"""The report in a real browser: no requests, no errors, no overflow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from report_sample import HOSTILE, make_run

from seqwright.runs.report import write_report

SIZES = (
    "[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect()).map(b => [b.width, b.height])"
)
OVERLAPS = """[...document.querySelectorAll('.score')].some(box => {
    const sides = [...box.children].map(child => child.getBoundingClientRect());
    return sides.some((side, k) => k && side.top < sides[k - 1].bottom - 1);
})"""
SCROLLS = "document.documentElement.scrollWidth > window.innerWidth"


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module", params=["pairs", HOSTILE], ids=["plain", "hostile"])
def report(request, tmp_path_factory) -> Path:
    return write_report(make_run(tmp_path_factory.mktemp("runs") / "run", request.param))


@pytest.mark.parametrize("width", [1200, 480])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_opens_without_errors_and_fits(browser, report, width, dark):
    page = browser.page(width, 900, dark=dark)
    page.open(report)
    sizes = page.evaluate(SIZES)
    assert len(sizes) > 10
    assert all(wide > 100 and high > 20 for wide, high in sizes)
    assert not page.evaluate(SCROLLS)
    assert not page.evaluate(OVERLAPS)
    assert page.requests == [report.as_uri()]
    assert page.complaints == []
    page.close()


def test_light_and_dark_differ(browser, report):
    page = browser.page()
    page.open(report)
    colours = []
    for dark in (False, True):
        page.prefer(dark=dark)
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours[0] != colours[1]
    page.close()


def test_the_numbers_of_a_chart_open_by_keyboard(browser, report):
    page = browser.page()
    page.open(report)
    page.evaluate("document.querySelector('figure summary').focus()")
    page.press("Enter")
    page.wait("document.querySelector('figure details').open")
    assert page.count("figure details[open] tbody tr") > 1
    page.close()


def test_a_page_that_loads_something_is_caught(browser, tmp_path):
    """The test above can fail: this image causes a request, or an error if the policy blocks it."""
    report = write_report(make_run(tmp_path / "run"))
    tampered = report.read_text(encoding="utf-8").replace(
        "<main>", '<main><img src="http://127.0.0.1:9/x.png">'
    )
    report.write_text(tampered, encoding="utf-8")
    page = browser.page()
    page.open(report)
    page.wait("document.images.length === 1")
    assert len(page.complaints) + len(page.requests) > 1
    page.close()
