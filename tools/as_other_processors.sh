#!/usr/bin/env bash
# Run the tests as other processors would: without AVX2 and FMA, without AVX, and with NumPy's plainest code.
# A figure that was recorded elsewhere, and is compared bit for bit, fails here. Some 15 minutes on two cores.
#   tools/as_other_processors.sh [pytest's arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
features=$(.venv/bin/python - <<'PYTHON'
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

print(*(name for name in __cpu_dispatch__ if __cpu_features__[name]))
PYTHON
)
status=0
run() {
    echo "== as a processor with $1" >&2
    shift
    env "$@" || status=1
}
run "AVX, but neither AVX2 nor FMA" XLA_FLAGS=--xla_cpu_max_isa=AVX .venv/bin/pytest "$@"
run "SSE4.2 at most" XLA_FLAGS=--xla_cpu_max_isa=SSE4_2 .venv/bin/pytest "$@"
run "none of what NumPy looks for (here: $features)" NPY_DISABLE_CPU_FEATURES="$features" .venv/bin/pytest "$@"
exit $status
