import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cumulant.goals.clauses import MAX_CLAUSES
from cumulant.goals.colours import SYNONYMS, names_of_colour
from cumulant.goals.errors import LanguageError
from cumulant.goals.language import parse, parse_plan
from cumulant.goals.regions import MAX_BINS
from cumulant.goals.tasks import THIRDS, Task
from cumulant.worlds.pixels import PixelSpriteworld
from cumulant.worlds.renderer import LOOKS
from cumulant.worlds.shapes import SHAPES
from cumulant.worlds.spriteworld import Spriteworld

MEANINGS = {
    # the paper's examples
    "get the agent to the top": "agent top",
    "get the agent to the bottom right": "agent bottom right",
    "get the square to the centre left": "square middle left",
    "get the agent to the left OR get the circle to the middle": "agent left or circle middle",
    "get the square to the top left AND the circle to the bottom right": "square top left and circle bottom right",
    "square at the bottom": "square bottom",
    "circle at the top right": "circle top right",
    "agent to the left OR square to the top": "agent left or square top",
    "agent to the top left OR square to the top right": "agent top left or square top right",
    "square to the top left AND circle to the bottom right": "square top left and circle bottom right",
    # centre and middle
    "square centre": "square centre",
    "square center": "square centre",
    "move the circle to the middle": "circle middle",
    "circle middle left": "circle middle left",
    "circle top middle": "circle top centre",
    "circle centre middle": "circle middle centre",
    "circle in the centre of the top": "circle top centre",
    # negation, parentheses, case, filler, punctuation
    "not (square left or circle top)": "square not left and circle not top",
    "not (square left and circle top)": "square not left or circle not top",
    "NOT NOT Square Left": "square left",
    "(square left or circle right) and agent top": "agent top and square left or agent top and circle right",
    "Put the square on the LEFT side, and bring a circle into the top-right corner.": (
        "square left and circle top right"
    ),
    # a subject of several sprites, and a place that repeats the last subject
    "square and circle left": "square left and circle left",
    "square or circle left": "circle left or square left",
    "square left or right": "square not centre",
    "square not left and not top": "square not left and square not top",
    # a `not` right before a place holds for every sprite; before a sprite or a parenthesis it is of the whole
    "square and circle not left": "square not left and circle not left",
    "square or circle not left": "square not left or circle not left",
    "not (square and circle left)": "square not left or circle not left",
    "not square and circle left": "square not left or circle not left",
    "not (square or circle left)": "square not left and circle not left",
    "not (square and circle not left)": "square left or circle left",
    "square and circle not top left": "(square not top or square not left) and (circle not top or circle not left)",
    "square and circle right and not top": "square right and square not top and circle right and circle not top",
    # commas, other words for the same
    "square left, circle right": "square left and circle right",
    "square, circle left": "square left and circle left",
    "square left, not top, agent right": "square left and square not top and agent right",
    "square top, middle": "square top centre",
    "square upper left or lower": "square top left or square bottom",
    # other grids
    "square left and circle x 2/7": "square x 1/3 and circle x 2/7",
    "square x 2,3/7 y 1/7": "square y 1/7 x 2,3/7",
    "square x 2/7, y 1/7": "square y 1/7 x 2/7",
    "square_x 2/7": "square x 2/7",
    "square left or square not left": "agent anywhere",
}


@pytest.mark.parametrize("phrase", MEANINGS)
def test_a_phrase_means_what_a_person_means(phrase):
    task = parse(phrase)
    assert task == parse(MEANINGS[phrase])
    assert parse(str(task)) == task


def test_and_binds_closer_than_or():
    assert parse("agent top or square left and circle right") == parse("agent top or (square left and circle right)")


@pytest.mark.parametrize(
    ("phrase", "message", "culprit"),
    [
        ("get the sqare left", "unknown word 'sqare'; did you mean 'square'?", "sqare"),
        ("square lft", "did you mean 'left'?", "lft"),
        ("move the star left", "unknown word 'star': this world has agent, square, circle", "star"),
        ("квадрат left", "unknown word 'квадрат'", "квадрат"),
        ("square left right", "'left' and 'right' at once", "right"),
        ("square top left centre", "'top' and 'centre' at once", "centre"),
        ("left", "which thing is 'left'?", "left"),
        ("square left circle", "did not expect 'circle' here: expected 'and' or 'or'", "circle"),
        ("square left)", "did not expect ')'", ")"),
        ("and square left", "did not expect 'and'", "and"),
        ("square x 1,2/3 x 2,3/3 x 1,3/3", "nothing is 'x 1,2/3 x 2,3/3' and 'x 1,3/3' at once", "x 1,3/3"),
        ("square x 8/7", "outside 1 to 7", "x 8/7"),
        ("square x 0/7", "outside 1 to 7", "x 0/7"),
        ("square x 1/0", "1 to 1,000 parts", "x 1/0"),
        ("square x 1/1001", "1 to 1,000 parts", "x 1/1001"),
    ],
)
def test_an_error_quotes_the_word_and_points_at_it(phrase, message, culprit):
    with pytest.raises(LanguageError) as caught:
        parse(phrase)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    _, shown, carets = caught.value.pointed.split("\n")
    assert phrase in shown
    assert carets.strip() == "^" * len(culprit)
    start = carets.index("^")
    assert shown[start : start + len(culprit)] == culprit


@pytest.mark.parametrize(
    ("phrase", "message"),
    [
        ("", "names no goal"),
        ("  \n\t", "names no goal"),
        ("the", "names no goal"),
        ("square left and square right", "contradicts itself: the square cannot be left and right at once"),
        ("square left and not (square left)", "contradicts itself: the square cannot be left and not left at once"),
        ("not square anywhere", "contradicts itself"),
        ("square", "ends too early: say where"),
        ("square left and", "ends too early: name a thing"),
        ("(square left", "a parenthesis is still open"),
        ("square left " * 200_000, "characters, and at most"),
        ("square left or " * 2_000, r"more than 3,\d+ words"),
        ("(" * 900 + "square left" + ")" * 900, "nested more than"),
        ("not " * 400 + "square left", "nested more than"),
    ],
)
def test_what_is_no_goal_is_said_clearly(phrase, message):
    with pytest.raises(LanguageError, match=message.replace("(", r"\(")):
        parse(phrase)


def test_carets_stand_under_wide_characters():
    with pytest.raises(LanguageError) as caught:
        parse("get the 正方形 left")
    _, shown, carets = caught.value.pointed.split("\n")
    assert carets == " " * shown.index("正") + "^" * 6


COLOURS = Spriteworld().colours  # a blue square, an orange circle, a white agent


@pytest.mark.parametrize(
    ("phrase", "canonical"),
    [
        ("the blue square left", "square left"),
        ("the light blue square and the orange circle not left", "square not left and circle not left"),
        ("the blue one left, the white one right", "agent right and square left"),
        ("keep the orange shape top then blue left", "keep circle top then square left"),
        ("square in the top-left corner", "square top left"),
        ("square in the corner at the bottom right", "square bottom right"),
        ("square in the middle of the room", "square middle centre"),
        ("square in the top middle of the room", "square top centre"),
        ("square left or in the centre of the arena", "square left or square middle centre"),
        ("square at the left wall and circle at the upper edge", "square left and circle top"),
        ("please make the square go left, the circle should not be right", "square left and circle not right"),
        ("“square left”", "square left"),
    ],
)
def test_plain_words_of_a_room_of_sprites_are_understood(phrase, canonical):
    assert str(parse_plan(phrase, colours=COLOURS)) == str(parse_plan(canonical))


@pytest.mark.parametrize(
    ("phrase", "message", "culprit"),
    [
        ("the red square left", "there is no red square: the square is blue", "red square"),
        ("the red one left", "nothing here is red: the agent is white, the square is blue", "red one"),
        ("square in the left corner", "which corner? Say 'top left', 'top right'", "corner"),
        ("square at the wall", "which wall? Say left, right, top or bottom", "wall"),
        ("square above the circle", "where each should be: try 'square top and circle bottom'", "above the circle"),
        ("square to the left of circle", "try 'square left and circle right'", "left of circle"),
        ("agent left then circle on the square", "try 'circle top and square bottom'", "on the square"),
        ("square next to the circle", "as 'next to the circle' does", "next to the circle"),
        ("circle touching square", "try 'circle and square top left'", "touching square"),
        (
            "square between agent and circle",
            "try 'agent left, square centre, circle right'",
            "between agent and circle",
        ),
        ("square against the left wall", "try 'square left'", "against"),
        ("square and circle in the same place", "where each should be", "same place"),
        ("move me left", "unknown word 'me': this world has agent, square, circle", "me"),
        ("square up", "did you mean 'top'?", "up"),
        ("square north", "did you mean 'top'?", "north"),
        ("square on the left hand", "unknown word 'hand': this", "hand"),
        ("square anywhere but left", "unknown word 'but': this", "but"),
    ],
)
def test_what_is_no_goal_of_a_room_is_refused_with_what_can_be_said(phrase, message, culprit):
    with pytest.raises(LanguageError, match=re.escape(message)) as caught:
        parse_plan(phrase, colours=COLOURS)
    start, end = caught.value.span
    assert phrase[start:end] == culprit


def test_a_colour_that_several_have_names_none_of_them():
    world = Spriteworld(("square", "hexagon"))
    with pytest.raises(LanguageError, match="'blue' may be several things: say square or hexagon"):
        parse("the blue one left", world.feature_names, world.colours)
    assert str(parse("the blue hexagon left", world.feature_names, world.colours)) == "hexagon left"


CALLED = {
    "agent": ("white",),
    "square": ("blue", "light blue"),
    "circle": ("orange",),
    "triangle": ("green", "dark green"),
    "star": ("pink",),
    "diamond": ("yellow", "bright yellow"),
    "pentagon": ("orange", "red"),
    "hexagon": ("blue",),
    "cross": ("gray", "grey"),
}


def test_every_sprite_has_the_colours_that_people_call_it_by():
    for look in LOOKS:
        world = PixelSpriteworld(SHAPES, look=look)
        assert all(names_of_colour(colour) for colour in world.colours.values())
    told = {sprite: names_of_colour(colour) for sprite, colour in Spriteworld(SHAPES).colours.items()}
    assert {sprite: {*map(_plainly, names)} <= {*told[sprite]} for sprite, names in CALLED.items()} == dict.fromkeys(
        told, True
    )


def _plainly(colour):
    return SYNONYMS.get(colour.split()[-1], colour.split()[-1])


WORDS = ["agent", "square", "circle", "star", *THIRDS["x"], *THIRDS["y"], "center", "and", "or", "not", "(", ")", "the"]
NOISE = ["x 1/7", "y 2,3/7", "x 1/3", "anywhere", "sqare", "é", "💥", ",", "\x00"]


@settings(max_examples=300)
@given(
    st.one_of(
        st.lists(st.sampled_from(WORDS + NOISE), max_size=150).map(" ".join),
        st.text(max_size=1000),
    )
)
def test_any_text_ends_in_a_task_or_a_clear_error(text):
    try:
        task = parse(text)
    except LanguageError as error:
        assert str(error)
        assert "\n" not in str(error)
        assert error.pointed.startswith(str(error))
    else:
        assert parse(str(task)) == task


def test_the_longest_canonical_phrase_parses_back():
    sprites = ("agent", *SHAPES)
    names = tuple(f"{sprite}_{axis}" for sprite in sprites for axis in "xy")
    most = 2**MAX_BINS - 1
    # Alternatives that cannot be united: each leaves out other bins, of one digit if there are any left.
    clauses = tuple(tuple(most - (1 << (i + c) % MAX_BINS) for i in range(len(names))) for c in range(MAX_CLAUSES))
    task = Task(names, clauses, MAX_BINS)
    assert len(task.clauses) == MAX_CLAUSES
    assert parse(str(task), names) == task


@pytest.mark.parametrize(
    "part", ["x 1,", "1,", "1 ", "x1,1", "a" * 50, "( ", "square_", "between 1 and ", "1" * 50, "1/"]
)
def test_long_noise_is_refused_at_once(part):
    """In milliseconds on an idle core: no text is tried again from each of its places."""
    before = time.process_time()
    with pytest.raises(LanguageError):
        parse("square " + part * (100_000 // len(part)))
    assert time.process_time() - before < 2


def test_things_may_be_called_anything_that_is_one_word_of_its_own():
    things = ("a", "Center1", "the", "x1", "Wagen", "red_car")
    names = tuple(f"{thing}_{axis}" for thing in things for axis in "xy")
    for thing in things:
        task = parse(f"{thing.upper()} not left and {thing.lower().replace('_', ' ')} top", names)
        assert task.conditions() == [[(f"{thing}_x", (1, 2)), (f"{thing}_y", (2,))]]
        assert parse(str(task), names) == task


def test_a_colour_that_is_none_is_refused_by_name():
    with pytest.raises(ValueError, match="the colour of square must be hex, as #56b4e9, but is 'red'"):
        parse("the red square left", colours={"square": "red"})
