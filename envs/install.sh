#!/usr/bin/env bash
# Makes or updates a virtual environment with the locked packages and this package (editable):
#     bash envs/install.sh FOLDER [ANOTHER_LOCK]
# Uses uv where it works, else venv and pip. PYTHON=python3.12 chooses the interpreter, and
# FEDREPRO_LOCK=envs/floors.lock other versions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
lock=${FEDREPRO_LOCK:-envs/requirements.lock}
venv=${1:?"usage: bash envs/install.sh FOLDER [ANOTHER_LOCK]"}
other=${2:-}

if [[ $(uname -sm) != "Linux x86_64" ]]; then
    echo "$lock serves Linux x86-64 only, this is $(uname -sm)." \
        "Elsewhere: pip install -e '.[dev]' (versions are then not the locked ones)." >&2
    exit 1
fi

suits() { # a CPython from 3.11 to 3.13?
    "$1" -c 'import sys; sys.exit(not (sys.implementation.name == "cpython"
        and (3, 11) <= sys.version_info[:2] < (3, 14)))' 2>/dev/null
}

if uv --version >/dev/null 2>&1; then has_uv=1; else has_uv=; fi

if ! suits "$venv/bin/python"; then
    if [[ -e $venv && ! -f $venv/pyvenv.cfg ]]; then
        echo "$venv is there and is no virtual environment: move it away." >&2
        exit 1
    fi
    rm -rf "$venv"
    python=
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3 python}; do
        if suits "$candidate"; then
            python=$("$candidate" -c 'import sys; print(sys.executable)')
            break
        fi
    done
    if [[ $has_uv ]]; then # where none was found, uv may fetch one
        uv venv --quiet --python "${python:-${PYTHON:->=3.11,<3.14}}" "$venv"
    elif [[ $python ]]; then
        "$python" -m venv "$venv"
    else
        echo "No Python from 3.11 to 3.13 found (tried: ${PYTHON:-python3.11 to python3.13, python3})." \
            "Install one, or uv, or name one: make PYTHON=/path/to/python." >&2
        exit 1
    fi
fi

if [[ $has_uv ]]; then
    # Compiled once here, every later start of Python is faster.
    install=(uv pip install --quiet --compile-bytecode --python "$venv/bin/python")
else
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip
    install=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)
fi

echo "Installing the locked packages into $venv (the first time downloads some gigabytes) ..."
"${install[@]}" --require-hashes -r "$lock"
if [[ $other ]]; then
    "${install[@]}" --require-hashes --no-deps -r "$other"
fi
# setuptools comes from the lock, so this step needs no download.
"${install[@]}" --no-deps --no-build-isolation --editable .
