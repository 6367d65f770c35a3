"""The counts of all runs in SQL: the second, independent way to what `run_source` and `large_runs` count in columns."""

from pyspark.sql import DataFrame, SparkSession

from mqlab.events.sources import EventSources
from mqlab.pipeline.counts.run_source import unite_counts
from mqlab.pipeline.event_tables import EventTables, read_message_events
from mqlab.pipeline.kernels.deliveries import segments
from mqlab.pipeline.kernels.delivery_classes import delivery_classes
from mqlab.pipeline.kernels.sequences import gaps, untiled
from mqlab.pipeline.tables.latency import confirmations, message_slots, response_slots, round_trips
from mqlab.pipeline.tables.operations import operation_counts
from mqlab.pipeline.tables.series import activity


def sql_counts(spark: SparkSession, sources: EventSources, events: EventTables, windows: DataFrame) -> DataFrame:
    messages = read_message_events(spark, sources, events.clocks)
    pieces = segments(messages.sends, messages.receipts, events.roles)
    return unite_counts({
        "activity": activity(messages.sends, messages.receipts, windows),
        "gaps": gaps(messages.sends, untiled(messages.sends)),
        "deliveries": delivery_classes(pieces, windows, events.clocks),
        "latency slots": message_slots(pieces, windows),
        "round trips": round_trips(messages.round_trips, windows),
        "response slots": response_slots(messages.round_trips, windows),
        "confirmations": confirmations(messages.sends, windows),
        "operation counts": operation_counts(messages.operations),
    })  # fmt: skip
