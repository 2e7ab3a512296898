"""Labels by people: what they label, what they can choose, how samples are drawn, and which labels count.

* ``items``: items to label, read from the store
* ``choices``: what an annotator can choose
* ``draws``, ``pair_draws``: random draws of samples to label and of pairs to grade, and designs of comparisons
* ``sample_weights``: which labels a statistic may use, and the weight of each sample
* ``agreement``: which labels count, and agreement between annotators
* ``form``: the labelling form of one annotator, a client of the queue
* ``terminal_form``: the form in a terminal
* ``batch``, ``batch_plans``: what a batch of labels is; its plan, its files, and its commands
* ``batch_journal``, ``batch_items``, ``queue``: the labels and items of a batch, and the queue of its annotators
* ``names``: names and texts of annotators
"""
