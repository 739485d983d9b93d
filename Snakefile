include: "workflow/Snakefile"


# A bare `snakemake` makes everything; an included file cannot say so itself.
rule default:
    default_target: True
    input:
        rules.all.input,
    localrule: True
