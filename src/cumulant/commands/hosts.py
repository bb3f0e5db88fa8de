"""Several processes that run one command together, on one host or many: where the environment says so, they meet."""

import os
import sys
import traceback
from types import TracebackType
from typing import TypedDict

from cumulant.commands.inputs import BadInput

_ADDRESS, _COUNT, _INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"


class Launch(TypedDict, total=False):
    """What JAX needs to be told of the processes; it asks Slurm and Open MPI for the rest."""

    coordinator_address: str
    num_processes: int
    process_id: int


def meet() -> None:
    """Have JAX know the devices of all processes. Only the first one speaks from then on. Before JAX is used."""
    if (launch := launched(os.environ)) is None:
        return
    import jax

    jax.config.update("jax_enable_preemption_service", False)  # SIGTERM ends a process, as it always does
    try:
        jax.distributed.initialize(**launch)
    except (RuntimeError, ValueError, OSError) as error:
        raise BadInput(f"the processes cannot meet: {str(error).strip().partition(chr(10))[0]}") from None
    _speak(jax.process_index() == 0)


def launched(environment: "os._Environ[str] | dict[str, str]") -> Launch | None:
    """How this process was started among others, by Slurm, Open MPI or hand; None if it is alone.

    >>> launched({})
    >>> launched({"JAX_COORDINATOR_ADDRESS": "10.0.0.1:1234", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "1"})
    {'coordinator_address': '10.0.0.1:1234', 'num_processes': 2, 'process_id': 1}
    """
    given = {name: environment[name] for name in (_ADDRESS, _COUNT, _INDEX) if environment.get(name)}
    if _COUNT in given or _INDEX in given:
        if len(given) < 3:
            raise BadInput(f"give {_ADDRESS}, {_COUNT} and {_INDEX} together: they are started by hand")
        count, index = _whole(_COUNT, given), _whole(_INDEX, given)
        if not 0 <= index < count:
            raise BadInput(f"{_INDEX} must lie between 0 and {count - 1}, but is {index}")
        if not given[_ADDRESS].rpartition(":")[2].isdecimal():
            raise BadInput(f"{_ADDRESS} must be HOST:PORT, but is {given[_ADDRESS]!r}")
        return Launch(coordinator_address=given[_ADDRESS], num_processes=count, process_id=index)
    if _several("SLURM_STEP_NUM_TASKS", environment):  # of `srun`: in a batch script alone there is one
        return Launch()
    if _several("OMPI_COMM_WORLD_SIZE", environment):
        if _ADDRESS not in given and "OMPI_MCA_orte_hnp_uri" not in environment:
            raise BadInput(f"this Open MPI does not say where its processes meet: set {_ADDRESS} to HOST:PORT")
        if _ADDRESS not in given:
            return Launch()
        count, index = (_whole(f"OMPI_COMM_WORLD_{name}", environment) for name in ("SIZE", "RANK"))
        return Launch(coordinator_address=given[_ADDRESS], num_processes=count, process_id=index)
    return None


def _several(name: str, environment: "os._Environ[str] | dict[str, str]") -> bool:
    return name in environment and _whole(name, environment) > 1


def _whole(name: str, environment: "os._Environ[str] | dict[str, str]") -> int:
    if not environment.get(name, "").isdecimal():
        raise BadInput(f"{name} must be a whole number, but is {environment.get(name, '')!r}")
    return int(environment[name])


def _speak(aloud: bool) -> None:
    """Keep stdout for what this command says, in the first process alone; of others, only a fault of ours is told."""
    heard, nowhere = sys.stderr, os.open(os.devnull, os.O_WRONLY)
    sys.stdout.flush()
    own = os.dup(1) if aloud else nowhere
    os.dup2(2 if aloud else nowhere, 1)  # libraries that connect devices print there
    sys.stdout = open(own, "w", errors="replace", closefd=False)  # noqa: SIM115 (for as long as the process lives)
    if aloud:
        return
    sys.stderr = sys.stdout

    def told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        traceback.print_exception(kind, error, trace, file=heard)

    sys.excepthook = told
