# Figures. Input: records, plan, published values, code. Output: results/<scale>/figures/<paper>/
# <figure>.svg and .png, and the plotted data as .csv.


rule figure:
    """One figure."""
    input:
        unpack(figure_input),
    output:
        svg=report(
            "results/{scale}/figures/{paper}/{figure}.svg",
            caption="../report/figure.rst",
            category="{paper}",
            subcategory="Figures",
            labels=labels,
        ),
        png="results/{scale}/figures/{paper}/{figure}.png",
        csv="results/{scale}/figures/{paper}/{figure}.csv",
    log:
        "logs/{scale}/figures/{paper}/{figure}.log",
    retries: 0
    localrule: True
    conda:
        "../../envs/fedrepro.yaml"
    params:
        python=PYTHON,
        stem=stem,
    shell:
        "{params.python} fedrepro.cli figure {wildcards.paper} {wildcards.figure:q}"
        " --scale {wildcards.scale} --out {params.stem:q} > {log:q} 2>&1"
