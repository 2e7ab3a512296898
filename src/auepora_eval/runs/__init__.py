"""Running plans: call the system, store its outputs, score them; resume and rescore.

* ``run``: ``run_plan``, ``run_system``, ``resume_run``
* ``outcome``: how a run ended, with its results and gates
* ``scoring``: scores from stored outputs, ``score_run``; ``rescore``; what judged coverage and corrected gold add
* ``job``: what ``score_run`` reads, evaluates and stores; the base of its steps; how gold is matched
* ``coverage``: the proportion of retrieved documents that are judged
* ``partial_scores``: scores of runs that are judged in parts, and executors that have or skip scores
* ``sequential``: judging that stops when a comparison or a threshold is decided
* ``verify``: stored results recomputed from stored outputs and judgements
* ``judging``: judge sessions whose judgements are stored with the run; preference
* ``preview``: estimates of judge calls and cost before a judge is called
* ``two_stage``: cheap scores of all samples, an expensive judge on a draw of them
* ``trial``: a few samples judged before a run, with prompts and replies
* ``perturbed``: a run at each rate of a perturbation
* ``diagnose``: a run with each set of documents: none, gold, retrieved, mixed, one at a time
* ``replay``: the generator of one run on the documents of another
* ``pilot``: the size of a comparison, from a pilot run
"""
