# Tables. Input: records, plan, published values, code. Output: results/<scale>/tables/<paper>/
# <table>.csv (one row a cell, all seeds and run ids) and .md (laid out as in the paper).


rule table:
    """One table."""
    input:
        unpack(table_input),
    output:
        csv=report(
            "results/{scale}/tables/{paper}/{table}.csv",
            caption="../report/table.rst",
            category="{paper}",
            subcategory="Tables",
            labels=labels,
        ),
        md="results/{scale}/tables/{paper}/{table}.md",
    log:
        "logs/{scale}/tables/{paper}/{table}.log",
    retries: 0
    localrule: True
    conda:
        "../../envs/fedrepro.yaml"
    params:
        python=PYTHON,
        stem=stem,
    shell:
        "{params.python} fedrepro.cli table {wildcards.paper} {wildcards.table:q}"
        " --scale {wildcards.scale} --out {params.stem:q} > {log:q} 2>&1"
