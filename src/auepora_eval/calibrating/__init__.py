"""A judge held against people: where they agree, what its scores are worth, and what people would say of all answers.

=============  ================================================================================================
``measure``    ``calibrate``: one set of scores, or two, against labels
``drawn``      whether the labelled samples are a random draw, and what each stands for
``scored``     ``Scored``: the scores of a metric of a stored run, or of a file, by sample
``report``     ``CalibrationReport``: what came of it
``telling``    the report as text and as Markdown
=============  ================================================================================================
"""
