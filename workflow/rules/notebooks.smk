# Notebooks. Input: the template notebooks/<paper>.ipynb, records, plan, published values, code.
# Output: results/<scale>/notebooks/<paper>.ipynb, executed, and .html without the code.
#
# Both are made in the folder of the log and moved from there. So the notebook with the error stays
# when a cell fails, and no half-written file looks finished. The notebook is no declared log, because
# Snakemake prints the logs of a failed job, and a notebook is long.


rule notebook:
    """A paper's notebook."""
    input:
        unpack(notebook_input),
    output:
        ipynb="results/{scale}/notebooks/{paper}.ipynb",
        html=report(
            "results/{scale}/notebooks/{paper}.html",
            caption="../report/notebook.rst",
            category="{paper}",
            subcategory="Notebooks",
            labels={"title": "notebook", "scale": "{scale}"},
        ),
    log:
        "logs/{scale}/notebooks/{paper}.log",
    retries: 0
    localrule: True
    conda:
        "../../envs/fedrepro.yaml"
    params:
        python=PYTHON,
        executed="logs/{scale}/notebooks/{paper}.ipynb",
        converted="logs/{scale}/notebooks/{paper}.html",
        runs=runs_folder,
    shell:
        "({params.python} papermill {input.template:q} {params.executed:q} -k python3"
        " --no-progress-bar -p scale {wildcards.scale} -p runs_folder {params.runs:q}"
        " || {{ echo 'The notebook with its error: {params.executed}'; exit 1; }} &&"
        " {params.python} nbconvert --to html --no-input {params.executed:q}"
        " --HTMLExporter.require_js_url= --HTMLExporter.mathjax_url= --HTMLExporter.jquery_url= &&"
        " mv {params.converted:q} {output.html:q} &&"
        " mv {params.executed:q} {output.ipynb:q}"
        ") > {log:q} 2>&1"
