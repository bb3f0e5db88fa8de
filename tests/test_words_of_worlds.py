"""Words in several worlds: what phrases mean, what is refused, and that every task has a phrase that means it."""

import contextlib
import time
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cumulant.goals import plans
from cumulant.goals.clauses import TooComplex
from cumulant.goals.errors import LanguageError
from cumulant.goals.feature import Feature, described
from cumulant.goals.language import parse, parse_plan
from cumulant.goals.plans import Contradiction, Plan, Stage
from cumulant.goals.tasks import Task, reached, tables_of
from cumulant.worlds.shapes import SHAPES

ROOM = (
    Feature("temperature", of="room", low=10, high=30, unit="°C", words=("cold", "mild", "warm")),
    Feature("state", of="lamp", words=("off", "on")),
    Feature("blind", of="room"),
    Feature("volume", of="radio", low=0, high=10),
)
ARM = (
    Feature("x", of="hand", low=1.10, high=1.50, unit="m"),
    Feature("y", of="hand", low=0.45, high=1.05, unit="m"),
    Feature("z", of="hand", low=0.42, high=0.52, unit="m"),
    Feature("x", of="puck", low=1.10, high=1.50, unit="m"),
    Feature("y", of="puck", low=0.45, high=1.05, unit="m"),
)
PLANT = (
    "cart_position",
    "cart_velocity",
    "dial",
    "joint_0",
    Feature("tank_level", low=-5, high=5, words=("a", "b", "c", "d")),
)
WORLDS = {
    "two objects": tuple(f"{sprite}_{axis}" for sprite in ("agent", *SHAPES[:2]) for axis in "xy"),
    "eight objects": tuple(f"{sprite}_{axis}" for sprite in ("agent", *SHAPES) for axis in "xy"),
    "room": ROOM,
    "arm": ARM,
    "plant": PLANT,
}
worlds = pytest.mark.parametrize("world", WORLDS)

MEANINGS = {  # world → phrase → canonical
    "room": {
        "lamp on and temperature warm": "room temperature warm and lamp on",
        "put the lamp on": "lamp on",
        "the room warm": "room temperature warm",
        "room_temperature not warm": "room temperature not warm",
        "temperature above 21": "room temperature above 21 °C",
        "temperature at least 21°C": "room temperature above 21 °C",
        "temperature at most 21.4 °c": "room temperature below 21.4 °C",
        "temperature between 20 and 22 °C": "room temperature between 20 °C and 22 °C",
        "temperature above 20 and below 22": "room temperature between 20 °C and 22 °C",
        "temperature not between 20 and 22": "room temperature not between 20 °C and 22 °C",
        "temperature below 21 or above 23, lamp on": (
            "room temperature below 21 °C or room temperature above 23 °C and lamp on"
        ),
        "volume 2/5": "radio volume between 2 and 4",
        "volume 2,4/5": "radio volume 2,4/5",
        "radio 1/7": "radio volume 1/7",
        "lamp on, temperature warm, volume 1,3/5": "room temperature warm and lamp on and radio volume 1,3/5",
        "temperature warm or cold": "room temperature not mild",
        "lamp on then temperature above 21 without radio high": (
            "lamp on then room temperature above 21 °C without radio high"
        ),
    },
    "arm": {
        "puck left and hand high": "hand z high and puck left",
        "hand and puck left": "hand left and puck left",
        "hand y middle": "hand y middle",
        "puck top middle": "puck top centre",
        "z high": "hand z high",
        "hand x above 1.2 m and below 1.3 m": "hand x between 1.2 m and 1.3 m",
    },
    "plant": {
        "cart position low": "cart position low",
        "cart_position low": "cart position low",
        "joint 0 high or dial 2/5": "dial 2/5 or joint_0 high",
        "tank level above -2.5": "tank_level not a",
        "tank_level below -2": "tank_level below -2",
        "tank_level between −4 and 3.5": "tank_level between -4 and 3.5",
    },
}


@pytest.mark.parametrize(("world", "phrase"), [(world, phrase) for world in MEANINGS for phrase in MEANINGS[world]])
def test_a_phrase_means_what_a_person_means(world, phrase):
    features = WORLDS[world]
    assert str(parse_plan(phrase, features)) == MEANINGS[world][phrase]
    assert parse_plan(MEANINGS[world][phrase], features) == parse_plan(phrase, features)


@pytest.mark.parametrize(
    ("world", "phrase", "message", "culprit"),
    [
        ("room", "lamp left", "'left' does not fit: lamp has state: off, on", "left"),
        ("room", "lamp warm", "'warm' does not fit: lamp has state: off, on", "warm"),
        ("room", "temp warm", "did you mean 'temperature'?", "temp"),
        ("room", "temperature wram", "did you mean 'warm'?", "wram"),
        ("room", "fridge cold", "this world has room, lamp, radio", "fridge"),
        ("room", "temperature above 40", "temperature lies between 10 and 30 °C", "40"),
        ("room", "temperature below 10", "temperature lies between 10 and 30 °C", "10"),
        ("room", "temperature above 21.43", "told apart in steps of 0.2 °C: try 21.4", "21.43"),
        ("room", "temperature between 22 and 20", "the smaller number first", "temperature between 22 and 20"),
        ("room", "volume above 7 °C", "volume has no unit: '°C' does not fit", "7 °C"),
        ("room", "temperature above 21,5", "'21,5' is no number, as 21.5", "21,5"),
        ("room", "lamp on temperature warm", "lamp has no temperature: lamp has state: off, on", "temperature warm"),
        ("room", "room 2/5", "say 'room temperature 2/5' or 'room blind 2/5'", "2/5"),
        ("arm", "hand middle", "say 'hand y middle' or 'hand z middle'", "middle"),
        ("arm", "x left", "say 'hand x' or 'puck x'", "x left"),
        ("arm", "puck high", "'high' does not fit: puck has x: left, centre, right; y: bottom, middle, top", "high"),
        ("arm", "hand x above 1.333", "told apart in steps of 0.004 m: try 1.332", "1.333"),
        ("plant", "cart left", "cart has position: low, middle, high; velocity: low, middle, high", "left"),
        ("plant", "dial above " + "1" * 5000, "so many digits", "1" * 5000),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(world, phrase, message, culprit):
    with pytest.raises(LanguageError) as caught:
        parse(phrase, WORLDS[world])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    start, end = caught.value.span
    assert phrase[start:end] == culprit


@pytest.mark.parametrize(
    ("phrase", "message"),
    [
        ("temperature above", "expected a number"),
        ("temperature between 20", "say 'between' one number 'and' another"),
        ("lamp", "say where, or how: lamp has state: off, on"),
        ("temperature", "say where, or how: room has temperature: cold, mild, warm"),
        ("temperature cold and temperature warm", "the room's temperature cannot be cold and warm at once"),
        ("lamp on and lamp off", "the lamp cannot be on and off at once"),
        ("volume 1/997 and blind 1/11", "997, 11 parts|11, 997 parts"),
    ],
)
def test_what_is_no_goal_is_said_clearly(phrase, message):
    with pytest.raises(LanguageError, match=message):
        parse(phrase, ROOM)


@pytest.mark.parametrize(
    "features",
    [
        (),
        ("left_x",),
        ("agent_x", "and_x"),
        ("red square_x",),
        ("a-b_x",),
        ("Star_x", "star_x"),
        ("square_x", "square_x"),
        ("",),
        (Feature("0", of="joint"),),
        (Feature("x"), Feature("x", of="puck")),
        (Feature("cart"), Feature("speed", of="cart")),
        (Feature("light", words=("dark", "light")),),
        (Feature("lamp", words=("on", "on")),),
        (Feature("lamp", words=("not", "on")),),
        (Feature("water", words=("below", "above")),),
        (Feature("square", of="red"), Feature("x", of="red_square")),
        (Feature("dial", unit="and"),),
    ],
)
def test_features_that_no_phrase_could_name_are_refused_by_name(features):
    with pytest.raises(LanguageError, match="no phrase") as caught:
        parse("agent left", features)
    assert "\n" not in str(caught.value)


def test_words_of_a_room_mean_nothing_where_the_world_has_its_own():
    """A world whose things are called by colours, or have more than an x and a y, loses none of its words."""
    pucks = tuple(Feature(axis, of=thing) for thing in ("hand", "red", "blue", "wall") for axis in "xy")
    assert (
        str(parse("red left and blue right", pucks, {"red": "#d55e00", "blue": "#0072b2"})) == "red left and blue right"
    )
    assert str(parse("wall at the top", pucks)) == "wall top"
    assert str(parse("puck in the left corner", ARM)) == "puck left"
    for phrase in ("hand near the puck", "puck at the wall", "lamp near radio"):
        with pytest.raises(LanguageError, match=r"unknown word .(near|wall)."):
            parse(phrase, ARM if "puck" in phrase else ROOM, {"puck": "#d55e00"})
    with pytest.raises(LanguageError, match="expected a number"):
        parse("temperature above lamp", ROOM)


@st.composite
def tasks(draw, features, bins=None):
    bins = bins or draw(st.sampled_from([3, 3, 3, 1, 2, 4, 6, 7, 12, 20, 21, 100, 300]))
    number = draw(st.integers(1, 3))
    # Regions as people name them, made of few pieces, beside any at all.
    cuts = st.lists(st.integers(0, bins), min_size=2, max_size=4).map(sorted)
    piece = cuts.map(lambda ends: sum((1 << b) - (1 << a) for a, b in zip(ends[::2], ends[1::2], strict=False)))
    mask = st.one_of(st.just(2**bins - 1), piece.filter(bool), st.integers(1, 2**bins - 1))
    clause = st.lists(mask, min_size=len(features), max_size=len(features)).map(tuple)
    return Task(features, tuple(draw(st.lists(clause, min_size=1, max_size=number))), bins)


@worlds
@settings(max_examples=60)
@given(st.data())
def test_the_canonical_phrase_parses_back_to_the_same_task(world, data):
    task = data.draw(tasks(WORLDS[world]))
    assert parse(str(task), WORLDS[world]) == task


@worlds
@settings(max_examples=40)
@given(st.data())
def test_the_canonical_phrase_parses_back_to_the_same_plan(world, data):
    features = WORLDS[world]
    some = st.one_of(st.none(), tasks(features, 6), tasks(features, 3))
    stages = st.lists(st.builds(Stage, tasks(features, 6), some, some), min_size=1, max_size=3)
    with contextlib.suppress(Contradiction, TooComplex):
        plan = Plan(tuple(data.draw(stages)))
        assert parse_plan(str(plan), features) == plan


def vocabulary(features):
    parts = [(each.of, each.name, each.unit, *each.regions) for each in described(features)]
    known = sorted({word for part in parts for word in part if word})
    logic = ["and", "or", "not", "(", ")", ",", "the", "then", "keep", "without", "anywhere", "to", "on", "upper"]
    return [*known, *logic, "above", "below", "between", "at least", "at most", "2/5", "1,2/3", "21", "-3", "1.25", "é"]


@worlds
@settings(max_examples=100)
@given(st.data())
def test_any_text_ends_in_a_plan_or_a_clear_error(world, data):
    features = WORLDS[world]
    words = st.lists(st.sampled_from(vocabulary(features)), max_size=40).map(" ".join)
    text = data.draw(st.one_of(words, st.text(max_size=200)))
    try:
        plan = parse_plan(text, features)
    except LanguageError as error:
        assert str(error)
        assert "\n" not in str(error)
        assert error.pointed.startswith(str(error))
        if error.span:
            start, end = error.span
            assert 0 <= start < end <= len(text) + 1  # one further for what is missing at the end
    else:
        assert parse_plan(str(plan), features) == plan


class Goals:
    """Goals in words together with what they mean in numbers of each feature's unit, worked out without the parser."""

    def __init__(self, draw, features):
        self.draw, self.features = draw, features

    def goal(self, depth=2):
        kind = self.draw(st.sampled_from(["and", "or", "not", "leaf"] if depth else ["leaf"]))
        if kind == "leaf":
            return self.leaf()
        phrase, holds = self.goal(depth - 1)
        if kind == "not":
            return f"not ({phrase})", lambda state: not holds(state)
        other, also = self.goal(depth - 1)
        combine = all if kind == "and" else any
        return f"({phrase}) {kind} ({other})", lambda state: combine((holds(state), also(state)))

    def leaf(self):
        i = self.draw(st.integers(0, len(self.features) - 1))
        feature = self.features[i]
        low, width = Fraction(str(feature.low)), Fraction(str(feature.high)) - Fraction(str(feature.low))
        name = f"{feature.of} {feature.name}" if feature.of else feature.name
        kind = self.draw(st.sampled_from(["word", "above", "below", "between", "parts"]))
        cut = self.draw(st.integers(1, 19))
        at = low + width * cut / 20
        number = f"{float(at):.10g}"
        if kind == "word":
            b = self.draw(st.integers(0, len(feature.regions) - 1))
            n = len(feature.regions)
            return f"{name} {feature.regions[b]}", lambda state: b / n <= (state[i] - low) / width < (b + 1) / n
        if kind == "above":
            return f"{name} above {number} {feature.unit}", lambda state: state[i] > at
        if kind == "below":
            return f"{name} below {number}", lambda state: state[i] < at
        if kind == "between":
            top = low + width * self.draw(st.integers(cut + 1, 20)) / 20
            return f"{name} between {number} and {float(top):.10g}{feature.unit}", lambda state: at < state[i] < top
        return f"{name} 2,3/4", lambda state: Fraction(1, 4) < (state[i] - low) / width < Fraction(3, 4)


@worlds
@settings(max_examples=60)
@given(st.data())
def test_words_hold_where_their_meaning_does(world, data):
    features = described(WORLDS[world])
    phrase, holds = Goals(data.draw, features).goal()
    # Fractions of the ranges that lie on no edge of any region that is spoken of here.
    fractions = st.integers(0, 60 * 7 - 1).map(lambda n: Fraction(2 * n + 1, 2 * 60 * 7))
    states = [[data.draw(fractions) for _ in features] for _ in range(5)]
    try:
        task = parse(phrase, features)
    except LanguageError as error:
        assert "contradicts itself" in str(error)
        task = None
    for state in states:
        ends = [(Fraction(str(each.low)), Fraction(str(each.high))) for each in features]
        meant = holds([low + f * (high - low) for f, (low, high) in zip(state, ends, strict=True)])
        if task is None:
            assert not meant
        else:
            assert bool(reached(jnp.asarray(task.table()), jnp.asarray([float(f) for f in state]))) == meant


def test_tasks_are_the_same_whether_features_are_named_or_described():
    bare = WORLDS["two objects"]
    named, told = parse("square left", bare), parse("square left", described(bare))
    assert named == told
    assert hash(named) == hash(told)
    assert named.coordinates == bare
    assert told.names == bare
    assert Task.where(ROOM, {"room_temperature": [2]}) == parse("temperature warm", ROOM)


def test_tasks_on_different_grids_combine_and_share_tables():
    left, far = parse("square left"), parse("square x 7/7")
    assert (left | far) == parse("square left or square x 7/7")
    assert not (left & far).possible
    goals = [left, far, parse("agent top and circle x 1/7")]
    tables = tables_of(goals)
    assert tables.shape == (3, 1, 6, 21)
    rng = np.random.default_rng(0)
    for f in jnp.asarray(rng.random((50, 6), np.float32)):
        for goal, table in zip(goals, tables, strict=True):
            assert bool(reached(jnp.asarray(goal.table()), f)) == bool(reached(table, f))
    both = plans.tables_of([parse_plan("agent left then agent right"), far])
    assert both.goal.bins[:, 0].tolist() == [3, 7]


def test_a_long_phrase_on_a_fine_grid_is_read_at_once():
    """Within 50 ms on an idle core; the bound is for a busy one."""
    features, rng = WORLDS["eight objects"], np.random.default_rng(0)
    places = ["left", "x 7/8", "y 112/125", "x 630/1000", "y 3/10", "top"]
    for join, part in ((" and ", "({} {} or {} {})"), (" and ", "not ({} {} and {} {})"), (" or ", "{} {} and {} {}")):
        phrase = ""
        while len(phrase) < 1000:
            sprites, words = rng.choice(("agent", *SHAPES), 2), rng.choice(places[:-1], 2)
            phrase += (join if phrase else "") + part.format(sprites[0], words[0], sprites[1], words[1])
        before = time.process_time()
        with contextlib.suppress(LanguageError):
            parse(phrase, features)
        assert time.process_time() - before < 0.5
