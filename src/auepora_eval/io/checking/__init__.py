"""Parts of validation: problems and warnings, counts of fields, supported targets."""
