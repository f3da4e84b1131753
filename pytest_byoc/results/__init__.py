"""The end of a session: the gate's judgement, reports and summary, also of shards joined by `merge`."""
