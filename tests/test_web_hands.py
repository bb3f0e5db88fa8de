"""What a person's hands do on the page, with a mouse and with a finger: goals changed and sprites moved on the way."""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import numpy as np
from playwright.sync_api import expect

import cumulant.web
import web_browser
from cumulant.web import player as playing
from web_browser import faster, solved
from web_server import PLAN

pytestmark = web_browser.NEEDED
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
START = "0.2,0.2,0.5,0.5,0.8,0.2"


def asked(page):
    """The episode that the address holds, as the API is asked for it."""
    query = parse_qs(urlsplit(page.url).query)
    start = [float(x) for x in query["start"][0].split(",")] if "start" in query else None
    whole = {name: int(query.get(name, ["0"])[0]) for name in ("seed", "stage")}
    return {"phrase": query["goal"][0], "start": start} | whole


def episode(address, page):
    return httpx.post(f"http://{address}/api/episode", json=asked(page), timeout=60).json()


def submit(page, phrase):
    page.get_by_label("Goal, in plain words").fill(phrase)
    page.keyboard.press("Enter")


def at(page, x, y):
    """Where on the screen a place of the arena lies."""
    page.locator("#arena").scroll_into_view_if_needed()
    box = page.locator("#arena").bounding_box()
    return box["x"] + x * box["width"], box["y"] + (1 - y) * box["height"]


def running(page, steps):
    """Slowly, and some steps on its way."""
    page.locator("#speed").fill("3")
    page.get_by_role("button", name="Replay").click()
    page.wait_for_function("n => Number(document.getElementById('time').value) >= n", arg=steps)


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


def test_a_goal_changed_while_it_runs_goes_on_from_where_the_world_is(visit, address):
    page = visit("?goal=square+right&seed=3")
    before = episode(address, page)["positions"]
    running(page, 2)
    submit(page, "circle top and agent left")
    expect(page).to_have_url(re.compile("goal=circle"))
    expect(page.locator("#hands")).to_contain_text("a link shows the episode from here on")
    start = asked(page)["start"]
    assert min(np.abs(np.subtract(before[2:-1], start)).max(axis=1)) < 1e-6  # on its way, not at either end
    faster(page)
    solved(page)
    last = page.locator("#arena").get_attribute("aria-label")
    again = visit("?" + urlsplit(page.url).query)
    expect(again.locator("#hands")).to_be_empty()
    faster(again)
    solved(again)
    assert again.locator("#arena").get_attribute("aria-label") == last
    again.get_by_role("button", name="New start").click()
    expect(again).not_to_have_url(re.compile("start="))


def test_a_goal_that_is_refused_changes_nothing(visit):
    page = visit("?goal=square+right&seed=3")
    running(page, 1)
    address = page.url
    submit(page, "sqare left")
    expect(page.get_by_role("alert")).to_contain_text("unknown word 'sqare'")
    faster(page)
    solved(page)
    page.get_by_role("button", name="New start").click()
    expect(page.get_by_role("alert")).to_be_empty()
    assert asked(page)["phrase"] == "square right"
    assert page.url != address


SLOWLY = """() => {
    const send = WebSocket.prototype.send;
    WebSocket.prototype.send = function (words) { setTimeout(() => send.call(this, words), 1500); };
}"""


def test_what_was_said_of_one_goal_does_not_stand_while_another_is_waited_for(visit):
    page = visit("?goal=square+right&seed=3")
    faster(page)
    solved(page)
    page.evaluate(SLOWLY)  # as where a first plan is compiled
    for phrase in ("circle left", "sqare left"):  # the refused one leaves what was
        submit(page, phrase)
        expect(page.locator("#verdict:not(.good)")).to_have_text("One moment …")
        solved(page)


def test_a_sprite_dragged_while_it_runs_is_where_the_agent_goes_on_from(visit, address):
    page = visit(f"?goal=square+right+and+circle+top&start={START}")
    running(page, 1)
    drag(page, (0.8, 0.2), (0.3, 0.9))  # the circle, which the agent has not come to yet
    expect(page).to_have_url(re.compile("0.3,0.9"))
    expect(page.get_by_role("button", name="Pause")).to_be_visible()  # it goes on by itself
    expect(page.locator("#hands")).to_contain_text("Moved by hand")
    faster(page)
    solved(page)
    assert episode(address, page)["success"]
    held = page.url
    page.mouse.move(*at(page, *episode(address, page)["positions"][-1][4:]))
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


def test_a_plan_goes_on_with_its_stage_after_a_drag(visit):
    page = visit(f"?goal={PLAN.replace(' ', '+')}&start=0.5,0.5,0.4,0.5,0.9,0.5")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_function("""() => {
        const time = document.getElementById("time");
        time.value = Number(time.value) + 1;
        time.dispatchEvent(new Event("input"));
        return document.querySelector("#stages li.done");
    }""")
    positions = page.locator("#arena").get_attribute("aria-label")
    assert "square" in positions
    drag(page, (0.9, 0.5), (0.9, 0.4))
    expect(page).to_have_url(re.compile("stage=1"))
    expect(page.locator("#stages [aria-current=step]")).to_have_text(re.compile("circle top"))


def test_what_is_played_by_hand_is_said_not_to_be_in_the_link(visit):
    page = visit(f"?goal=square+left&start={START}")
    address = page.url
    page.locator("#arena").focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#hands")).to_have_text("These steps are your own: a link shows the episode without them.")
    assert page.url == address
    page.keyboard.press("Enter")
    expect(page.locator("#hands")).to_contain_text("a link shows the episode from here on")
    assert asked(page)["start"] != [float(x) for x in START.split(",")]
    page.keyboard.press("ArrowUp")
    expect(page.locator("#clock")).to_have_text("your step 1")
    here = page.locator("#arena").get_attribute("aria-label")
    submit(page, "agent right")
    expect(page).to_have_url(re.compile("goal=agent"))
    page.locator("#time").fill("0")
    assert page.locator("#arena").get_attribute("aria-label") == here


def test_what_is_painted_is_put_in_words_that_can_be_typed(visit):
    page = visit("?goal=agent+left&seed=3")
    page.get_by_role("tab", name="Teach by reward").click()
    cells = page.get_by_label("Rewarded region").get_by_role("button")
    expect(cells).to_have_count(9)
    for n in (0, 1):
        cells.nth(n).click()
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


def test_a_lesson_without_a_reward_is_not_acted_on(visit, monkeypatch):
    monkeypatch.setitem(playing.LESSONS, 2_000, (1, 2, 3))  # so few that nothing can be found
    page = visit("?goal=agent+left&seed=3")
    page.get_by_role("tab", name="Teach by reward").click()
    page.get_by_label("Rewarded region").get_by_role("button").last.click()
    before = page.url
    page.get_by_role("button", name="Learn and act").click()
    expect(page.locator("#lesson")).to_have_text(
        "No reward was found in 3 steps: let more places earn one, or allow more steps. Nothing was acted on."
    )
    expect(page.get_by_role("button", name="Learn and act")).to_be_enabled()
    assert page.url == before
    expect(page.get_by_label("Labelled steps")).to_have_value("2000")


def test_beside_the_players_stands_what_dqn_needed_where_it_was_measured(visit):
    page = visit("?goal=square+top+left&seed=3")
    page.get_by_role("tab", name="Compare").click()
    beside = page.get_by_role("tabpanel", name="Compare")
    expect(beside).to_contain_text("DQN, from scratch: some 90,000 steps for a task of this kind; here 0.")
    page.get_by_text("How this was measured").click()
    expect(page.get_by_text("NVIDIA H200")).to_be_visible()
    submit(page, "square top left and circle bottom right")
    expect(beside).to_contain_text("DQN, from scratch: not learnt in 1,000,000 steps")
    submit(page, "square top left and circle right")
    expect(page).to_have_url(re.compile("circle"))
    expect(beside).not_to_contain_text("DQN")


def test_no_number_is_minus_zero_and_no_error_is_a_validators(visit):
    page = visit("?goal=agent+left&seed=3")
    numbers = page.evaluate("""async () => {
        const { decimals } = await import("/numbers.js");
        return [[-0.001, 2], [-0, 1], [0.004, 2], [-0.006, 2], [-1e-9, 0], [12.345, 1]].map((n) => decimals(...n));
    }""")
    assert numbers == ["0.00", "0.0", "0.00", "-0.01", "0", "12.3"]
    folder = Path(cumulant.web.__file__).parent / "page"
    assert [path.name for path in sorted(folder.glob("*.js")) if ".toFixed(" in path.read_text()] == ["numbers.js"]
    page.evaluate("history.replaceState(null, '', '?goal=agent+left&start=0.1,x')")
    page.reload()
    expect(page.get_by_role("alert")).to_have_text("entry 2 of start has to be a number")
    submit(page, "agent left")
    expect(page.get_by_role("alert")).to_be_empty()


def test_a_finger_drags_sprites_and_scrolls_elsewhere(visit):
    page = visit(f"?goal=square+right&start={START}", **PHONE)
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


def test_a_finger_paints_seeks_and_goes_through_tabs(visit):
    page = visit("?goal=square+right&seed=3", **PHONE)
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
