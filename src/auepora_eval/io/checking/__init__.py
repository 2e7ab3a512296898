"""Parts of validation: what is odd, what is there, and what it is good for."""
