"""A real browser, without a window, for the tests of the page."""

import contextlib
import os
import re
import shutil
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NEEDED = pytest.mark.skipif(not CHROMIUM, reason="NO BROWSER TESTS: there is no Chromium on this machine")
expect.set_options(timeout=60_000)  # whatever comes first is compiled first
TABS = ("In its mind", "Compare", "Teach by reward", "Inside Ψ")

# What can be worked, as [name, left, top, right, bottom], one for each line that it takes.
_CONTROLS = """within => [...document.querySelectorAll(within)]
    .filter((one) => one.checkVisibility() && one.matches("button, input, select, a, canvas[tabindex]"))
    .flatMap((one) => [...one.getClientRects()].map((box) => {
        const name = one.id || `${one.tagName} ${one.textContent.trim()}`;
        return [name, box.left, box.top, box.right, box.bottom];
    }))"""


@contextlib.contextmanager
def launched():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextlib.contextmanager
def visiting(browser, address_of):
    """Yield what opens pages; afterwards, nothing may have gone wrong on them, and nothing come from elsewhere."""
    contexts, wrong, elsewhere = [], [], []

    def open_page(goal="", world="sprites", query="seed=3", like=None, **options):
        context = browser.new_context(**({"viewport": {"width": 1180, "height": 900}} | options))
        contexts.append(context)
        page, address = context.new_page(), address_of(world)
        page.set_default_timeout(60_000)
        page.on("console", lambda message: message.type in ("error", "warning") and wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: elsewhere.append(request.url) if address not in request.url else None)
        page.goto(like.url if like else f"http://{address}/?{urlencode({'goal': goal})}&{query}")
        expect(page.locator("#clock")).not_to_have_text("step 0")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == [], wrong
    assert [url for url in elsewhere if not url.startswith(("blob:", "data:"))] == []


def asked(page):
    """Return the episode that the address holds, as the API is asked for it."""
    query = parse_qs(urlsplit(page.url).query)
    start = [float(x) for x in query["start"][0].split(",")] if "start" in query else None
    whole = {name: int(query.get(name, ["0"])[0]) for name in ("seed", "stage")}
    return {"phrase": query["goal"][0], "start": start} | whole


def submit(page, phrase):
    page.get_by_label("Goal, in plain words").fill(phrase)
    page.keyboard.press("Enter")


def solved(page):
    """Play to the end, quickly."""
    page.locator("#speed").fill("30")
    expect(page.locator("#verdict.good")).to_have_text(re.compile("Solved in|Already so"))


def running(page, steps):
    """Play slowly, and some steps on its way."""
    page.locator("#speed").fill("3")
    page.get_by_role("button", name="Replay").click()
    page.wait_for_function("n => Number(document.getElementById('time').value) >= n", arg=steps)


def below_the_fold(page):
    """What lies outside the window of all that one needs: the goal's field, the world and what plays it, the tabs."""
    needed = page.evaluate(_CONTROLS, "#goal .ask *, .stage *, [role=tab]")
    assert len(needed) > 10
    size = page.viewport_size
    return [box for box in needed if min(box[1:]) < 0 or box[3] > size["width"] or box[4] > size["height"]]


def overlapping(page):
    """Pairs of what can be worked that lie over each other, by more than a pixel."""
    boxes = page.evaluate(_CONTROLS, "body *")
    assert len(boxes) > 15
    pairs = [(one, other) for i, one in enumerate(boxes) for other in boxes[:i]]
    return [pair for pair in pairs if all(_shared(*pair, axis) > 1 for axis in (1, 2))]


def _shared(one, other, axis):
    return min(one[axis + 2], other[axis + 2]) - max(one[axis], other[axis])


def grave(page):
    """What stands in the way of people with screen readers, keyboards, or eyes that need contrast."""
    found = Axe().run(page).response["violations"]
    return [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")]


def pictured(page, name):
    """A picture of the page, for whoever asks for some."""
    if folder := os.environ.get("CUMULANT_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)
