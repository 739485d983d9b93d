# Partitions. partition: data set -> results/<scale>/partitions/<paper>/<partition>.npz, the index
# lists of the clients, checked against the digests in records. partition_overview: records ->
# overview.{csv,svg,png}, class counts and EMD of every client; no data.


rule partition:
    """The clients' index lists of one partition."""
    input:
        partition_input,
    output:
        "results/{scale}/partitions/{paper}/{partition}.npz",
    log:
        "logs/{scale}/partitions/{paper}/{partition}.log",
    retries: 0
    localrule: True
    conda:
        "../../envs/fedrepro.yaml"
    params:
        python=PYTHON,
    shell:
        "{params.python} fedrepro.cli partition {wildcards.paper} {wildcards.partition:q}"
        " --scale {wildcards.scale} --out {output:q} > {log:q} 2>&1"


rule partition_overview:
    """What the clients of a paper hold."""
    input:
        unpack(overview_input),
    output:
        csv="results/{scale}/partitions/{paper}/overview.csv",
        svg=report(
            "results/{scale}/partitions/{paper}/overview.svg",
            caption="../report/partitions.rst",
            category="{paper}",
            subcategory="Partitions",
            labels={"title": "who holds which classes", "scale": "{scale}"},
        ),
        png="results/{scale}/partitions/{paper}/overview.png",
    log:
        "logs/{scale}/partitions/{paper}/overview.log",
    retries: 0
    localrule: True
    conda:
        "../../envs/fedrepro.yaml"
    params:
        python=PYTHON,
        stem=stem,
    shell:
        "{params.python} fedrepro.cli partitions {wildcards.paper} --scale {wildcards.scale}"
        " --out {params.stem:q} > {log:q} 2>&1"
