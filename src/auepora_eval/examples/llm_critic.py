"""A critic in twenty lines: call an OpenAI-compatible server and read a number from its reply.

``python -m auepora_eval.examples.llm_critic http://127.0.0.1:8080/v1 MODEL`` judges one answer with it. Copy it and use
your own model; ``judge.openai`` has a critic with schemas, repairs, usage and probabilities.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from typing import Any

from ..errors import JudgeError
from ..judge.critic import LLMCritic


class ServerCritic(LLMCritic):
    """Asks a chat model for a number. The API key, if the server needs one, is in ``$OPENAI_API_KEY``."""

    def __init__(self, base_url: str, model: str, *, timeout: float = 60.0) -> None:
        self.url, self.model, self.timeout = f"{base_url.rstrip('/')}/chat/completions", model, timeout
        self.name = f"server:{model}"  # what signatures show

    def score(self, *, prompt: str, metadata: dict[str, Any] | None = None) -> float:
        """The last number in the reply of the model. The caller refuses a number outside the scale."""
        body = {"model": self.model, "temperature": 0, "messages": [{"role": "user", "content": prompt}]}
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}",
        }
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)  # noqa: S310 -- the user's
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as reply:  # noqa: S310
                content = json.load(reply)["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as error:
            with error:  # closes the connection
                again = error.code == 429 or error.code >= 500
                raise JudgeError("server_error", f"HTTP {error.code}", retry=again) from error
        except (OSError, ValueError, LookupError) as error:
            raise JudgeError("unreachable", f"{type(error).__name__}: {error}", retry=True) from error
        numbers = re.findall(r"-?\d+(?:\.\d+)?", content or "")
        if not numbers:
            raise JudgeError("unparseable", "there is no number in the reply of the model", raw=content)
        return float(numbers[-1])


def main(base_url: str, model: str) -> None:
    """Judge one answer."""
    from ..core.registry import metric
    from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
    from ..engine.evaluate import evaluate

    sample = EvaluationSample("1", "What is the capital of France?")
    evidence = RetrievedDocument(Document("d", "Paris is the capital of France."), score=1.0, rank=1)
    output = SystemOutputs([evidence], Response("Paris, a city of nine million."))
    judged = [metric(name, critic=ServerCritic(base_url, model)) for name in ("llm_faithfulness", "llm_answer_quality")]
    print(evaluate([sample], [output], judged).to_markdown())  # noqa: T201 -- it is a program


if __name__ == "__main__":
    main(*sys.argv[1:])
