"""How far a goal or a plan has come, in numpy: nothing is compiled, whatever its stages, its clauses and its grid.

`goals.plans.follow` says the same inside of compiled programs, and `transfer.gpi.certainly` what a player believes.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from cumulant.features.grounding import Grounding
from cumulant.goals.plans import Plan
from cumulant.goals.tasks import Task
from cumulant.transfer.library import ROUGH, fine_bins
from cumulant.web import grids

Broken = Literal["", "entered", "lost"]  # how a plan failed: what is avoided was entered, or what is kept was lost

Table = Bool[np.ndarray, "_ _ _"]  # a task's own clauses [c, k, b], of any number
Tables = tuple[Table, ...]  # one a stage


class Holding(NamedTuple):
    """Of every stage, whether its goal holds, what it avoids, and what is kept while it is the current one."""

    goal: Bool[np.ndarray, "*states s"]
    avoid: Bool[np.ndarray, "*states s"]
    kept: Bool[np.ndarray, "*states s"]

    def at(self, *state: int) -> "Holding":
        """In one of the states, or along some of their axes."""
        return Holding(*(which[state] for which in self))


class Standing(NamedTuple):
    """How far a plan has come: `goals.plans.Progress`, and how it failed."""

    stage: int  # the current one, from 0; the number of stages when all are reached
    inside: bool  # whether what the current stage avoids holds
    broken: Broken = ""


class Regions(NamedTuple):
    """What counts, stage by stage: goals, what is avoided, and what is kept."""

    goal: Tables
    avoid: Tables
    kept: Tables

    def holding(self, places: Float[np.ndarray, "*states k"]) -> Holding:
        """What holds in each of some states."""
        return Holding(*(_holds(tables, places) for tables in self))

    def begin(self, now: Holding, stage: int = 0) -> Standing:
        """How a plan stands that begins here, as a rule with its first stage."""
        stage = next_stage(now.goal, stage)
        return Standing(stage, bool(now.avoid[min(stage, len(self.goal) - 1)]))

    def follow(self, before: Standing, now: Holding) -> Standing:
        """How it stands one step later."""
        if before.broken or before.stage >= len(self.goal):
            return before
        inside = bool(now.avoid[before.stage])
        if inside and not before.inside:
            return before._replace(inside=inside, broken="entered")
        if not now.kept[before.stage]:
            return before._replace(inside=inside, broken="lost")
        return self.begin(now, before.stage)


def regions_of(plan: Plan) -> Regions:
    """A plan's regions. Where a stage avoids nothing, nothing is; where nothing is kept, it cannot be lost."""
    coordinates, bins = plan.goals[0].coordinates, plan.bins
    nothing, anything = Task(coordinates, (), bins), Task.where(coordinates, {}, bins)
    return Regions(
        tuple(goal.table() for goal in plan.goals),
        tuple((stage.avoid or nothing).table() for stage in plan.stages),
        tuple((kept or anything).table() for kept in plan.kept),
    )


def next_stage(holds: Bool[np.ndarray, " s"], stage: int) -> int:
    """The first stage from this one on whose goal does not hold: several may be reached at once."""
    missing = np.flatnonzero(~holds[stage:])
    return stage + int(missing[0]) if len(missing) else len(holds)


def certain(tables: Tables, f: Float[np.ndarray, "*states d"], resolution: float) -> Bool[np.ndarray, "*states s"]:
    """Which stages' goals hold wherever features may be that are known to a resolution alone."""
    possible = np.clip(np.stack([f, f - resolution, f + resolution] if resolution else [f]), 0, 1).astype(np.float32)
    found = [_met(table, possible).all(axis=(0, -1)).any(axis=-1) for table in tables]
    return np.stack(found, axis=-1)


def as_felt(task: Task, bins: int, grounding: Grounding | None) -> Bool[np.ndarray, "c d b"]:
    """Where a goal holds in terms of the features that a player has: `transfer.gpi.PlanGuide.goal` of a stage."""
    table, fine = task.table(), fine_bins(bins, task.bins, grounding)
    regions = np.linspace(0, 1, task.bins + 1)
    edges = np.broadcast_to(regions, (table.shape[1], task.bins + 1))
    if grounding:
        known = np.asarray(grounding.edges)
        edges = np.stack([np.interp(regions, np.linspace(0, 1, known.shape[1]), own) for own in known])
    left, right = np.sort(np.stack([edges[:, :-1], edges[:, 1:]]), axis=0)[:, :, None]  # [k, 1, b] each
    low = np.arange(fine)[:, None] / fine
    overlap = np.clip((np.minimum(low + 1 / fine, right) - np.maximum(low, left)) * fine, 0, 1)
    share = np.einsum("ckb,kfb->ckf", table.astype(float), overlap)
    if grounding:  # edges of words that nearly are edges of the player's bins are
        whole = np.repeat(share.reshape(*share.shape[:2], bins, -1).mean(axis=3), fine // bins, axis=2)
        share = np.where(np.abs(whole - whole.round()) <= ROUGH, whole.round(), share)
    own = table.all(axis=2, keepdims=True) | (share >= share.max(axis=2, keepdims=True) / 2)
    if not grounding:
        return own
    felt = np.ones((len(table), grounding.latents, fine), bool)
    felt[:, np.asarray(grounding.latent)] = own
    return felt


def _holds(tables: Tables, places: Float[np.ndarray, "*states k"]) -> Bool[np.ndarray, "*states s"]:
    return np.stack([_met(table, places).all(axis=-1).any(axis=-1) for table in tables], axis=-1)


def _met(table: Table, f: Float[np.ndarray, "*states k"]) -> Bool[np.ndarray, "*states c k"]:
    return grids.met(table, f.reshape(-1, f.shape[-1])).reshape(*f.shape[:-1], *table.shape[:2])
