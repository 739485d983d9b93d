# The report. Input: tables, figures, verdicts and notebooks of the scale, and the records there are
# of the published scale, whose verdicts stand beside. Output: results/<scale>/report/index.html, the
# pages that it leads to, and summary.txt. The pages are no outputs: which there are depends on records,
# and of a `directory` Snakemake would remove all before it is known whether a new report succeeds.


rule report:
    """The report."""
    input:
        unpack(report_input),
    output:
        "results/{scale}/report/index.html",
        "results/{scale}/report/summary.txt",
    log:
        "logs/{scale}/report.log",
    retries: 0
    localrule: True
    conda:
        "../../envs/fedrepro.yaml"
    params:
        python=PYTHON,
        papers=PLAN.reported,
        folder=subpath(output[0], parent=True),
    shell:
        "{params.python} fedrepro.cli report {params.papers:q} --scale {wildcards.scale}"
        " --out {params.folder:q} > {log:q} 2>&1"
