"""The public names, for type checkers; each is imported when it is first used."""

from .config import PRESETS as PRESETS
from .config import FreePlay as FreePlay
from .config import Represent as Represent
from .features.encoder import Encoder as Encoder
from .features.representation import represent as represent
from .freeplay.runs import Diverged as Diverged
from .goals.errors import LanguageError as LanguageError
from .goals.feature import Feature as Feature
from .goals.language import parse as parse
from .goals.language import parse_plan as parse_plan
from .goals.plans import Plan as Plan
from .goals.plans import Stage as Stage
from .goals.suites import suite as suite
from .goals.tasks import Task as Task
from .goals.tasks import reached as reached
from .storage import Unreadable as Unreadable
from .sweeps.judging import Evaluation as Evaluation
from .sweeps.on_ray import Ray as Ray
from .sweeps.trials import Trial as Trial
from .sweeps.trials import sweep as sweep
from .transfer.audit import audit as audit
from .transfer.evaluation import Success as Success
from .transfer.evaluation import evaluate as evaluate
from .transfer.library import Library as Library
from .transfer.pretraining import pretrain as pretrain
from .worlds.check import check as check
from .worlds.episodes import Policy as Policy
from .worlds.episodes import play as play
from .worlds.episodes import random_policy as random_policy
from .worlds.failures import WorldFailed as WorldFailed
from .worlds.films import Film as Film
from .worlds.host import HostWorld as HostWorld
from .worlds.oracle import oracle_policy as oracle_policy
from .worlds.pixels import PixelSpriteworld as PixelSpriteworld
from .worlds.primitives import primitives as primitives
from .worlds.protocol import World as World
from .worlds.protocol import render as render
from .worlds.room import Room as Room
from .worlds.spriteworld import Spriteworld as Spriteworld

__version__: str
