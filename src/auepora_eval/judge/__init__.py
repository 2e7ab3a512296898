"""Judging by a language model: critics, prompts, the session that calls critics, and parsing of replies.

* ``critic``: the interfaces of critics, their requests and judgements, and the judge policy; families of models
* ``session``: the session with cache and records, and the queue of calls to a critic
* ``limits``: concurrency limit, circuit breaker, budget, usage
* ``cache``: stored judgements, claims of calls, and recorded judgements
* ``openai``: the critic for OpenAI-compatible servers
* ``prompting``, ``prompts/``: prompt templates, and the built-in ones
* ``parse``: replies read as JSON that fits a schema
* ``panel``: several judges combined by a vote, and the weights of a stacked vote
* ``controls``: items whose verdict is known, mixed among the judged ones
* ``metric``: the base class of metrics that call a judge, and replay of stored judgements
* ``ratings``, ``support``, ``nli``, ``preference``: kinds of requests
* ``nugget_lists``, ``rubrics``: what an answer should contain, as annotated
* ``nuggets``: nuggets, generated and assigned by a judge
* ``preview``: an estimate of calls and cost
"""
