"""Diagnosis of a training: known signatures of trouble in the metrics of a run.

Each file has one thing:

- `values`, `facts`: a diagnosis and its findings; what is known of a run at a moment, and an alarm.
- `table`, `signatures`, `machine`, `symptoms`: the one table of signatures, and its rows: those of
  the metrics, those of the machine and its programs, and the log lines that some of them show.
- `signals`, `observed`, `series`, `likelihood`: the names of numbers, a run by what they measure,
  the statistics of a series, and how likely a finding is. `observed` and `series` alone need numpy.
- `diagnose`, `live`, `alarms`, `stop`, `spent`: all signatures asked once, asked while a run goes
  on, what of it is an alarm now, what ends a run, and what a trouble has cost.
"""
