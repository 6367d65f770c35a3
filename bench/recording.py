"""What it costs to record every message: the rate with recording over the rate without (1 is: nothing).

Scenario A has the greatest rate, so rows that cover thousands of messages; scenario G has a row for each message.
"""

from _common import arguments, finish, interleaved, medians, ratio
from _lab import Lab, scenario


def main() -> None:
    chosen = arguments(__doc__ or "")
    seconds = 0.1 if chosen.smoke else 0.8 if chosen.quick else 2.0
    topic, queues = scenario("A", measure=seconds), scenario("G", measure=seconds)
    with Lab() as lab:
        lab.rate(scenario("A", measure=0.3))
        found = interleaved(
            {
                "A_with": lambda: lab.rate(topic),
                "A_without": lambda: lab.rate(topic, record=False),
                "G_with": lambda: lab.rate(queues),
                "G_without": lambda: lab.rate(queues, record=False),
            },
            chosen.rounds or (8 if chosen.quick else 20),
        )
    both = ratio(found["A_with"] + found["G_with"], found["A_without"] + found["G_without"])
    finish(
        recording=both,
        recording_A=ratio(found["A_with"], found["A_without"]),
        recording_G=ratio(found["G_with"], found["G_without"]),
        messages_per_second=medians(found),
    )


if __name__ == "__main__":
    main()
