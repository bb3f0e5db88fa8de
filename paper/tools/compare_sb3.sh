#!/usr/bin/env bash
# Stable-Baselines3's DQN beside ours, in an environment of its own (PyTorch is large): paper/tools/compare_sb3.sh [OPTIONS]
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ ! -e .venv-sb3/.ready ]; then
    python3 -m venv --without-pip .venv-sb3
    python3 -m pip --python .venv-sb3/bin/python install --quiet --editable . --editable ./paper 'stable-baselines3>=2.6'
    touch .venv-sb3/.ready
fi
exec .venv-sb3/bin/python paper/tools/compare_sb3.py "$@"
