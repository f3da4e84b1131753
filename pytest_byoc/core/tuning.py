"""The kinds of TVM's tuning logs."""

from __future__ import annotations

#: The tuners that write them: two of Relay, one of Relax.
AUTOTVM, AUTO_SCHEDULER, META_SCHEDULE = "AutoTVM", "the auto-scheduler", "meta-schedule"
#: The files of a database of meta-schedule: workloads and records.
DATABASE = ("database_workload.json", "database_tuning_record.json")
