# The repository with the locked packages, for Linux x86-64; how to use it: envs/README.md.
# It computes on the CPU; with `docker run --gpus all`, also on NVIDIA GPUs.
FROM python:3.11-slim-bookworm

# No versions: Debian keeps the newest of a package only.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 fedrepro \
    && install --directory --owner=1000 /fedrepro
USER 1000
WORKDIR /fedrepro

# The packages are a layer of their own: it stays when only code changes.
COPY --chown=1000 envs/requirements.lock envs/
RUN python -m venv .venv \
    && .venv/bin/pip install --no-cache-dir --require-hashes -r envs/requirements.lock
COPY --chown=1000 . .
RUN make .venv/.ready

ENV PATH=/fedrepro/.venv/bin:$PATH
CMD ["make", "figures"]
