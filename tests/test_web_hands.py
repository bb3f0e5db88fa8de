"""What a person's hands do on the page, with a mouse and with a finger: sprites moved, regions painted."""

import re

import httpx
import numpy as np
from playwright.sync_api import expect

import web_browser
from web_browser import asked, running, solved, submit
from web_server import PLAN

pytestmark = web_browser.NEEDED
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
START = "start=0.2,0.2,0.5,0.5,0.8,0.2"


def episode(address, page):
    return httpx.post(f"http://{address}/api/episode", json=asked(page), timeout=60).json()


def at(page, x, y):
    """Where on the screen a place of the arena lies."""
    page.locator("#arena").scroll_into_view_if_needed()
    box = page.locator("#arena").bounding_box()
    return box["x"] + x * box["width"], box["y"] + (1 - y) * box["height"]


def drag(page, start, end):
    page.mouse.move(*at(page, *start))
    page.mouse.down()
    page.mouse.move(*at(page, *end), steps=4)
    page.mouse.up()


def touch(page, points):
    """One finger, along some points of the screen."""
    cdp = page.context.new_cdp_session(page)
    for kind, place in [("touchStart", points[0]), *(("touchMove", p) for p in points[1:]), ("touchEnd", None)]:
        cdp.send(
            "Input.dispatchTouchEvent",
            {"type": kind, "touchPoints": [{"x": place[0], "y": place[1]}] if place else []},
        )
    cdp.detach()


def along(start, end, steps=8):
    return [tuple(np.add(start, np.subtract(end, start) * i / steps)) for i in range(steps + 1)]


def test_dragged_sprite_is_where_it_goes_on(visit, address):
    page = visit("square right and circle top", query=START)
    running(page, 1)
    drag(page, (0.83, 0.2), (0.3, 0.9))  # the circle, off its middle; the agent has not come to it yet
    expect(page).to_have_url(re.compile("0.3,0.9"))
    expect(page.get_by_role("button", name="Pause")).to_be_visible()  # it goes on by itself
    expect(page.locator("#hands")).to_contain_text("Moved by hand")
    solved(page)
    played = episode(address, page)
    assert played["success"]
    held = page.url
    page.mouse.move(*at(page, *played["positions"][-1][4:]))
    page.mouse.down()
    page.mouse.up()
    page.locator("#time").fill("0")
    page.mouse.move(*at(page, 0.3, 0.9))
    page.mouse.down()
    page.mouse.up()
    assert page.url == held  # what is not moved is not changed
    drag(page, (0.3, 0.9), (0.5, 0.9))
    expect(page).to_have_url(re.compile("0.5,0.9"))
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()  # it stood still, and still does
    expect(page.locator("#clock")).to_contain_text("step 0 of")


def test_plan_goes_on_with_its_stage_when_dragged(visit):
    page = visit(PLAN, query="start=0.5,0.5,0.4,0.5,0.9,0.5")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_function("""() => {
        const time = document.getElementById("time");
        time.value = Number(time.value) + 1;
        time.dispatchEvent(new Event("input"));
        return document.querySelector("#stages li.done");
    }""")
    assert "square" in page.locator("#arena").get_attribute("aria-label")
    drag(page, (0.9, 0.5), (0.9, 0.4))
    expect(page).to_have_url(re.compile("stage=1"))
    expect(page.locator("#stages [aria-current=step]")).to_have_text(re.compile("circle top"))


def test_person_plays_by_keyboard_and_hands_back(visit):
    page = visit("square left", query="start=0.5,0.5,0.52,0.5,0.9,0.1")
    page.locator("#time").fill("0")  # however far the agent has come meanwhile
    address = page.url
    page.locator("#arena").focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#verdict")).to_have_text("You are playing")
    expect(page.locator("#hands")).to_have_text("These steps are your own: a link shows the episode without them.")
    assert page.url == address
    page.keyboard.press("ArrowDown")
    expect(page.locator("#clock")).to_have_text("your step 2")
    page.keyboard.down("Space")
    for n in (3, 4):
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#clock")).to_have_text(f"your step {n}")
    page.keyboard.up("Space")
    expect(page.get_by_role("button", name="Hand back to the agent")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("#hands")).to_contain_text("a link shows the episode from here on")
    assert asked(page)["start"][0] <= 0.5 + 1e-6  # what was played is where the agent began
    solved(page)
    page.locator("#arena").focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#clock")).to_have_text("your step 1")
    here = page.locator("#arena").get_attribute("aria-label")
    submit(page, "agent right")
    expect(page).to_have_url(re.compile("goal=agent"))
    page.locator("#time").fill("0")
    assert page.locator("#arena").get_attribute("aria-label") == here


def test_painting_is_put_in_words(visit):
    page = visit("agent left")
    page.get_by_role("tab", name="Teach by reward").click()
    cells = page.get_by_label("Rewarded region").get_by_role("button")
    expect(cells).to_have_count(9)
    cells.nth(0).focus()
    for key in ("Space", "ArrowRight", "Space"):
        page.keyboard.press(key)
    expect(page.locator("#painted")).to_have_text("That is: square top and not right")
    for n in (3, 6):
        cells.nth(n).click()
    cells.nth(1).click()
    expect(page.locator("#painted")).to_have_text("That is: square left")
    page.get_by_role("radio", name="circle").check()
    expect(page.locator("#painted")).to_have_text("That is: circle left")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#painted")).to_be_empty()
    cells.first.scroll_into_view_if_needed()
    first, last = (cells.nth(n).bounding_box() for n in (0, 8))
    page.mouse.move(first["x"] + 5, first["y"] + 5)
    page.mouse.down()
    page.mouse.move(last["x"] + 5, last["y"] + 5)  # in one go
    page.mouse.up()
    assert cells.evaluate_all("all => all.map(one => one.ariaPressed === 'true')") == [i % 4 == 0 for i in range(9)]


def test_finger_drags_sprites_and_scrolls_elsewhere(visit):
    page = visit("square right", query=START, **PHONE)
    page.get_by_role("button", name="Pause").tap()
    page.get_by_role("button", name="Replay").tap()
    page.get_by_role("button", name="Pause").tap()
    page.locator("#time").fill("0")
    start, end = at(page, 0.5, 0.5), at(page, 0.3, 0.8)
    top = page.evaluate("scrollY")
    touch(page, along(start, end))
    expect(page).to_have_url(re.compile(r"start=0.2,0.2,0.(29\d*|3\d*),0.(79\d*|8\d*)"))
    assert page.evaluate("scrollY") == top
    touch(page, along(at(page, 0.5, 0.95), np.subtract(at(page, 0.5, 0.95), (0, 200))))
    page.wait_for_function("top => scrollY > top + 50", arg=top)


def test_finger_paints_seeks_and_changes_tabs(visit):
    page = visit("square right", **PHONE)
    for name in ("Inside Ψ", "Compare", "Teach by reward"):
        page.get_by_role("tab", name=name).tap()
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
    cells = page.get_by_label("Rewarded region").get_by_role("button")
    cells.nth(8).scroll_into_view_if_needed()
    boxes = [cells.nth(n).bounding_box() for n in (0, 6)]
    top = page.evaluate("scrollY")
    touch(page, along(*[(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes]))
    expect(page.locator("#painted")).to_have_text("That is: square left")
    assert page.evaluate("scrollY") == top
    cells.nth(0).tap()
    expect(page.locator("#painted")).to_have_text("That is: square left and not top")
    slider = page.locator("#time")
    slider.scroll_into_view_if_needed()
    page.get_by_role("button", name=re.compile("Play|Pause")).tap()
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    touch(page, along((box["x"] + 8, middle), (box["x"] + box["width"] / 2, middle)))
    last = int(slider.get_attribute("max"))
    assert 0 < int(slider.input_value()) < last
    page.get_by_role("tab", name="Inside Ψ").tap()
    expect(page.locator("#psi-note")).to_contain_text("Mean distance")
    page.locator("#maps canvas").last.tap()
    expect(page.locator("#psi-note")).to_contain_text("Skill")
