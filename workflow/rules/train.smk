# Training. Input: the data set. Output: results/runs/<run id>.json (results/own/runs at the scales
# quick and smoke, and for a plan of your own) for each run of the batch that has no record yet.
#
# One rule a batch, and none for recorded runs, so no recorded run can be trained again by accident:
# delete its record for that. A batch is named by the whole plan, not by what is pending, so that
# its name stays when the Snakefile is parsed again. Killed runs go on from their checkpoint.
#
# Every record is whole, and Snakemake must remove none: `update` is for those that come after it
# planned the job (of another process, or of the attempt before), `keep_records` for those of a job
# that fails. It then prints "Cannot restore ...: no backup found." for each new one; all is well.
#
# `exec`: SLURM stops a job with SIGTERM to every process. A shell would die of it at once, the job's
# Snakemake after it, and the training with them before it has written its checkpoints.
for batch in PLAN.batches:

    rule:
        """Train the runs of a batch that have no record."""
        name:
            f"train_{batch.name}"
        input:
            training_input(batch),
        output:
            [update(PLAN.record_of(run)) for run in batch.runs],
        log:
            f"logs/{PLAN.scale}/train/{batch.name}.log",
        benchmark:
            f"logs/{PLAN.scale}/train/{batch.name}.tsv"
        conda:
            "../../envs/fedrepro.yaml"
        threads: PLAN.config.threads
        resources:
            gpu=1 if PLAN.config.on_gpu else 0,
            runtime=batch.minutes,
        params:
            python=PYTHON,
            runs=batch.runs,
            scale=PLAN.scale,
            device=PLAN.config.device,
        shell:
            "exec {params.python} fedrepro.cli train {params.runs} --scale {params.scale}"
            " --device {params.device} --workers {threads} > {log:q} 2>&1"
