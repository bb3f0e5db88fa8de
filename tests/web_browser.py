"""A real browser, without a window, for the tests of the page."""

import contextlib
import re
import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NEEDED = pytest.mark.skipif(not CHROMIUM, reason="NO BROWSER TESTS: there is no Chromium on this machine")
expect.set_options(timeout=60_000)  # whatever comes first is compiled first


@contextlib.contextmanager
def launched():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextlib.contextmanager
def visiting(browser, address):
    """Opens pages; afterwards, nothing may have gone wrong on them, and nothing come from elsewhere."""
    contexts, wrong, elsewhere = [], [], []

    def open_page(query="", **options):
        context = browser.new_context(**({"viewport": {"width": 1180, "height": 900}} | options))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: message.type in ("error", "warning") and wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: elsewhere.append(request.url) if address not in request.url else None)
        page.goto(f"http://{address}/{query}")
        expect(page.locator("#clock")).not_to_have_text("step 0")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == [], wrong
    assert [url for url in elsewhere if not url.startswith(("blob:", "data:"))] == []


def solved(page):
    expect(page.locator("#verdict.good")).to_have_text(re.compile("Solved in|Already so"))


def faster(page):
    page.locator("#speed").fill("30")
