"""Environments on the host, of which compiled programs hold nothing but numbers: which one, and when.

Nothing here calls JAX: programs wait for it.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from PIL import Image

from cumulant.worlds.failures import WorldFailed, remembered

_REMEMBERED = 1024  # episodes whose actions are kept, so that they can be drawn afterwards
_background = ThreadPoolExecutor(thread_name_prefix="cumulant-host")  # for steps that programs do not wait for
HELD = 3  # the column of a token that says to leave the episode as it is: slot, generation and moment come before

Tokens = np.ndarray  # int32 [n, 4]: slot, generation, moment, held
Jobs = Iterator[tuple[list[int], np.ndarray]]  # a token and an action each; whoever takes one from here steps it


@dataclass
class _Told:
    """How an episode came about: enough to see it again."""

    seed: int
    actions: list[np.ndarray] = field(default_factory=list)


@dataclass
class _Slot:
    """An environment, and where it stands."""

    env: gymnasium.Env | None = None
    generation: int = 0  # of its reset; 0 before the first
    moment: int = 0  # actions since
    observation: np.ndarray | None = None
    terminated: bool = False
    told: _Told | None = None


class Pool:
    """So many environments of one kind; each reset takes the one that has been in use for longest."""

    def __init__(
        self, name: str, make: Callable[[str | None], gymnasium.Env], space: spaces.Space, num: int, repeat: int
    ):
        """Environments are made when they are first needed."""
        self._name, self._make, self._space, self._repeat = name, make, space, repeat
        self._size = spaces.flatdim(space)
        self._slots = [_Slot() for _ in range(num)]
        self._generation, self._next = 0, 0
        self._told: OrderedDict[int, _Told] = OrderedDict()
        self._screen = _Slot()  # an environment to draw with
        self._lock = threading.Lock()
        self._begun: tuple[Tokens, np.ndarray, Jobs, Future] | None = None

    def reset(self, seeds: np.ndarray) -> tuple[np.ndarray, ...]:
        """New episodes of these seeds: observations, whether they are over already, and tokens."""
        with self._lock, remembered():
            self._settle()
            if len(seeds) > len(self._slots):
                raise WorldFailed(
                    f"{self._name} has {len(self._slots)} environments, and {len(seeds)} episodes were to begin at "
                    "once: give the world more num_envs"
                )
            slots = [(self._next + i) % len(self._slots) for i in range(len(seeds))]
            self._next = (self._next + len(seeds)) % len(self._slots)
            for slot, seed in zip(slots, seeds.tolist(), strict=True):
                self._begin(slot, seed)
            return self._seen(slots)

    def restart(self, tokens: Tokens, ended: np.ndarray, seeds: np.ndarray) -> tuple[np.ndarray, ...]:
        """New episodes in place of those that ended, in the same environments; the others are left alone."""
        with self._lock, remembered():
            self._settle()
            rows = tokens.tolist()
            for (slot, generation, moment, _), over, seed in zip(rows, ended.tolist(), seeds.tolist(), strict=True):
                if over:
                    self._check(slot, generation, moment)
                    self._begin(slot, seed)
            return self._seen([row[0] for row in rows])

    def step(self, tokens: Tokens, actions: np.ndarray) -> tuple[np.ndarray, ...]:
        """An action in each episode that is not held and not over."""
        with self._lock, remembered():
            if not self._settle(tokens, actions):
                self._work(_jobs(tokens, actions))
            return self._seen(tokens[:, 0].tolist())

    def foresee(self, tokens: Tokens, actions: np.ndarray) -> np.ndarray:
        """Begin with a step in the background; whoever asks for anything else meanwhile waits for it, and helps."""
        with self._lock, remembered():
            self._settle()
            tokens, actions = tokens.copy(), actions.copy()
            jobs = _jobs(tokens, actions)
            self._begun = (tokens, actions, jobs, _background.submit(self._work, jobs))
            return np.ones(len(tokens), bool)

    def _settle(self, *step: np.ndarray) -> bool:
        """Wait for a step in the background, and say whether it was this one; if not, nobody asks how it went."""
        begun, self._begun = self._begun, None
        if begun is None:
            return False
        *foreseen, jobs, future = begun
        failure: BaseException | None = None
        try:
            self._work(jobs)
        except WorldFailed as error:
            failure = error
        failure = future.exception() or failure
        same = bool(step) and all(np.array_equal(a, b) for a, b in zip(foreseen, step, strict=True))
        if same and failure:
            raise failure
        return same

    def _work(self, jobs: Jobs) -> None:
        """Take the steps that are left. Two threads may do so at once: simulators let go of Python's lock."""
        for (slot, generation, moment, held), action in jobs:
            if not held:
                self._check(slot, generation, moment)
                self._act(self._slots[slot], action)

    def frames(self, tokens: Tokens, size: int) -> np.ndarray:
        """What episodes looked like at these moments, played again from their seeds: uint8 [n, size, size, 3]."""
        with self._lock, remembered():
            self._settle()
            drawn = [self._draw(generation, moment, size) for _, generation, moment, _ in tokens.tolist()]
            return np.stack(drawn) if drawn else np.zeros((0, size, size, 3), np.uint8)

    def _check(self, slot: int, generation: int, moment: int) -> None:
        now = self._slots[slot]
        if now.generation != generation:
            raise WorldFailed(
                f"an episode of {self._name} is gone: its environment was needed for another one. Keep no more than "
                f"{len(self._slots)} at once (num_envs), or play elsewhere in a world that is `apart()`"
            )
        if now.moment != moment:
            raise WorldFailed(
                f"an episode of {self._name} has come to step {now.moment}, and cannot be stepped from step {moment} "
                "again: what runs on the host cannot be copied or turned back"
            )

    def _begin(self, slot: int, seed: int) -> None:
        now = self._slots[slot]
        self._generation += 1
        told = _Told(seed)
        self._reset(now, told)
        now.generation = self._generation
        self._told[now.generation] = told
        while len(self._told) > max(_REMEMBERED, len(self._slots)):
            self._told.popitem(last=False)

    def _reset(self, slot: _Slot, told: _Told, mode: str | None = None) -> None:
        slot.generation, slot.moment, slot.terminated, slot.told = 0, 0, False, told
        slot.observation = self._ask(slot, lambda env: env.reset(seed=told.seed)[0], mode)

    def _act(self, slot: _Slot, action: np.ndarray) -> None:
        if slot.terminated:
            return
        told = slot.told
        assert told is not None
        if len(told.actions) == slot.moment:  # else it is played again
            told.actions.append(action.copy())
        slot.moment += 1
        for _ in range(self._repeat):
            slot.observation = self._ask(slot, lambda env: self._stepped(slot, env, action))
            if slot.terminated:
                break

    def _stepped(self, slot: _Slot, env: gymnasium.Env, action: np.ndarray) -> Any:
        observation, _, terminated, _, _ = env.step(_as_shown(env.action_space, action))
        slot.terminated = bool(terminated)
        return observation

    def _ask(self, slot: _Slot, what: Callable[[gymnasium.Env], Any], mode: str | None = None) -> np.ndarray:
        """What the environment shows then, flat; one line if it fails, and then there is a new one next time."""
        try:
            if slot.env is None:
                slot.env = self._make(mode)
            shown = np.asarray(spaces.flatten(self._space, what(slot.env)), np.float32)
            if shown.shape != (self._size,):
                raise ValueError(f"an observation has {shown.size} numbers in place of {self._size}")
            if not np.isfinite(shown).all():
                raise ValueError("an observation is NaN or infinite")
            return shown
        except Exception as error:
            slot.env, slot.generation = None, 0
            first = str(error).strip().partition("\n")[0]
            where = f"in step {slot.moment}" if slot.moment else "in the reset"
            seed = slot.told.seed if slot.told else None
            said = f"{self._name} raised {type(error).__name__}: {first}, {where} of its episode of seed {seed}"
            raise WorldFailed(said) from error

    def _seen(self, slots: list[int]) -> tuple[np.ndarray, ...]:
        chosen = [self._slots[slot] for slot in slots]
        tokens = [(slot, now.generation, now.moment, 0) for slot, now in zip(slots, chosen, strict=True)]
        blank = np.zeros(self._size, np.float32)
        shown = [blank if now.observation is None else now.observation for now in chosen]
        return (
            np.array(shown, np.float32).reshape(len(slots), self._size),
            np.array([now.terminated for now in chosen], bool),
            np.array(tokens, np.int32).reshape(len(slots), HELD + 1),
        )

    def _draw(self, generation: int, moment: int, size: int) -> np.ndarray:
        told = self._told.get(generation)
        if told is None or moment > len(told.actions):
            raise WorldFailed(f"an episode of {self._name} was too long ago to be drawn, or never was")
        screen = self._screen
        if screen.told is not told or screen.moment > moment:
            self._reset(screen, told, "rgb_array")
        while screen.moment < moment and not screen.terminated:
            self._act(screen, told.actions[screen.moment])
        frame = self._frame()
        picture = Image.fromarray(np.ascontiguousarray(frame[..., :3], np.uint8))
        return np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR))

    def draw_start(self) -> None:
        """Draw the start of an episode; WorldFailed if the environment cannot be drawn."""
        with self._lock:
            self._reset(self._screen, _Told(0), "rgb_array")
            self._frame()

    def _frame(self) -> np.ndarray:
        """Return what the screen's environment draws now, [height, width, channels]."""
        try:
            frame = self._screen.env.render() if self._screen.env else None
        except Exception as error:  # a package or a screen that it lacks
            first = str(error).strip().partition("\n")[0]
            raise WorldFailed(f"{self._name} cannot be drawn: {first}") from error
        if not isinstance(frame, np.ndarray) or frame.ndim != 3:
            raise WorldFailed(f"{self._name} draws no frame: it must be made with render_mode='rgb_array'")
        return frame


def _jobs(tokens: Tokens, actions: np.ndarray) -> Jobs:
    return iter(list(zip(tokens.tolist(), actions, strict=True)))


def _as_shown(space: spaces.Space, action: np.ndarray) -> Any:
    """An action as the environment takes it: a whole number, or [-1, 1] stretched to a box."""
    if isinstance(space, spaces.Discrete):
        return space.start + np.int64(action[0])
    assert isinstance(space, spaces.Box)
    low, high = space.low.reshape(-1), space.high.reshape(-1)
    bounded = np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore", over="ignore"):
        stretched = np.where(bounded, low + (action + 1) / 2 * (high - low), action)
    return stretched.astype(space.dtype).reshape(space.shape)
