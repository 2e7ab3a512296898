"""The cut-offs a paper reports, and the effective K of short rankings."""

from ..engine.cut_offs import ALL, OPTIONAL_K, PRIMARY_K, CutOff, compute_k_eff, cut_of

__all__ = ["ALL", "OPTIONAL_K", "PRIMARY_K", "CutOff", "compute_k_eff", "cut_of"]
