# `make figures` and `make test` are all that a newcomer needs: each sets up .venv first.
# Another interpreter: make clean && make test PYTHON=python3.12
# A clone that was copied or moved: make clean first, for .venv has its old place in it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

READY := .venv/.ready
RUN := PATH="$(CURDIR)/.venv/bin:$$PATH"
PYTEST := $(RUN) OMP_NUM_THREADS=1 pytest
# Two processes more than cores: tests wait for programs that they start.
PARALLEL := -n $(shell n=$$(nproc); echo $$((n < 4 ? n + 2 : 5))) --dist loadfile --no-loadscope-reorder
# Where it is set, each of the hundreds of programs that are started compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help:  ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

.PHONY: figures
figures: $(READY)  ## Draw every figure from the committed run records, and write the report
	$(RUN) snakemake --cores 8 --quiet host reason --config train=never -- all_figures all_report 2>&1 \
		| .venv/bin/python -m fedrepro.workflow.progress logs/make-figures.log
	@cat results/lite/report/summary.txt

.PHONY: test
test: lint  ## Everything CI checks: style, types, all tests
	$(PYTEST) $(PARALLEL) tests

.PHONY: unit
unit: $(READY)  ## The fast tests only
	$(PYTEST) $(PARALLEL) tests/unit

.PHONY: floors
floors: envs/floors.lock  ## All tests with the oldest versions that pyproject.toml allows

.PHONY: newest
newest: build/newest.lock  ## All tests with the newest versions that it allows (needs uv)

floors newest:
	FEDREPRO_LOCK=$< bash envs/install.sh .venv-$@
	PATH="$(CURDIR)/.venv-$@/bin:$$PATH" OMP_NUM_THREADS=1 \
		pytest $(PARALLEL) --override-ini filterwarnings=default tests \
		--ignore tests/unit/test_packaging.py  # which holds what is installed against the lock

.PHONY: build/newest.lock
build/newest.lock:
	mkdir -p $(@D)
	$(LOCK) --extra test --upgrade --output-file $@

.PHONY: slurm
slurm: $(READY)  ## Add Snakemake's SLURM plugin to .venv, for profiles/slurm and its tests
	bash envs/install.sh .venv envs/slurm.lock

.PHONY: campaign
campaign: $(READY)  ## Many trials of kills, full disks, damaged and hostile files: docs/reliability.md
	$(PYTEST) tests/faults --campaign 12 --campaign-page docs/reliability.md

.PHONY: lint
lint: $(READY)  ## Style, spelling, types, schemas, workflow
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) codespell
	$(RUN) mypy --num-workers auto
	$(RUN) lint-imports --no-cache
	$(RUN) nbstripout --verify notebooks/*.ipynb
	$(RUN) check-jsonschema --check-metaschema config/schemas/*.json
	$(RUN) check-jsonschema --builtin-schema vendor.citation-file-format --force-filetype yaml CITATION.cff
	$(RUN) check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(RUN) zizmor --offline --quiet --persona pedantic .github
	$(RUN) hadolint Dockerfile
	$(RUN) snakefmt --check Snakefile workflow
	$(RUN) snakemake --lint

.PHONY: format
format: $(READY)  ## Rewrite the files in house style
	$(RUN) ruff check --fix .
	$(RUN) ruff format .
	$(RUN) nbstripout notebooks/*.ipynb
	$(RUN) snakefmt Snakefile workflow

.PHONY: release
release: $(READY)  ## Make verdicts, gallery and the numbers in the documents those of the records
	$(RUN) fedrepro check --scale lite --release
	$(RUN) fedrepro check --scale paper --release
	$(RUN) fedrepro figure selective fig3 --scale paper --out docs/gallery/selective_fig3
	$(RUN) fedrepro figure selective fig6 --scale paper --out docs/gallery/selective_fig6
	$(RUN) fedrepro figure selective fig7 --scale paper --out docs/gallery/selective_fig7
	$(RUN) fedrepro figure selective aliasing --scale paper --out docs/gallery/selective_aliasing
	$(RUN) fedrepro figure emd fig1a --scale lite --out docs/gallery/emd_fig1a
	$(RUN) fedrepro figure emd fig5a --scale lite --out docs/gallery/emd_fig5a
	$(RUN) fedrepro figure emd open_choices --scale lite --out docs/gallery/emd_open_choices
	$(RUN) fedrepro figure cadis as_run --scale lite --out docs/gallery/cadis_as_run
	$(RUN) fedrepro figure tricks curves --scale lite --out docs/gallery/tricks_curves
	$(RUN) fedrepro figure tricks longer --scale lite --out docs/gallery/tricks_longer
	$(RUN) fedrepro figure tricks curves --scale paper --partial --out docs/gallery/tricks_curves_paper
	$(RUN) fedrepro figure fedcd preference --scale lite --out docs/gallery/fedcd_preference
	$(RUN) fedrepro figure precision curves --scale paper --out docs/gallery/precision_curves
	rm -f docs/gallery/*.csv docs/gallery/*.svg
	$(RUN) fedrepro docs

.PHONY: site
site: $(READY)  ## Build the documentation as a site: results/site/index.html
	$(RUN) NO_MKDOCS_2_WARNING=1 mkdocs build --strict

.PHONY: licences
licences: $(READY)  ## List the licences of the locked packages in docs/dependencies.md
	$(RUN) pip-licenses --with-system --ignore-packages fedrepro pip --no-version \
	    --from=mixed --format=markdown --order=name > $(READY).licences
	sed -i '/^|/,$$d' docs/dependencies.md
	cat $(READY).licences >> docs/dependencies.md

COMPILE := uv pip compile pyproject.toml --python-version 3.11 --no-annotate \
    --no-emit-index-url --no-emit-find-links --quiet
LOCK := $(COMPILE) --universal --fork-strategy fewest --generate-hashes \
    --custom-compile-command "make lock"

.PHONY: lock
lock:  ## Make the locked versions in envs again from pyproject.toml (needs uv; see envs/README.md)
	$(LOCK) --extra dev --extra site --output-file envs/requirements.lock
	$(LOCK) --extra slurm --output-file envs/slurm.lock \
	    --constraint envs/requirements.lock \
	    $$(sed -n 's/^\([^ =]*\)==.*/--no-emit-package \1/p' envs/requirements.lock)
	$(LOCK) --extra test --resolution lowest-direct --output-file envs/floors.lock \
	    --constraint <(grep -f <(sed -n '/^test = /,/^]/s/^ *"\([a-z-]*\).*/^\1==/p' pyproject.toml) \
	        envs/requirements.lock | sed 's/ .*//')
	sed -i '/^      - /d' envs/fedrepro.yaml
	$(COMPILE) --no-header --python-platform x86_64-unknown-linux-gnu \
	    --constraint envs/requirements.lock | sed 's/^/      - /' >> envs/fedrepro.yaml

.PHONY: clean
clean:  ## Remove .venv, caches and builds; keeps data, records, checkpoints and results
	rm -rf .venv .venv-* build .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info

$(READY): envs/requirements.lock envs/install.sh pyproject.toml
	bash envs/install.sh .venv
	touch $(READY)
