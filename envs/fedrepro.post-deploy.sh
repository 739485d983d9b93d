#!/usr/bin/env bash
# Snakemake runs this after it made the conda environment of envs/fedrepro.yaml.
set -euo pipefail
if ! grep -qs '^name = "fedrepro"' pyproject.toml; then
    echo "With --sdm conda, start Snakemake in the repository's folder and without --directory." >&2
    exit 1
fi
python -m pip install --no-deps --no-build-isolation --editable .
