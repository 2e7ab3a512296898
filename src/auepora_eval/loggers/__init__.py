"""Logging of results to experiment trackers: MLflow, Weights & Biases.

names            metric names that trackers accept: ``recall@5`` is ``recall_at_5``
entries          the logged entries: numbers, parameters, signatures
mlflow_logger    ``log_to_mlflow``
wandb_logger     ``log_to_wandb``
"""

from .mlflow_logger import log_to_mlflow
from .names import legal_name
from .wandb_logger import log_to_wandb

__all__ = ["legal_name", "log_to_mlflow", "log_to_wandb"]
