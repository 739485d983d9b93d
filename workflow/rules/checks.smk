# Verdicts. Input: records, plan, published values, code. Output: results/<scale>/checks/
# <paper>.json, one entry for each published number and claim.


rule check:
    """Verdicts on one paper."""
    input:
        unpack(check_input),
    output:
        "results/{scale}/checks/{paper}.json",
    log:
        "logs/{scale}/checks/{paper}.log",
    retries: 0
    localrule: True
    conda:
        "../../envs/fedrepro.yaml"
    params:
        python=PYTHON,
    shell:
        "{params.python} fedrepro.cli check --paper {wildcards.paper}"
        " --scale {wildcards.scale} --out {output:q} > {log:q} 2>&1"
