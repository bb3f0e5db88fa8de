"""How the page is laid out, on screens of four sizes: what is in view, what explains itself, what stays."""

import re

import httpx
import pytest
from playwright.sync_api import expect

import web_browser
from web_browser import TABS, below_the_fold, faster, grave, overlapping, pictured, solved
from web_server import PHRASE, PLAN

pytestmark = web_browser.NEEDED
SIZES = {
    width: {"width": width, "height": height} for width, height in ((1440, 900), (1280, 720), (768, 1024), (390, 844))
}
GOAL = f"?goal={PHRASE.replace(' ', '+')}&seed=3"
LONG = f"?goal={PLAN.replace(' ', '+')}&seed=11"

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


def values(page):
    """What the skills are worth, as the grid says."""
    return page.locator("#grid .number").all_text_contents()


@pytest.mark.parametrize("width", SIZES)
def test_all_that_one_needs_is_in_view_and_nothing_lies_over_anything(visit, width):
    page = visit(LONG, viewport=SIZES[width])
    expect(page.locator("#stages li")).to_have_count(2)
    if width > 700:  # on a phone, one scrolls; what is asked and what comes of it are in view even so
        assert below_the_fold(page) == []
    assert in_view(page, "#phrase")
    assert in_view(page, "#arena")
    schemes = ("light", "dark") if width in (1440, 768) else ("dark", "light")  # each tab is seen in both
    for scheme, tab in zip(2 * schemes, TABS, strict=True):
        page.emulate_media(color_scheme=scheme)
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.evaluate("scrollTo(0, 0)")  # where nothing has slid below the arena yet
        assert overlapping(page) == []
        assert grave(page) == []
    pictured(page, f"page-{width}")


@pytest.mark.parametrize("width", SIZES)
def test_the_arena_stays_in_view_however_far_one_scrolls_in_a_panel(visit, width):
    page = visit(GOAL, viewport=SIZES[width])
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        page.evaluate("document.querySelector('.side').scrollIntoView({ block: 'end' })")
        assert in_view(page, "#arena"), tab
    page.get_by_role("tab", name="Teach by reward").click()
    page.locator("#learn").focus()  # nor does it lie over what has the focus
    box = page.locator("#learn").bounding_box()
    on_top = "({ x, y }) => document.elementFromPoint(x + 9, y + 9).id"
    assert page.evaluate(on_top, box) == "learn"
    assert in_view(page, "#arena")


def test_how_it_works_is_told_with_this_librarys_numbers_and_drawn_with_what_is_in_its_mind(visit, address):
    page = visit(GOAL, viewport=SIZES[1280], reduced_motion="reduce")
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


def test_every_letter_is_explained_to_pointer_keyboard_and_touch(visit):
    page = visit(GOAL, viewport=SIZES[1280])
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


def test_a_finger_opens_and_closes_a_tooltip_that_does_not_leave_the_screen(visit):
    page = visit(GOAL, viewport=SIZES[390], has_touch=True)
    tip = page.get_by_role("tooltip")
    for n in range(page.locator("#how .term").count()):
        page.locator("#how .term").nth(n).tap()
        box = tip.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
        assert in_view(page, ".tip:not([hidden])")
        page.locator("#how h2").tap()
        expect(tip).to_have_count(0)


def test_what_was_thought_stays_when_the_episode_ends(visit):
    page = visit(GOAL, viewport=SIZES[1280])
    faster(page)
    solved(page)
    last = page.locator("#time").get_attribute("max")
    expect(page.locator("#clock")).to_have_text(f"step {last} of {last}")
    expect(page.locator("#clauses li.done")).to_have_count(3)
    expect(page.locator("#grid .followed")).to_have_count(0)
    kept = values(page)
    assert max(map(float, kept)) > 0
    page.locator("#time").fill(str(int(last) - 1))
    expect(page.locator("#grid .followed")).to_have_count(1)
    assert values(page) == kept


def test_players_have_plain_names_beside_technical_ones_and_a_line_each(visit):
    page = visit(GOAL)
    page.get_by_role("tab", name="Compare").click()
    players = page.locator("#players figure")
    expect(players.locator("strong")).to_have_text(["The agent", "The paper's agent", "The expert", "Pure chance"])
    expect(players.locator(".technical")).to_have_text(["Committed GPI", "Plain GPI", "Oracle", "Random"])
    expect(players.locator(".what")).to_have_text([re.compile(r"^[A-Z].{25,}\.$")] * 4)


def test_links_lead_somewhere(visit, address):
    page = visit(GOAL)
    targets = set(page.locator("a").evaluate_all("links => links.map((link) => link.getAttribute('href'))"))
    outside = {target for target in targets if target.startswith("http")}
    assert outside == {"https://arxiv.org/abs/1911.10866"}
    for target in targets - outside:
        if target.startswith("#"):
            expect(page.locator(target)).to_have_count(1)
        else:
            assert httpx.get(f"http://{address}/{target}").status_code == 200


def test_nothing_moves_for_those_who_want_no_motion(visit):
    page = visit(GOAL, reduced_motion="reduce")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    expect(page.locator("#time")).to_have_value("0")
    assert page.evaluate("document.getAnimations().length") == 0
