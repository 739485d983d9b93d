"""The report in a real browser: no errors, no requests, no sideways scroll, search and filters.

Needs Chromium and its driver (Debian: chromium, chromium-driver); skipped where there are none.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from test_report import PAPER, folder  # noqa: F401

DRIVER = shutil.which("chromedriver")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DRIVER and BROWSER), reason="needs Chromium and chromedriver"),
]
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage",),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = str(BROWSER)
    for option in QUIET:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=ChromeService(DRIVER))
    yield chrome
    chrome.quit()


def pages(folder: Path) -> list[Path]:  # noqa: F811
    report = folder / "report"
    return [
        report / "index.html",
        report / f"papers/{PAPER}.html",
        next(iter(sorted((report / "runs").iterdir()))),
    ]


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_load_alone_and_fit(browser: Chrome, folder: Path, width: int) -> None:  # noqa: F811
    browser.set_window_size(width, 900)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    for page in pages(folder):
        browser.get(page.as_uri())
        assert browser.get_log("browser") == []
        loaded = browser.execute_script(
            "return performance.getEntriesByType('resource').map((entry) => entry.name)"
        )
        assert all(address.startswith(("file:", "data:", "blob:")) for address in loaded), loaded
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width, f"{page} is {wide} pixels wide"


def test_a_number_leads_to_its_run_in_two_clicks(browser: Chrome, folder: Path) -> None:  # noqa: F811
    browser.get((folder / f"report/papers/{PAPER}.html").as_uri())
    browser.find_element(By.CSS_SELECTOR, "button.cell").click()
    browser.find_element(By.CSS_SELECTOR, "[popover]:popover-open a[href*='runs/']").click()
    assert "/runs/" in browser.current_url
    assert browser.find_elements(By.CSS_SELECTOR, ".curves .plotly")


def test_search_finds_by_all_words(browser: Chrome, folder: Path) -> None:  # noqa: F811
    browser.get((folder / "report/index.html").as_uri())
    box = browser.find_element(By.ID, "search")
    box.send_keys("run seed")
    first = browser.find_element(By.CSS_SELECTOR, "#found a")
    assert "runs/" in first.get_attribute("href")
    box.send_keys(" there is no such word")
    assert "Nothing" in browser.find_element(By.ID, "found").text
    box.send_keys(Keys.ESCAPE)
    assert browser.find_element(By.ID, "found").text == ""


def test_a_link_to_a_claim_opens_its_evidence(browser: Chrome, folder: Path) -> None:  # noqa: F811
    browser.get((folder / "report/index.html").as_uri())
    browser.find_element(By.CSS_SELECTOR, ".headlines a").click()
    claim = browser.find_element(By.CSS_SELECTOR, ".claims tr:target")
    assert claim.find_element(By.TAG_NAME, "details").get_attribute("open")


def test_the_filter_hides_other_verdicts(browser: Chrome, folder: Path) -> None:  # noqa: F811
    browser.get((folder / f"report/papers/{PAPER}.html").as_uri())
    browser.find_element(By.CSS_SELECTOR, "[data-filter='deviates']").click()
    rows = browser.find_elements(By.CSS_SELECTOR, ".claims tbody tr")
    shown = [row.get_attribute("data-verdict").split(",") for row in rows if row.is_displayed()]
    assert shown
    assert all("deviates" in verdicts for verdicts in shown)
    assert not browser.find_element(By.CSS_SELECTOR, ".undecided").is_displayed()
    browser.find_element(By.CSS_SELECTOR, "[data-filter='all']").click()
    browser.find_element(By.CSS_SELECTOR, ".undecided > summary").click()
    assert all(row.is_displayed() for row in rows)


def test_a_link_shows_a_claim_that_the_filter_hides(browser: Chrome, folder: Path) -> None:  # noqa: F811
    browser.get((folder / f"report/papers/{PAPER}.html").as_uri())
    browser.find_element(By.CSS_SELECTOR, "[data-filter='deviates']").click()
    claim = browser.find_element(By.CSS_SELECTOR, ".claims tr[hidden]")
    browser.execute_script("location.hash = arguments[0].id", claim)
    WebDriverWait(browser, 300).until(lambda _: claim.is_displayed())


def test_a_link_unfolds_a_claim_that_no_run_decides(browser: Chrome, folder: Path) -> None:  # noqa: F811
    page = (folder / f"report/papers/{PAPER}.html").as_uri()
    browser.get(page)
    folded = browser.find_element(By.CSS_SELECTOR, ".undecided .claims tbody tr")
    assert not folded.is_displayed()
    folded_id = folded.get_attribute("id")
    browser.get("about:blank")
    browser.get(f"{page}#{folded_id}")
    assert browser.find_element(By.CSS_SELECTOR, ".undecided tr:target").is_displayed()


def test_the_keyboard_reaches_the_content_first(browser: Chrome, folder: Path) -> None:  # noqa: F811
    browser.get((folder / "report/index.html").as_uri())
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    focused = browser.switch_to.active_element
    assert focused.get_attribute("class") == "skip"
    assert focused.is_displayed()
