# The plan of this call, and what it says each artefact is made of. No rules here.
#
# PLAN is made once, when the Snakefile is parsed: it reads the configuration and the plans and
# looks up which runs have a valid record. The functions below answer for it; a name that does not
# exist ends in one message that says which names do.
import os
import re
import sys
from pathlib import Path

from snakemake.logging import logger
from snakemake.settings.types import DeploymentMethod

CURE = (
    f"call Snakemake from {ROOT}/.venv/bin, which `make figures` installs (after `make clean`, if "
    "the clone was copied or moved)."
)
try:
    import fedrepro
    from fedrepro.base.configfile import NAME
    from fedrepro.base.errors import FedreproError
    from fedrepro.runs.command import told
    from fedrepro.workflow.dag import MADE, Workflow
except ImportError as error:
    raise WorkflowError(f"{error}: {CURE}") from None

# The package is that of this clone, or records would name a commit that did not make them.
if not Path(fedrepro.__file__).resolve().is_relative_to(ROOT.resolve()):
    raise WorkflowError(
        f"This Snakefile is in {ROOT}, but its Python has fedrepro from {fedrepro.__file__}: {CURE}"
    )

# Jobs use the plans and the code of this clone, wherever they run. A workflow that has this one as a
# module has jobs of its own, so neither `shell.prefix` nor PATH is set. Snakemake removes PYTHONPATH
# inside a conda environment, and brings the Python that its jobs use. Without conda that is the one
# which runs Snakemake; no shell text has its name, or another name would make everything again.
CONDA = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
os.environ["FEDREPRO_ROOT"] = str(ROOT)
os.environ["FEDREPRO_PYTHON"] = "python3" if CONDA else sys.executable
os.environ.setdefault("FEDREPRO_PLANS", "")
os.environ.setdefault("FEDREPRO_DATA", "")


envvars:
    "FEDREPRO_ROOT",
    "FEDREPRO_PYTHON",
    "FEDREPRO_PLANS",
    "FEDREPRO_DATA",


PYTHON = 'env PYTHONPATH="$FEDREPRO_ROOT/src${PYTHONPATH:+:$PYTHONPATH}" "$FEDREPRO_PYTHON" -m'

# A job that fails keeps the records it has made (`keep_records`), which Snakemake cannot do for single
# rules. In a module, where it would keep the broken files of others, each run has a job of its own.
IS_MODULE = not workflow.modifier.is_main_snakefile()
if IS_MODULE:
    config = {**config, "runs_per_batch": 1}

try:
    PLAN = Workflow(config, every_batch=not workflow.is_main_process)
except FedreproError as error:
    raise WorkflowError(str(error)) from None
except OSError as error:  # of a plan in a folder that may not be read, say
    raise WorkflowError(told(error)) from None

# No rule says so, for the place of the data decides nothing.
if PLAN.config.data_root:
    os.environ["FEDREPRO_DATA"] = PLAN.config.data_root


def with_more(record):
    # Adds to messages of Snakemake what the plan knows. Its table of jobs, the first message that knows
    # them, gets what training costs. A record that nothing makes gets the reason: a rule that gives it,
    # as for other names, would be one of all recorded runs.
    if hasattr(record, "stats"):
        record.msg = "\n".join([record.msg, *costs(record.stats)])
    elif str(record.msg).startswith("Nothing to be done"):
        record.msg = "\n".join(filter(None, [record.msg, PLAN.stale()]))
    elif getattr(record, "exception", None) == "MissingRuleException":
        record.msg = "\n".join([record.msg, *why_no_rule(record.msg)])
    return True


def why_no_rule(text):
    if run := re.search(r"runs/([0-9a-f]{12})[.]json ", text):
        try:
            PLAN.no_run(run[1])
        except FedreproError as error:
            yield str(error)


def costs(jobs):
    training = PLAN.trained(jobs)
    if training:
        yield PLAN.cost(training) + "\n"
    if (
        len(training) > 1
        and PLAN.config.on_gpu
        and "gpu" not in workflow.global_resources
    ):
        yield "Several of them may share a GPU: add `--resources gpu=1` for one at a time.\n"


if workflow.is_main_process:
    logger.info(PLAN.summary)
    logger.addFilter(with_more)


def pending(papers, kind=None):
    # The records that a target needs and that are not there yet.
    def records(wildcards):
        return PLAN.pending(papers, kind)

    return records


def pending_of_reported(wildcards):
    return PLAN.pending_of_reported()


def no_target(wildcards):
    known = [rule.name for rule in workflow.rules if rule.name.startswith("all")]
    PLAN.no_target(f"all_{wildcards.unknown}", known)


def no_file(wildcards):
    PLAN.no_file(wildcards.scale, wildcards.unknown_file)


def no_run(wildcards):
    PLAN.no_run(wildcards.unknown_run)


def training_input(batch):
    def data(wildcards):
        keep_records()
        return PLAN.data_of(batch)

    return data


def keep_records():
    # What --keep-incomplete does, whatever profile there is; there are no settings for --dag.
    if workflow.execution_settings and not IS_MODULE:
        workflow.execution_settings.keep_incomplete = True


def found(wildcards):
    return PLAN.found(wildcards.dataset)


def table_input(wildcards):
    return PLAN.of_table(wildcards.scale, wildcards.paper, wildcards.table)


def figure_input(wildcards):
    return PLAN.of_figure(wildcards.scale, wildcards.paper, wildcards.figure)


def check_input(wildcards):
    return PLAN.of_check(wildcards.scale, wildcards.paper)


def report_input(wildcards):
    return PLAN.of_report(wildcards.scale)


def notebook_input(wildcards):
    return PLAN.of_notebook(wildcards.scale, wildcards.paper)


def runs_folder(wildcards):
    return PLAN.runs_folder(wildcards.paper)


def overview_input(wildcards):
    return PLAN.of_overview(wildcards.scale, wildcards.paper)


def indices_input(wildcards):
    return PLAN.indices(PLAN.papers)


def partition_input(wildcards):
    dataset = PLAN.dataset_of(wildcards.scale, wildcards.paper, wildcards.partition)
    return PLAN.ready(dataset)


def labels(wildcards):
    # Of a table or figure, in the report that Snakemake itself makes.
    name = wildcards.get("table") or wildcards.get("figure")
    return PLAN.labels(wildcards.scale, wildcards.paper, name)


def stem(wildcards, output):
    return str(Path(output[0]).with_suffix(""))


def content_option(wildcards):
    content = PLAN.content_of(wildcards.dataset)
    return ["--content", content] if content else []
