"""The page in a real browser: the system's Chromium, with every request refused and counted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitbaton.engine.board import RunCard
from gitbaton.report import board as report
from gitbaton.report import pages

from . import boards

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on PATH")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE, NARROW = 1400, 420

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield found
        found.close()


@pytest.fixture
def view(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a board; at the end nothing was complained of, and nothing was asked of anybody."""
    wrong: list[str] = []
    contexts = []

    def open_(
        *runs: RunCard,
        width: int = WIDE,
        scheme: str = "light",
        address: str = "",
        watched: bool = False,
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        file = tmp_path / "board.html"
        made = boards.board(*(runs or (boards.small(),)))
        file.write_text(report.page(made, watched=watched), encoding="utf-8")
        if watched:
            page.clock.install()

        def refuse(route: Any) -> None:
            if route.request.url.startswith(("file:", "data:")):
                route.continue_()
            else:
                wrong.append(f"request: {route.request.url}")
                route.abort()

        page.route("**/*", refuse)
        page.goto(f"{file.as_uri()}#{address}")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert wrong == []


def shown(page: Any) -> list[str]:
    """The tickets of the graph that are not faded."""
    found: list[str] = page.eval_on_selector_all(
        ".ticket:not(.off)", "all => all.map(one => one.dataset.key)"
    )
    return sorted(found)


def test_graph_tells_states_by_shape_and_word_too(view: Open) -> None:
    page = view()
    assert page.locator("h1").inner_text() == "add-login"
    active = page.locator('.ticket[data-key="2.1"]')
    assert active.get_attribute("aria-label") == "2.1 Brew a <b>green</b> tea: active"
    assert active.locator("use").get_attribute("href") == "#s-active"
    shapes = page.eval_on_selector_all(".ticket use", "all => all.map(u => u.getAttribute('href'))")
    assert set(shapes) == {"#s-resolved", "#s-active", "#s-waiting"}
    assert page.locator(".edges > path:not(.spine)").count() == 2
    assert page.locator(".edges > path.open").count() == 1
    assert page.locator(".edges > path.spine.done").count() == 1


def test_search_and_filters(view: Open) -> None:
    page = view()
    search = page.get_by_label("Search")
    search.fill("src/1.2.py")  # a changed file
    assert shown(page) == ["1.2"]
    assert page.locator(".found").inner_text() == "1 of 6 tickets"
    search.fill("merge-conflict")
    assert shown(page) == ["1.3"]
    search.fill("GREEN tea")
    assert shown(page) == ["2.1"]
    assert page.locator(".band h2").all_inner_texts() == ["2. Section 2"]
    search.fill("coffee")
    assert page.locator("#graph .empty").inner_text() == "Nothing matches."
    page.get_by_role("button", name="Show all").click()
    assert len(shown(page)) == 6
    page.locator('.chip[data-chip="retried"]').click()
    assert shown(page) == ["1.2", "1.3", "1.4"]
    page.locator('.chip[data-chip="abandoned"]').click()
    assert shown(page) == ["1.4"]
    page.locator("#tab-timeline").click()
    assert page.locator(".row").count() == 1
    page.reload()
    assert page.locator(".row").count() == 1, "a reload keeps what was chosen"


def test_keyboard_alone(view: Open) -> None:
    page = view()
    page.keyboard.press("/")
    page.keyboard.type("1.2")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.key") == "1.2"
    page.keyboard.press("Enter")
    assert page.locator("#side h2").inner_text() == "Do 1.2"
    page.keyboard.press("Escape")
    assert page.locator("#side h2").inner_text() == "This run"
    page.keyboard.press("Escape")
    assert page.get_by_label("Search").input_value() == ""
    page.keyboard.press("ArrowLeft")
    assert page.locator("#side .key").inner_text() == "1.1", "what 1.2 needs is to its left"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.locator("#side .key").inner_text() == "2.1"
    page.keyboard.press("t")
    assert page.locator(".row.chosen").get_attribute("data-row") == "2.1"
    page.keyboard.press("ArrowUp")
    assert page.locator(".row.chosen").get_attribute("data-row") == "1.4"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()


def test_details_of_an_attempt(view: Open) -> None:
    page = view(address="ticket=1.3")
    side = page.locator("#side")
    assert side.locator("summary b").all_inner_texts() == ["#2", "#1"]
    text = side.inner_text()
    assert "Resolves the conflict of #1" in text
    assert "pytest -q" in text and "src/1.3.py" in text and "$0.25" in text
    first = side.locator('details[data-attempt="1"]')
    first.locator("summary").click()
    first.get_by_text("merge-conflict", exact=True).wait_for()
    side.locator("details.check").first.click()
    assert "12 passed" in side.inner_text()
    page.locator('.ticket[data-key="1.2"]').click()
    side.locator(".ref").click()
    assert side.locator(".key").inner_text() == "1.1"


def test_copying(view: Open) -> None:
    line = "git baton reopen add-login 'it'\"'\"'s' --reason REASON"
    page = view(boards.run([boards.ticket("1.1", "resolved", commands=(line,))], []))
    page.locator(".ticket").click()
    page.get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == line
    assert page.locator("#said").inner_text() == "Copied"


def test_hostile_texts_are_texts(view: Open) -> None:
    titles = boards.HOSTILE
    tickets = [boards.ticket(text, title=text, body=text, needs=titles[:1]) for text in titles]
    attempts = [boards.over(text, 1, 0, "failed", text) for text in titles]
    page = view(boards.run(tickets, attempts, name=titles[1], paused=titles[0]))
    for at in range(len(titles)):
        page.locator(".ticket").nth(at).click()
    page.keyboard.press("t")
    page.locator(".row .label").first.click()
    assert page.evaluate("window.owned") is None
    assert page.locator("#main img, #main script, #main b script").count() == 0
    assert page.locator(".notice").first.inner_text().endswith(titles[0])


def test_timeline(view: Open) -> None:
    page = view(address="view=timeline")
    kinds = page.eval_on_selector_all(
        ".row .bar", "all => all.map(bar => [...bar.classList].at(-1).slice(2)).sort()"
    )
    expected = ["abandoned", "active", "conflict", "failed", *["succeeded"] * 4]
    assert kinds == expected
    assert page.locator(".gap").last.get_attribute("title") == "idle 1h 21m"
    page.locator(".bar.k-failed").last.click()
    assert page.locator("#side details[open]").get_attribute("data-attempt") == "1"
    wide = page.locator(".sheet").bounding_box()["width"]
    page.get_by_label("Zoom in").click()
    assert page.locator(".sheet").bounding_box()["width"] > 1.5 * wide


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(view: Open, scheme: str) -> None:
    page = view(scheme=scheme, address="ticket=1.2")
    contrast = Path(__file__).with_name("contrast.js").read_text()
    for _ in range(2):
        assert page.evaluate(contrast) == []
        page.keyboard.press("t")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(18, 19, 22)") == (scheme == "dark")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background


def test_narrow_screen(view: Open) -> None:
    page = view(width=NARROW)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
    page.locator('.ticket[data-key="1.2"]').click()
    side = page.locator("#side.over")
    assert side.bounding_box()["width"] <= NARROW
    assert side.locator("h2").evaluate("one => one === document.activeElement")
    side.get_by_label("Close").click()
    assert page.evaluate("document.activeElement.dataset.key") == "1.2"
    page.locator("#tab-timeline").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW


def test_all_runs(view: Open) -> None:
    broken = RunCard(run="broken", error="the state is damaged")
    page = view(boards.small(), broken)
    assert page.locator(".run").count() == 2
    assert "the state is damaged" in page.locator('.run[data-run="broken"]').inner_text()
    page.get_by_label("Search").fill("damaged")
    assert page.locator(".run:visible").count() == 1
    page.get_by_label("Search").fill("")
    page.locator('.run[data-run="add-login"]').click()
    assert page.locator(".ticket").count() == 6
    page.get_by_label("Run", exact=True).select_option("")
    assert page.locator(".run").count() == 2


def test_a_watched_page_reads_itself_again_unless_one_types(view: Open) -> None:
    page = view(watched=True)
    page.evaluate("window.before = true")
    page.get_by_label("Search").fill("1.2")
    page.clock.run_for(6000)
    assert page.evaluate("window.before")
    page.keyboard.press("Enter")
    page.clock.run_for(6000)
    page.wait_for_function("window.before === undefined")
    assert shown(page) == ["1.2"]


def test_no_run_at_all(view: Open, tmp_path: Path) -> None:
    page = view()
    file = tmp_path / "none.html"
    file.write_text(report.page(boards.board()))
    page.goto(file.as_uri())
    assert page.locator(".empty").inner_text() == "This repository has no run yet."


def test_a_thousand_tickets(view: Open) -> None:
    page = view(boards.large(1000))
    assert min(_drawn_after(page) for _ in range(3)) < 2000
    assert page.locator(".ticket").count() == 1000
    page.get_by_label("Search").fill("20.5")
    assert shown(page) == ["20.5", "20.50"]
    page.get_by_label("Search").fill("")
    page.locator("#tab-timeline").click()
    assert 20 < page.locator(".row").count() < 100, "only what is in sight is made"
    page.locator(".scroll").evaluate("one => one.scrollTo(0, one.scrollHeight)")
    page.locator('.row[data-row="20.50"]').wait_for()


def _drawn_after(page: Any) -> float:
    """Milliseconds from the request to the picture; other tests may take the processor."""
    page.reload()
    drawn: float = page.evaluate(
        """() => new Promise(done => requestAnimationFrame(
            () => requestAnimationFrame(() => done(performance.now()))))"""
    )
    return drawn


def test_who_waits_for_nobody_stands_apart_in_plan_order(view: Open) -> None:
    chain = {"1.6": ("1.3",), "1.9": ("1.6",), "1.10": ("1.9",)}
    tickets = [
        boards.ticket(key, needs=chain.get(key, ())) for key in (f"1.{n}" for n in range(1, 11))
    ]
    page = view(boards.run(tickets, []))
    box = {
        key: page.locator(f'.ticket[data-key="{key}"]').bounding_box()
        for key in ("1.3", "1.6", "1.8", "1.9", "1.10")
    }
    assert box["1.8"]["y"] < box["1.3"]["y"] == box["1.6"]["y"] == box["1.9"]["y"]
    assert box["1.3"]["x"] < box["1.6"]["x"] < box["1.9"]["x"]
    assert box["1.10"]["y"] > box["1.9"]["y"], "a line is full before the next begins"


def test_figures_are_said_as_people_count(view: Open) -> None:
    tries = [boards.over("1.1", 1, 0, "superseded", "ended-failed"), boards.attempt("1.1", 2, 9)]
    for attempts, said in ((tries[1:], "1 attempt"), (tries, "2 attempts, 1 of them a retry")):
        page = view(boards.run([boards.ticket("1.1", "resolved")], attempts))
        assert page.locator(".facts > span").nth(1).inner_text() == said


def test_attempts_within_a_second_count_for_nobody_at_work(view: Open) -> None:
    brief = boards.attempt("1.2", start=10, sealed_at=boards.at(10), ended_at=boards.at(10))
    tickets = [boards.ticket(key, "resolved") for key in ("1.1", "1.2")]
    page = view(boards.run(tickets, [boards.attempt("1.1"), brief]), address="view=timeline")
    assert page.locator(".axis .most").inner_text() == "at work\nup to 1"
    below = "path => path.getBBox().y + path.getBBox().height"
    assert page.locator(".axis .busy").evaluate(below) == 46


def test_a_printed_graph_is_as_wide_as_paper_and_goes_back(view: Open) -> None:
    page = view(boards.large(60))
    edge = "all => Math.max(...all.map(one => one.offsetLeft + one.offsetWidth))"
    on_screen = page.eval_on_selector_all(".ticket", edge)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.eval_on_selector_all(".ticket", edge) <= 704 < on_screen
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.eval_on_selector_all(".ticket", edge) == on_screen


def test_printing_makes_every_row(view: Open) -> None:
    page = view(boards.large(200))
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".row").count() == 200
    assert page.locator("#graph").is_visible() and page.locator("#timeline").is_visible()
    assert not page.locator("#bar").is_visible()


def test_a_report_is_no_wider_than_a_narrow_screen(browser: Any) -> None:
    head = (
        "run",
        "verdict",
        "transitions",
        "unanchored",
        "receipts",
        "merges",
        "repeated",
        "by hand",
    )
    table = pages.html_table(
        head, [("c", "required-check-missing", "7" * 40, "text", "x", "y", "z", "0")]
    )
    page = browser.new_page(viewport={"width": NARROW, "height": 700})
    page.set_content(pages.html_page("Audit", "4 problems", good=False, parts=[table]))
    assert page.evaluate("document.documentElement.scrollWidth") == NARROW
    page.close()
