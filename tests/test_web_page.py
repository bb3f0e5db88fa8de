"""The page in a real browser, without a window: with sprites, with a room of bars, with a crane on the host."""

import base64
import io
import re
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

import cumulant.web
import web_browser
from cumulant.web import player as playing
from web_browser import asked, running, solved, submit
from web_server import PHRASE, PLAN, ROOM_PLAN, UP_AND_DOWN

pytestmark = web_browser.NEEDED
AND_ROOM = "lamp on and temperature warm"

# Where the orange begins, from above. A canvas that is read again and again makes the browser complain: this is a copy.
TOP_OF_THE_LOAD = """() => {
    const shown = document.getElementById("arena"), side = shown.width;
    const copy = Object.assign(document.createElement("canvas"), { width: side, height: side }).getContext("2d");
    copy.drawImage(shown, 0, 0);
    const { data } = copy.getImageData(side / 2, 0, 1, side);
    return [...Array(side).keys()].findIndex((y) => data[4 * y] > 180 && data[4 * y + 2] < 60) / side;
}"""
SLOWLY = """() => {
    const send = WebSocket.prototype.send;
    WebSocket.prototype.send = function (words) { setTimeout(() => send.call(this, words), 1000); };
}"""


def pixels(page):
    return page.locator("#arena").evaluate("canvas => canvas.toDataURL()")


def picture(page):
    """Return the arena's pixels, row 0 at the top: [side, side, 3]."""
    with Image.open(io.BytesIO(base64.b64decode(pixels(page).partition(",")[2]))) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def looks(page):
    return pixels(page), page.locator("#bars").inner_text(), page.locator("#clock").text_content()


def bar(page, name):
    return page.locator("#bars li", has=page.get_by_text(name, exact=True))


def test_goal_moves_the_sprites_where_it_says(visit, address):
    page = visit("agent left")
    submit(page, "square bottom right and circle top")
    expect(page).to_have_url(re.compile("goal=square"))
    solved(page)
    expect(page.locator("#clauses li.done")).to_have_count(3)
    final = httpx.post(f"http://{address}/api/episode", json=asked(page), timeout=60).json()["positions"][-1]
    assert final[2] >= 2 / 3 > 1 / 3 > final[3]
    assert final[5] >= 2 / 3
    shown = picture(page)
    rows, columns = np.nonzero((shown == [86, 180, 233]).all(axis=2))  # the square's own blue
    side = len(shown)
    seen = np.array([columns.min() + columns.max(), 2 * side - rows.min() - rows.max()]) / (2 * side)
    np.testing.assert_allclose(seen, np.clip(final[2:4], 0.05, 0.95), atol=0.06)  # a wall or the agent may hide a part


def test_goal_moves_the_bars_into_its_bands(visit):
    page = visit("temperature cold and lamp off", "room", "seed=2")
    submit(page, "temperature warm and lamp on")
    expect(page).to_have_url(re.compile(r"goal=temperature\+warm"))
    solved(page)
    temperature = bar(page, "temperature")
    expect(temperature).to_contain_text(re.compile(r"2[3-9]\.\d °C – reached"))
    expect(bar(page, "lamp").locator(".value")).to_have_text("on")
    expect(page.locator("#bars li.done")).to_have_count(2)
    expect(page.locator("#clauses li.done")).to_have_count(2)
    band, track, needle = (temperature.locator(part).bounding_box() for part in (".band", ".track", ".needle"))
    assert band["x"] == pytest.approx(track["x"] + 2 / 3 * track["width"], abs=1)  # warm is its last third
    assert band["width"] == pytest.approx(track["width"] / 3, abs=1)
    assert band["x"] <= needle["x"] + needle["width"] / 2 <= band["x"] + band["width"] + 1
    assert bar(page, "blind").locator(".band").count() == 0
    page.locator("#time").fill("0")
    assert temperature.locator(".needle").bounding_box()["x"] != needle["x"]
    expect(temperature.locator(".here")).to_have_text(re.compile("cold|mild"))


def test_world_on_the_host_shows_frames_and_bars(visit):
    page = visit(UP_AND_DOWN, "crane")
    solved(page)
    expect(bar(page, "load height")).to_contain_text(" m – reached")
    page.wait_for_function(f"() => ({TOP_OF_THE_LOAD})() >= 0")
    top = page.evaluate(TOP_OF_THE_LOAD)
    assert top < 1 / 3  # the load is up
    page.locator("#time").fill("0")
    page.wait_for_function(f"before => ({TOP_OF_THE_LOAD})() !== before", arg=top)
    page.get_by_role("tab", name="Inside Ψ").click()
    expect(page.locator("#psi-note")).to_contain_text("what runs on the host has no copies")
    expect(page.locator("#maps figure:visible")).to_have_count(2)


@pytest.mark.parametrize(
    ("world", "seed", "first", "typed", "word", "better"),
    [
        ("sprites", 3, "square right", "get the sqare to the left", "sqare", "get the square to the left"),
        ("room", 1, AND_ROOM, "lamb on", "lamb", "lamp on"),
    ],
)
def test_unknown_word_is_marked_and_changes_nothing(visit, world, seed, first, typed, word, better):
    page = visit(first, world, f"seed={seed}")
    running(page, 1)
    address = page.url
    page.get_by_label("Goal, in plain words").fill(typed)
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_role("alert")).to_contain_text(f"unknown word '{word}'; did you mean")
    expect(page.locator("#problem mark")).to_have_text(word)
    solved(page)  # what it was at
    assert page.url == address
    page.get_by_role("button", name=f"Try “{better}”").click()
    expect(page.get_by_role("alert")).to_be_empty()
    expect(page).not_to_have_url(address)
    solved(page)
    held = asked(page)
    submit(page, typed)
    expect(page.get_by_role("alert")).not_to_be_empty()
    page.get_by_role("button", name="New start").click()
    expect(page.get_by_role("alert")).to_be_empty()
    assert asked(page)["phrase"] == held["phrase"]
    assert asked(page) != held


@pytest.mark.parametrize(
    ("world", "first", "plan", "seed", "between"),
    [("sprites", "agent left", PLAN, 11, 24), ("room", "temperature cold", ROOM_PLAN, 2, 1)],
)
def test_plan_is_ticked_off_and_restored_by_address(visit, world, first, plan, seed, between):
    page = visit(first, world, f"seed={seed}")
    expect(page.locator("#stages")).to_be_hidden()
    page.locator("#time").fill("0")
    submit(page, plan)
    stages = page.get_by_role("list", name="The plan").get_by_role("listitem")
    expect(stages).to_have_text([re.compile(stage.removesuffix(" left")) for stage in plan.split(" then ")])
    if world == "room":
        expect(bar(page, "volume").locator(".lane")).to_have_count(1)
        expect(bar(page, "lamp").locator(".lane")).to_have_count(2)  # reached in the first, kept in the second
    else:
        expect(stages).to_have_text([re.compile("– now"), re.compile("– later")])
    solved(page)
    expect(stages).to_have_text([re.compile("– reached"), re.compile("– reached")])
    if world == "room":
        expect(bar(page, "volume").locator(".track .avoid")).to_have_count(1)
        expect(page.locator("#bars .lane.done")).to_have_count(4)
    again = visit(world=world, like=page)
    solved(again)
    assert looks(again) == looks(page)
    for each in (page, again):
        each.locator("#time").fill(str(between))
        expect(each.locator("#clock")).to_contain_text(f"step {between} of")
    assert looks(again) == looks(page)
    if world == "sprites":
        expect(page.locator("#stages [aria-current=step]")).to_have_text(re.compile("circle top without agent bottom"))
        expect(page.locator("#clauses li")).to_have_count(3)
        corner = picture(page)[-60:-10, -60:-10].reshape(-1, 3)
        assert len(np.unique(corner, axis=0)) > 5  # hatched, for the agent must not go there


def test_alternatives_are_shaded_the_one_pursued_most(visit):
    page = visit("square top left or square bottom right", query="start=0.5,0.5,0.5,0.8,0.5,0.2")
    page.get_by_role("button", name="Pause").click()
    page.locator("#time").fill("0")
    shown = picture(page)
    near, far = len(shown) // 20, -len(shown) // 20  # of the corners: pixels of a row or column
    bare, *zones = shown[far, near], shown[near, near], shown[far, far]
    lighter, stronger = sorted(np.abs(zone - bare).max() for zone in zones)
    assert 0 < lighter < stronger


def test_plan_broken_or_refused_says_why(visit):
    page = visit("circle top without agent bottom", query="start=0.5,0.4,0.1,0.5,0.9,0.1")
    page.locator("#arena").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#verdict.bad")).to_have_text("You entered agent bottom")
    expect(page.locator("#stages li.broken")).to_contain_text("failed: entered agent bottom")
    submit(page, "keep square left then square right")
    expect(page.get_by_role("alert")).to_contain_text("stage 2 breaks what is kept")
    expect(page.locator("#problem mark")).to_have_text("square right")


@pytest.mark.parametrize(
    ("world", "examples"),
    [
        ("sprites", ("square top left and circle right", "get the circle to the middle")),
        ("room", (AND_ROOM, "temperature above 20 °C", "blind shut")),
    ],
)
def test_examples_that_make_sense_are_a_click_away(visit, world, examples):
    page = visit(world=world)
    expect(page.get_by_label("Goal, in plain words")).to_have_attribute("placeholder", examples[0])
    for selector in ("#arena", "#keys", "#gif", "#hand") if world == "room" else ():
        expect(page.locator(selector)).to_be_hidden()
    for example in examples[1:]:
        page.get_by_role("button", name=example).click()
        expect(page.get_by_label("Goal, in plain words")).to_have_value(example)
    solved(page)
    page.get_by_role("tab", name="Teach by reward").click()
    for selector in ("#paint", "#taught-sprite"):
        expect(page.locator(selector)).to_be_visible(visible=world == "sprites")


@pytest.mark.parametrize(
    ("world", "first", "then"),
    [
        ("sprites", "square right", "circle top and agent left"),
        ("room", "temperature warm", "blind shut"),
        ("crane", "load up", "load down"),
    ],
)
def test_changed_goal_goes_on_and_its_link_too(visit, address, world, first, then):
    for seed in range(2, 9):
        page = visit(first, world, f"seed={seed}")
        if int(page.locator("#time").get_attribute("max")) > 3:
            break
    before = httpx.post(f"http://{address}/api/episode", json=asked(page)).json() if world == "sprites" else None
    running(page, 2)
    submit(page, then)
    if world == "sprites":
        expect(page).to_have_url(re.compile("goal=circle"))
        expect(page.locator("#hands")).to_contain_text("a link shows the episode from here on")
        assert min(np.abs(np.subtract(before["positions"][2:-1], asked(page)["start"])).max(axis=1)) < 1e-6
    else:
        expect(page).to_have_url(re.compile(f"was=[2-9]:0::{first.replace(' ', '.')}"))
        expect(page.locator("#hands")).to_contain_text("It goes on from where the world was")
    solved(page)
    end = page.locator("#arena").get_attribute("aria-label")
    again = visit(world=world, like=page)
    solved(again)
    assert again.locator("#arena").get_attribute("aria-label") == end
    if world == "sprites":
        expect(again.locator("#hands")).to_be_empty()
        again.get_by_role("button", name="New start").click()
        expect(again).not_to_have_url(re.compile("start="))


def test_verdict_of_one_goal_does_not_outlast_it(visit):
    page = visit("square right")
    solved(page)
    page.evaluate(SLOWLY)  # as where a first plan is compiled
    for phrase in ("circle left", "sqare left"):  # the refused one leaves what was
        submit(page, phrase)
        expect(page.locator("#verdict:not(.good)")).to_have_text("One moment …")
        solved(page)


@pytest.mark.parametrize(
    ("world", "name"),
    [("sprites", "square-top-left-and-circle-right.gif"), ("crane", "load-down-then-load-up.gif")],
)
def test_episode_is_paused_stepped_replayed_and_saved(visit, world, name):
    page = visit({"sprites": PHRASE, "crane": UP_AND_DOWN}[world], world)
    page.get_by_role("button", name="Replay").click()
    page.get_by_role("button", name="Pause").click()
    t = int(page.locator("#time").input_value())
    page.get_by_role("button", name="Step", exact=True).click()
    expect(page.locator("#time")).to_have_value(str(t + 1))
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save GIF").click()
    assert saved.value.suggested_filename == name


PLAYERS = {  # plain and technical names, and the least success
    "sprites": [("The agent", "Committed GPI", 0.95), ("The paper's agent", "Plain GPI", 0.8),
                ("The expert", "Oracle", 0.99), ("Pure chance", "Random", 0)],
    "room": [("The agent", "Committed GPI", 0), ("The paper's agent", "Plain GPI", 0), ("Pure chance", "Random", 0)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("world", "phrase", "other"), [("sprites", PHRASE, "agent left"), ("room", AND_ROOM, "lamp off")]
)
def test_players_are_compared_over_200_episodes(visit, world, phrase, other):
    page = visit(phrase, world)
    page.get_by_role("tab", name="Compare").click()
    players, names = page.locator("#players figure"), PLAYERS[world]
    expect(players.locator("strong")).to_have_text([plain for plain, _, _ in names])
    expect(players.locator(".technical")).to_have_text([technical for _, technical, _ in names])
    expect(players.locator(".what")).to_have_text([re.compile(r"^[A-Z].{25,}\.$")] * len(names))
    button = page.get_by_role("button", name="Compare", exact=True)
    button.click()
    expect(button).to_be_disabled()
    for panel, (_, _, least) in zip(players.all(), names, strict=True):
        expect(panel.locator(".note")).to_contain_text("% of 200")
        assert panel.locator("meter").evaluate("meter => meter.value") >= least
        expect(panel.locator(".needle")).to_have_count(4 if world == "room" else 0)
    values = page.locator("#players meter").evaluate_all("meters => meters.map(meter => meter.value)")
    assert values[0] > values[-1]
    expect(button).to_be_enabled()
    button.click()
    submit(page, other)
    expect(button).to_be_enabled()  # what was counted is of no use for another goal


def test_dqn_is_told_where_it_was_measured(visit):
    page = visit("square top left")
    page.get_by_role("tab", name="Compare").click()
    beside = page.get_by_role("tabpanel", name="Compare")
    expect(beside).to_contain_text("DQN, from scratch: some 90,000 steps for a task of this kind; here 0.")
    page.get_by_text("How this was measured").click()
    expect(page.get_by_text("NVIDIA H200")).to_be_visible()
    submit(page, "square top left and circle bottom right")
    expect(beside).to_contain_text("DQN, from scratch: not learnt in 1,000,000 steps")
    submit(page, PHRASE)
    expect(page).to_have_url(re.compile("circle.right"))
    expect(beside).not_to_contain_text("DQN")


@pytest.mark.parametrize(
    ("world", "hint", "chosen", "said"),
    [
        ("sprites", "Paint a region first.", ["column 1, row 1", "column 1, row 2", "column 1, row 3"],
         "square left"),
        ("room", "Choose a band first.", ["blind shut", "blind half", "lamp off"], "lamp off and blind not open"),
    ],
)  # fmt: skip
def test_region_chosen_is_learnt_and_acted_on(visit, world, hint, chosen, said):
    page = visit({"sprites": "agent left", "room": "lamp on"}[world], world)
    page.get_by_role("tab", name="Teach by reward").click()
    page.get_by_role("button", name="Learn and act").click()
    expect(page.locator("#lesson")).to_have_text(hint)
    for name in chosen:
        page.get_by_role("tabpanel").get_by_role("button", name=name).click()
    expect(page.locator("#painted")).to_have_text(f"That is: {said}")
    page.get_by_role("button", name="Learn and act").click()
    expect(page.locator("#lesson")).to_contain_text("2,000 labelled steps")
    expect(page).to_have_url(re.compile(rf"goal={said.replace(' ', '.')}.*w="))
    expect(page.get_by_label("Goal, in plain words")).to_have_value(said)
    solved(page)


def test_lesson_without_a_reward_is_not_acted_on(visit, monkeypatch):
    monkeypatch.setitem(playing.LESSONS, 2_000, (1, 2, 3))  # so few that nothing can be found
    page = visit("agent left")
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


@pytest.mark.parametrize(
    ("world", "phrase", "action"), [("sprites", "agent left", "drag right"), ("room", AND_ROOM, "lamp off")]
)
def test_psi_is_shown_for_every_action(visit, world, phrase, action):
    page = visit(phrase, world)
    page.locator("#time").fill("0")  # or another step would change it, too
    page.get_by_role("tab", name="Inside Ψ").click()
    expect(page.locator("#psi-note")).to_contain_text("Mean distance from what was played")
    before = page.locator("#maps canvas").last.evaluate("canvas => canvas.toDataURL()")
    page.get_by_label("Action").select_option(action)
    expect(page.locator("#maps figure:visible")).to_have_count(3)
    page.wait_for_function(
        "before => [...document.querySelectorAll('#maps canvas')].at(-1).toDataURL() !== before", arg=before
    )


def test_numbers_have_no_minus_zero_errors_no_jargon(visit):
    page = visit("agent left")
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


def test_thirty_frames_a_second_are_drawn(visit):
    page = visit(PHRASE)
    page.locator("#speed").fill("4")
    counted = """() => new Promise(resolve => {
        let frames = 0;
        const pen = CanvasRenderingContext2D.prototype, transform = pen.setTransform;
        pen.setTransform = function (...args) { frames++; return transform.apply(this, args); };
        setTimeout(() => { pen.setTransform = transform; resolve(frames); }, 1000);
    })"""
    for _ in range(6):  # a busy machine gets another chance
        page.get_by_role("button", name="Replay").click()
        if page.evaluate(counted) >= 30:
            return
    raise AssertionError("fewer than 30 frames a second")
