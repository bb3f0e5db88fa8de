"""The API's messages, typed and bounded. Lists of numbers keep the axes of the arrays they come from."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cumulant.web.episodes import MAX_STAGES
from cumulant.web.player import Method

# Strict numbers: JSON's `true` is no 1, nor is "1".
Seed = Annotated[
    int, Field(strict=True, ge=0, lt=2**32, description="The same seed gives the same episode, here as everywhere.")
]
Action = Annotated[int, Field(strict=True, ge=0, lt=2**31, description="One of the world's, counted from 0.")]
Positions = Annotated[
    list[Annotated[float, Field(strict=True, ge=0, le=1)]],
    Field(
        max_length=20,
        description="In a world of sprites: agent x, agent y, then each object's. The arena is [0, 1]², y upwards.",
    ),
]
# No length of its own: the language says how much it reads, and the guard how long a request may be.
Phrase = Annotated[str, Field(examples=["square top left and circle right", "square left then agent top"])]
StageNumber = Annotated[
    int, Field(strict=True, ge=0, lt=MAX_STAGES, description="Of a plan, counted from 0: the stage to begin with.")
]
Weight = Annotated[float, Field(strict=True, ge=-10, le=10)]
Row = Annotated[list[Weight], Field(max_length=99)]


class Message(BaseModel):
    """A message holds what its type says, and nothing else."""

    model_config = ConfigDict(extra="forbid")


class Goal(Message):
    """A goal or a plan in words; `weights` [d, m], learnt from reward, take the place of those that a goal means."""

    phrase: Phrase
    weights: Annotated[list[Row], Field(max_length=99)] | None = None


class Leg(Goal):
    """A goal that was pursued for some steps, before another took its place."""

    stage: StageNumber = 0
    steps: Annotated[int, Field(strict=True, ge=0, lt=2**31)]


class EpisodeRequest(Goal):
    """Which episode: a goal, a seed, perhaps a later stage or, with sprites, a start of one's own, and who acts.

    To change the goal on the way, or to move a sprite, ask for the episode that begins where the world is: with sprites
    that is a `start`, and in any world the goals that were pursued until then, one `after` the other.
    """

    seed: Seed = 0
    start: Positions | None = None
    stage: StageNumber = 0
    method: Method = "committed"
    after: list[Leg] = []


class EvaluateRequest(Goal):
    """Which episodes: those of 25 seeds from this one on."""

    seed: Seed = 0
    method: Method = "committed"


class StepRequest(Goal):
    """One action of a person's, among sprites: up, down, left, right, and the same four as drags."""

    positions: Positions
    action: Action
    stage: StageNumber = 0


class TeachRequest(Message):
    """A region that pays a reward of 1. The agent is told the rewards of so many steps, not the words."""

    phrase: Phrase
    seed: Seed = 0
    steps: Literal[2000, 10000] = 2000


class PsiRequest(Message):
    """A state and an action. The state is that of sprites at `positions`, or the one after a `step` of an episode."""

    positions: Positions | None = None
    episode: EpisodeRequest | None = None
    step: Annotated[int, Field(strict=True, ge=0, lt=2**31)] = 0
    action: Action


class Condition(Message):
    """A coordinate and the bins it may lie in."""

    feature: int  # which of the world's
    sprite: str  # or whatever thing it belongs to
    axis: str
    allowed: list[int]
    words: str


class Stage(Message):
    """A stage of a plan. It is reached in any one clause, with all its conditions; nor may any clause of `avoid` hold.

    What earlier stages keep, and that nothing avoided holds, is among the conditions.
    """

    canonical: str
    clauses: list[list[Condition]]
    avoid: list[list[Condition]]
    weights: list[list[list[float]]]  # [clauses, d, m]


class FromScratch(Message):
    """What DQN needed, from scratch, for a task of the same class: steps, or null if it did not get there in `most`."""

    steps: int | None
    most: int
    source: str  # how it was measured


class Parsed(Message):
    """How a phrase was understood: one stage after the other. A plain goal has one.

    `brief` is a phrase that means the same, in few words. `from_scratch` is null for whatever was not measured.
    """

    canonical: str
    brief: str
    from_scratch: FromScratch | None
    bins: int
    stages: list[Stage]


class Thought(Message):
    """Why GPI took an action: the stage and its policy that it followed, and what every policy [d, m] is worth."""

    stage: int
    clause: int
    feature: int
    bin: int
    values: list[list[float]]


class Episode(Message):
    """t steps, from t + 1 states. Bit i of `met` says of each clause of the stage whether its condition i holds."""

    positions: list[list[float]]  # [t + 1, k]: the world's features, as shares of their ranges
    bins: list[list[int]]  # [t + 1, d]: where φ is 1
    stages: list[int]  # [t + 1]: the current one; the number of stages where all are reached
    met: list[list[int]]  # [t + 1, clauses of the current stage, or of the last]
    actions: list[int]
    thoughts: list[Thought] | None  # none of those who do not weigh policies
    success: bool
    violation: str  # what broke a plan, in words; empty if nothing did


class Outcomes(Message):
    """Success and steps of each of the episodes."""

    success: list[bool]
    steps: list[int]


class Lesson(Message):
    """What a number of labelled steps has taught: w [d, m]."""

    steps: int
    rewarded: int
    weights: list[list[float]]
    model: str
    sure: float


class Lessons(Message):
    """What was learnt from more and more steps; or, if weights say nothing, why, in a sentence."""

    lessons: list[Lesson]
    nothing: str  # empty, if the last lesson's weights can be acted on


class Frames(Message):
    """Pictures of an episode, as data URLs: of a long one, not every state's. The last is that of its last state."""

    images: list[str]
    every: int  # steps from one to the next
    first: int  # the step of the first


class Psi(Message):
    """Ψ [d·m policies, d·m cumulants], scaled by 1 - γ; null where nothing is learnt, or where the Lemma is silent.

    What is played is null in a world on the host, of which no state can be gone on from twice.
    """

    learnt: list[list[float | None]]
    lemma: list[list[float | None]]
    played: list[list[float | None]]


class Sprite(Message):
    """How to draw a sprite: its colour, and its corners in half-extents (none: a circle)."""

    name: str
    colour: str
    outline: list[list[float]]  # [corners, 2]


class Bar(Message):
    """A feature of the world: how to name it in a phrase, its range and unit, and the names of its regions.

    `bins` are what can be chosen of it where rewards are taught, as many equal parts: the library's, or its values.
    """

    name: str
    low: float
    high: float
    unit: str
    regions: list[str]
    named: bool  # whether each of its values has a name, as of a lamp that is off or on
    bins: list[str]


class World(Message):
    """What a page needs to know once. Sprites stand in the order of positions; the first object lies on top.

    A world without sprites is shown by its bars, and by frames if it `draws` any.
    """

    sprites: list[Sprite]
    bars: list[Bar]
    draws: bool
    methods: list[Method]  # who can play: the agent; the paper's, which chooses anew at every step; an expert; chance
    examples: list[str]  # of goals
    features: list[str]  # those of the library: "square_x", or "latent 3" where nobody knows what it is
    bin_names: list[list[str]]  # [d, m]
    bins: int
    actions: list[str]
    half_extent: float  # of sprites; 0 where there are none
    agent_radius: float
    background: str
    max_steps: int
    free_steps: int  # of free play, in which the skills were learnt


class Problem(Message):
    """What is wrong with a request. For a phrase: where (`span`), and what could stand there instead."""

    message: str
    span: Annotated[list[int], Field(min_length=2, max_length=2)] | None = None
    suggestion: str = ""


class Call(Message):
    """What is sent over the socket: `kind` names one of the POST requests, `request` is its body."""

    id: Annotated[int, Field(strict=True, ge=0, lt=2**53)]
    kind: Annotated[str, Field(max_length=20)]
    request: dict
