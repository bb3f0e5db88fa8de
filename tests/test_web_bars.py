"""The page in a real browser, in worlds without sprites: a room of bars, and a crane with frames and bars."""

import re

import pytest
from playwright.sync_api import expect

import web_browser
from cumulant.web.player import Player
from cumulant.web.server import create_app
from other_worlds import crane_library, room_library
from web_browser import TABS, below_the_fold, faster, grave, overlapping, pictured, solved
from web_server import serving

pytestmark = web_browser.NEEDED
PLAN = "keep lamp on then temperature warm without volume loud"


# Where the orange begins, from above. A canvas that is read again and again makes the browser complain: this is a copy.
TOP_OF_THE_LOAD = """() => {
    const shown = document.getElementById("arena"), side = shown.width;
    const copy = Object.assign(document.createElement("canvas"), { width: side, height: side }).getContext("2d");
    copy.drawImage(shown, 0, 0);
    const { data } = copy.getImageData(side / 2, 0, 1, side);
    return [...Array(side).keys()].findIndex((y) => data[4 * y] > 180 && data[4 * y + 2] < 60) / side;
}"""


@pytest.fixture(scope="module")
def addresses():
    with (
        serving(create_app(Player(room_library()), warm_up=False)) as room,
        serving(create_app(Player(crane_library()), warm_up=False)) as crane,
    ):
        yield {"room": room, "crane": crane}


@pytest.fixture
def room(browser, addresses):
    with web_browser.visiting(browser, addresses["room"]) as visit:
        yield visit


@pytest.fixture
def crane(browser, addresses):
    with web_browser.visiting(browser, addresses["crane"]) as visit:
        yield visit


def bar(page, name):
    return page.locator("#bars li", has=page.get_by_text(name, exact=True))


def test_a_typed_goal_moves_the_bars_into_its_bands(room):
    page = room("?goal=temperature+cold+and+lamp+off&seed=2")
    faster(page)
    page.get_by_label("Goal, in plain words").fill("temperature warm and lamp on")
    page.keyboard.press("Enter")
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
    before = needle["x"]
    page.locator("#time").fill("0")
    assert temperature.locator(".needle").bounding_box()["x"] != before
    expect(temperature.locator(".here")).to_have_text(re.compile("cold|mild"))


def test_only_what_makes_sense_here_is_offered(room):
    page = room()
    expect(page.get_by_label("Goal, in plain words")).to_have_attribute("placeholder", "lamp on and temperature warm")
    expect(page.get_by_role("button", name="temperature above 20 °C")).to_be_visible()
    for hidden in ("#arena", "#keys", "#gif", "#hand"):
        expect(page.locator(hidden)).to_be_hidden()
    faster(page)
    page.get_by_role("button", name="blind shut").click()
    solved(page)
    page.get_by_role("tab", name="Teach by reward").click()
    expect(page.locator("#paint")).to_be_hidden()
    expect(page.locator("#taught-sprite")).to_be_hidden()


def test_a_wrong_word_is_pointed_at(room):
    page = room("?goal=lamp+on&seed=2")
    page.get_by_label("Goal, in plain words").fill("lamb on")
    page.keyboard.press("Enter")
    expect(page.locator("#problem mark")).to_have_text("lamb")
    page.get_by_role("button", name="Try “lamp on”").click()
    expect(page.get_by_role("alert")).to_be_empty()


def test_a_plan_is_ticked_off_and_its_bands_are_shown_stage_by_stage(room):
    page = room(f"?goal={PLAN.replace(' ', '+')}&seed=2")
    stages = page.get_by_role("list", name="The plan").get_by_role("listitem")
    expect(stages).to_have_text([re.compile("keep lamp on"), re.compile("temperature warm without volume loud")])
    expect(bar(page, "volume").locator(".lane")).to_have_count(1)
    expect(bar(page, "lamp").locator(".lane")).to_have_count(2)  # reached in the first, kept in the second
    faster(page)
    solved(page)
    expect(stages).to_have_text([re.compile("– reached"), re.compile("– reached")])
    expect(bar(page, "volume").locator(".track .avoid")).to_have_count(1)
    expect(page.locator("#bars .lane.done")).to_have_count(4)


def test_bands_are_chosen_learnt_and_acted_on(room):
    page = room("?goal=lamp+on&seed=2")
    faster(page)
    page.get_by_role("tab", name="Teach by reward").click()
    page.get_by_role("button", name="Learn and act").click()
    expect(page.locator("#lesson")).to_have_text("Choose a band first.")
    for name in ("blind shut", "blind half", "lamp off"):
        page.get_by_label("Rewarded bands").get_by_role("button", name=name).click()
    expect(page.locator("#painted")).to_have_text("That is: lamp off and blind not open")
    page.get_by_role("button", name="Learn and act").click()
    expect(page.locator("#lesson")).to_contain_text("2,000 labelled steps")
    expect(page).to_have_url(re.compile(r"goal=lamp\+off\+and\+blind\+not\+open.*w="))
    expect(page.get_by_label("Goal, in plain words")).to_have_value("lamp off and blind not open")
    solved(page)


@pytest.mark.parametrize(
    ("world", "first", "then"), [("room", "temperature warm", "blind shut"), ("crane", "load up", "load down")]
)
def test_a_goal_changed_while_it_runs_goes_on_and_its_link_too(request, world, first, then):
    visit = request.getfixturevalue(world)
    for seed in range(2, 9):
        page = visit(f"?goal={first.replace(' ', '+')}&seed={seed}")
        if int(page.locator("#time").get_attribute("max")) > 2:
            break
    page.get_by_role("button", name=re.compile("^(Pause|Play)$")).click()
    page.locator("#time").fill("2")
    here = page.locator("#bars").inner_text()
    page.get_by_label("Goal, in plain words").fill(then)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"was=2:0::{first.replace(' ', '.')}"))
    expect(page.locator("#hands")).to_contain_text("It goes on from where the world was")
    faster(page)
    solved(page)
    end = page.locator("#arena").get_attribute("aria-label")
    page.locator("#time").fill("0")
    values = page.locator("#bars .value")
    assert all(value in here for value in values.all_inner_texts())
    again = visit("?" + page.url.partition("/?")[2])
    faster(again)
    solved(again)
    assert again.locator("#arena").get_attribute("aria-label") == end


def test_three_players_are_compared(room):
    page = room("?goal=lamp+on+and+temperature+warm&seed=2")
    page.get_by_role("tab", name="Compare").click()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.locator("#players figure")).to_have_count(3)
    for name in ("Committed GPI", "Plain GPI", "Random"):
        panel = page.locator("figure", has_text=name)
        expect(panel.locator(".note")).to_contain_text("% of 200")
        expect(panel.locator(".needle")).to_have_count(4)
    values = page.locator("#players meter").evaluate_all("meters => meters.map(meter => meter.value)")
    assert values[0] > values[2]


def test_psi_is_shown_of_the_step_that_is_looked_at(room):
    page = room("?goal=lamp+on+and+temperature+warm&seed=2")
    page.get_by_role("tab", name="Inside Ψ").click()
    expect(page.locator("#psi-note")).to_contain_text("Mean distance from what was played")
    page.get_by_label("Action").select_option("lamp off")
    expect(page.locator("#maps figure:visible")).to_have_count(3)


def test_a_world_on_the_host_shows_frames_and_bars(crane):
    page = crane("?goal=load+down+then+load+up&seed=3")
    faster(page)
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
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save GIF").click()
    assert saved.value.suggested_filename == "load-down-then-load-up.gif"


@pytest.mark.parametrize(
    ("world", "width", "height", "scheme"),
    [
        ("room", 1280, 720, "light"),
        ("room", 768, 1024, "light"),
        ("room", 390, 844, "dark"),
        ("crane", 1280, 720, "dark"),
        ("crane", 390, 844, "light"),
    ],
)
def test_nothing_stands_in_the_way_of_people_and_screen_readers(request, world, width, height, scheme):
    goal = {"room": PLAN, "crane": "load down then load up"}[world]
    size = {"width": width, "height": height}
    page = request.getfixturevalue(world)(f"?goal={goal.replace(' ', '+')}&seed=2", viewport=size, color_scheme=scheme)
    if width > 700:
        assert below_the_fold(page) == []
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.evaluate("scrollTo(0, 0)")  # where nothing has slid below the arena yet
        assert overlapping(page) == []
        assert grave(page) == []
    pictured(page, f"{world}-{scheme}-{width}")
