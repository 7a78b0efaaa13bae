"""Diagnosis of a training: known signatures of trouble in the metrics of a run."""
