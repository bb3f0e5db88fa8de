"""How the page is laid out, on screens of four sizes: what is in view, what explains itself, what stays."""

from itertools import cycle

import httpx
import pytest
from playwright.sync_api import expect

import web_browser
from web_browser import TABS, below_the_fold, grave, overlapping, pictured, solved
from web_server import PHRASE, PLAN, ROOM_PLAN, UP_AND_DOWN

pytestmark = web_browser.NEEDED
SIZES = {
    width: {"width": width, "height": height} for width, height in ((1440, 900), (1280, 720), (768, 1024), (390, 844))
}
GOALS = {"sprites": PLAN, "room": ROOM_PLAN, "crane": UP_AND_DOWN}

# Texts in view with a letter from the equations that tells nobody what it means.
UNEXPLAINED = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    while (walker.nextNode()) {
        const { data, parentElement: one } = walker.currentNode;
        if (!/[φψΦΨ]|(^|[^\\w-])[wQ]($|[^\\w-])/.test(data) || !one.checkVisibility()) continue;
        if (!one.closest(".term[aria-describedby], [data-term][aria-describedby]")) found.push(data.trim());
    }
    return found;
}"""


def in_view(page, selector):
    box, size = page.locator(selector).bounding_box(), page.viewport_size
    return box["y"] >= 0 and box["y"] + box["height"] <= size["height"]


@pytest.mark.parametrize(
    ("world", "width", "schemes"),
    [
        ("sprites", 1440, ("light", "dark")),  # each tab is seen in both
        ("sprites", 1280, ("dark", "light")),
        ("sprites", 768, ("light", "dark")),
        ("sprites", 390, ("dark", "light")),
        ("room", 1280, ("light",)),
        ("room", 768, ("light",)),
        ("room", 390, ("dark",)),
        ("crane", 1280, ("dark",)),
        ("crane", 390, ("light",)),
    ],
)
def test_layout_hides_nothing_and_excludes_nobody(visit, world, width, schemes):
    page = visit(GOALS[world], world, "seed=11", viewport=SIZES[width])
    expect(page.locator("#stages li")).to_have_count(2)
    if width > 700:  # on a phone, one scrolls; what is asked and what comes of it are in view even so
        assert below_the_fold(page) == []
    if world == "sprites":
        assert in_view(page, "#phrase")
        assert in_view(page, "#arena")
    for tab, scheme in zip(TABS, cycle(schemes), strict=False):
        page.emulate_media(color_scheme=scheme)
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.evaluate("scrollTo(0, 0)")  # where nothing has slid below the arena yet
        assert overlapping(page) == []
        assert grave(page) == []
        if world == "sprites":
            page.evaluate("document.querySelector('.side').scrollIntoView({ block: 'end' })")
            assert in_view(page, "#arena"), tab  # however far one scrolls
    pictured(page, f"{world}-{width}")
    if world == "sprites":
        page.get_by_role("tab", name="Teach by reward").click()
        page.locator("#learn").focus()  # nor does the arena lie over what has the focus
        on_top = "({ x, y }) => document.elementFromPoint(x + 9, y + 9).id"
        assert page.evaluate(on_top, page.locator("#learn").bounding_box()) == "learn"
        assert in_view(page, "#arena")


def test_how_it_works_stands_still_in_numbers(visit, address):
    page = visit(PHRASE, viewport=SIZES[1280], reduced_motion="reduce")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()  # nothing moves for who wants no motion
    expect(page.locator("#time")).to_have_value("0")
    assert page.evaluate("document.getAnimations().length") == 0
    world = httpx.get(f"http://{address}/api/world").json()
    skills = len(world["features"]) * world["bins"]
    steps = page.locator("#how li")
    expect(steps.get_by_role("heading")).to_have_text(["Play", "Skills", "Weights", "Act"])
    expect(steps.nth(0)).to_contain_text(f"{world['free_steps']:,} steps")
    expect(steps.nth(1)).to_contain_text(f"{len(world['features'])} × {world['bins']} = {skills} in all")
    for n in (1, 2, 3):
        expect(steps.nth(n).locator(".cell")).to_have_count(skills)
    expect(page.locator("#how .here")).to_have_count(len(world["features"]))
    wanted = "cells => cells.filter((cell) => Number(cell.style.fillOpacity) > 0.02).length"
    assert steps.nth(2).locator(".cell").evaluate_all(wanted) == page.locator("#grid .wanted").count() == 3
    expect(page.locator("#how .followed")).to_have_count(1)
    page.get_by_role("link", name="How it works").click()
    assert in_view(page, "#how")


def test_letters_are_explained_to_pointer_and_keyboard(visit):
    page = visit(PHRASE, viewport=SIZES[1280])
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        assert page.evaluate(UNEXPLAINED) == []
    page.get_by_role("tab", name="In its mind").click()
    tip = page.get_by_role("tooltip")
    for said in ("1 for the bin that a feature is in", "How much the goal wants", "What a skill is worth"):
        page.keyboard.press("Tab")
        expect(tip).to_have_count(1)
        expect(tip).to_contain_text(said)
        page.keyboard.press("Escape")
        expect(tip).to_have_count(0)
    page.locator("#mind .term").last.hover()
    expect(tip).to_contain_text("Q, value")
    tip.hover()  # one may read on, or copy
    page.wait_for_timeout(400)
    expect(tip).to_be_visible()
    page.mouse.move(5, 5)
    expect(tip).to_have_count(0)
    page.get_by_role("tab", name="Inside Ψ").hover()
    expect(tip).to_contain_text("Ψ, psi")


def test_finger_opens_tooltips_within_the_screen(visit):
    page = visit(PHRASE, viewport=SIZES[390], has_touch=True)
    tip = page.get_by_role("tooltip")
    for n in range(page.locator("#how .term").count()):
        page.locator("#how .term").nth(n).tap()
        box = tip.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
        assert in_view(page, ".tip:not([hidden])")
        page.locator("#how h2").tap()
        expect(tip).to_have_count(0)


def test_last_thought_stays_when_the_episode_ends(visit):
    page = visit(PHRASE, viewport=SIZES[1280])
    solved(page)
    last = page.locator("#time").get_attribute("max")
    expect(page.locator("#clock")).to_have_text(f"step {last} of {last}")
    expect(page.locator("#clauses li.done")).to_have_count(3)
    expect(page.locator("#grid .followed")).to_have_count(0)
    values = page.locator("#grid .number")
    kept = values.all_text_contents()
    assert max(map(float, kept)) > 0
    page.locator("#time").fill(str(int(last) - 1))
    expect(page.locator("#grid .followed")).to_have_count(1)
    assert values.all_text_contents() == kept


def test_links_lead_somewhere(visit, address):
    page = visit(PHRASE)
    targets = set(page.locator("a").evaluate_all("links => links.map((link) => link.getAttribute('href'))"))
    outside = {target for target in targets if target.startswith("http")}
    assert outside == {"https://arxiv.org/abs/1911.10866"}
    for target in targets - outside:
        if target.startswith("#"):
            expect(page.locator(target)).to_have_count(1)
        else:
            assert httpx.get(f"http://{address}/{target}").status_code == 200
