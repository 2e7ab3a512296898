"""Running plans: call the system, store its outputs, score them; resume and rescore.

* ``run``: ``run_plan``, ``run_system``, ``resume_run``
* ``outcome``: how a run ended, with its results and gates
* ``commit``: the git commit that is stored with a run
* ``scoring``: scores from stored outputs, ``score_run``; ``rescore``
* ``job``: what ``score_run`` reads, evaluates and stores
* ``steps``: what judged coverage, early stopping, two-stage judging and corrected gold add to it
* ``coverage``: the proportion of retrieved documents that are judged
* ``partial_scores``: scores of runs that are judged in parts, and executors that have or skip scores
* ``sequential``: judging that stops when a comparison or a threshold is decided
* ``verify``: stored results recomputed from stored outputs and judgements
* ``judging``: judge sessions whose judgements are stored with the run; estimates of judge calls; preference
* ``two_stage``: cheap scores of all samples, an expensive judge on a draw of them
* ``trial``: a few samples judged before a run, with prompts and replies
* ``perturbed``: a run at each rate of a perturbation
* ``diagnose``: a run with each set of documents: none, gold, retrieved, mixed, one at a time
* ``replay``: the generator of one run on the documents of another
* ``pilot``: the size of a comparison, from a pilot run
"""
