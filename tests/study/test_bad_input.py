"""Every way to write a study wrongly gets one sentence: the file, the line, the place, and what is accepted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.study import StudyError, load_study

Write = Callable[..., Path]

# Line 4 holds the scenario, line 5 what a case adds.
HEAD = "study: mine\ntitle: Mine\nscenarios:\n  A: {topics: 1, producers: 1, consumers: 1, message: {size: 12B}}\n"
MANY = list(range(1, 102))


def asking(parameters: str) -> str:
    return HEAD + f"  B: {{pattern: request-reply, message: {{size: 24B}}, {parameters}}}\n"


def sweeping(rest: str) -> str:
    """Scenario B of four points on line 5; what a case adds begins on line 6."""
    swept = "message: {size: [12B, 1KiB]}, settings: {trace: [off, low]}"
    return HEAD + f"  B: {{queues: 1, producers: 1, consumers: 1, {swept}}}\n{rest}"


def scenario(parameters: str) -> str:
    return HEAD + f"  B: {{topics: 1, producers: 1, consumers: 1, message: {{size: 12B}}, {parameters}}}\n"


def faulty(faults: str, rate: str = "100/s", send: str = "confirmed", more: str = "") -> str:
    return scenario(f"{more}rate: {rate}, send: {send}, faults: {faults}")


CASES = [
    # the file as a whole
    ("- a\n- b\n", 1, "write keys (study, title, source"),
    ("title: Mine\nscenarios: {}\n", 1, "study is missing"),
    ("study: mine\ntitle: Mine\n", 1, "scenarios is missing"),
    ("study: mine\ntitle: Mine\nscenarios: {}\n", 3, "scenarios: is empty; write at least one scenario"),
    ("study: mine\ntitle: Mine\nscenarios:\n  - A\n", 3, "scenarios: write names, and what belongs to each"),
    ("study: My Study\ntitle: Mine\nscenarios: {}\n", 1, "study: 'My Study' is not an id; write lower-case letters"),
    ("study: mine\ntitle:\nscenarios: {}\n", 2, "title: is empty; write a text"),
    ('study: mine\ntitle: "a \\e[31m"\nscenarios: {}\n', 2, "title: contains characters that cannot be printed"),
    ("study: mine\ntitel: Mine\nscenarios: {}\n", 2,
     "titel: unknown key; did you mean 'title'? accepted: study, title"),
    # unknown keys, at every depth
    (scenario("consumer: 3"), 5, "scenarios.B.consumer: unknown key; did you mean 'consumers'?"),
    (scenario("session: {transactions: 3}"), 5,
     "scenarios.B.session.transactions: unknown key; did you mean 'transaction'?"),
    (HEAD + "defaults:\n  mesage: {size: 1KiB}\n", 6, "defaults.mesage: unknown key; did you mean 'message'?"),
    (HEAD + "scales:\n  fast: {}\n", 6, "scales.fast: unknown key; accepted: quick, standard"),
    (HEAD + "scales:\n  full: {}\n", 6, "scales.full: full is the study's own length; write it under defaults"),
    (HEAD + "scales:\n  quick:\n    title: x\n", 7, "scales.quick.title: unknown key; accepted: pattern"),
    # values
    (scenario("message: {size: 12 apples}").replace("message: {size: 12B}, ", ""), 5,
     "scenarios.B.message.size: '12 apples' is not a size; write 12B, 1KiB or 10MB"),
    (HEAD + "defaults:\n  message:\n    size: 11B\n", 7,
     "defaults.message.size: '11B' is too small; a body has at least 12B"),
    (HEAD + "defaults: {message: {size: 1GB}}\n", 5, "'1GB' is too large; a body has at most 8MiB"),
    (scenario("phases: {measure: 30}"), 5,
     "scenarios.B.phases.measure: '30' is not a time; write 300ms, 2s, 5min or 1h"),
    (scenario("phases: {measure: 0s}"), 5, "scenarios.B.phases.measure: '0s' measures nothing"),
    # rates that change
    (scenario("rate: 5/s for"), 5, "scenarios.B.rate: '5/s for' is not a rate; write 100/s for 5s then 1k/s"),
    (scenario("rate: 5/s then 6/s"), 5, "scenarios.B.rate: '5/s' has no end, and another rate follows"),
    (scenario("rate: 5/s for 0s then 6/s"), 5, "scenarios.B.rate: '5/s for 0s' takes no time"),
    (scenario("rate: 5/s to fast over 2s"), 5, "scenarios.B.rate: 'fast' is not a rate"),
    (scenario("rate: 5/s with 9/s for 2s every 2s"), 5, "a burst of 2s does not fit into 2s; write a shorter one"),
    (scenario("rate: 5/s, think: 10ms"), 5, "a schedule says when messages are sent; leave out think: 10ms"),
    (scenario("think: long"), 5, "scenarios.B.think: 'long' is not a time"),
    # faults
    (faulty("burn at 1s"), 5, "scenarios.B.faults: 'burn' is not a kind of fault; accepted: kill"),
    (faulty("kill at 1s", rate="max"), 5, "faults need a load that goes on while the system does not answer"),
    (faulty("kill at 1s", send="free"), 5, "after a fault, producers send again what was not confirmed"),
    (faulty("kill at 1s", more="topology: bindings, "), 5, "faults need a system in a process of its own"),
    (faulty("kill at 1s", more="load: send, "), 5, "faults need pattern: one-way and load: both for a time"),
    (faulty("stop at 29s for 2s"), 5, "'stop at 29s for 2s' does not end within the measure phase of 30s"),
    (faulty("kill at 1s and stop at 2s for 1s and cut at 2500ms for 1s"), 5, "begins a fault while another one lasts"),
    (scenario("phases: {warmup: 9000h}"), 5, "scenarios.B.phases.warmup: '9000h' is longer than a year"),
    (scenario("rate: 5k"), 5, "scenarios.B.rate: '5k' is not a rate; write 100/s, 5k/s, 1.5M/s or max"),
    (scenario("send: wait"), 5, "scenarios.B.send: 'wait' is not accepted; write confirmed or free"),
    (scenario("connections: one"), 5, "scenarios.B.connections: 'one' is not accepted; write each or shared"),
    (scenario("session: {acknowledge: none}"), 5,
     "scenarios.B.session.acknowledge: 'none' is not accepted; write auto or dups_ok or client"),
    (scenario("session: {transaction: 0}"), 5, "'0' is not a whole number from 1 to 1000000, or none"),
    (scenario("batch: all"), 5, "scenarios.B.batch: 'all' is not a whole number from 1 to 1000000, or auto"),
    (HEAD + "defaults: {message: {persistent: 1}}\n", 5,
     "defaults.message.persistent: '1' is not accepted; write yes or no"),
    (HEAD + "defaults: {producers: 1.5}\n", 5, "defaults.producers: '1.5' is not a whole number from 1 to 10000"),
    (HEAD + "defaults: {consumers: -1}\n", 5, "defaults.consumers: '-1' is not a whole number from 0 to 10000"),
    (
        HEAD + "defaults: {message: 12B}\n",
        5,
        "defaults.message: write keys (size, body, properties, priority, expires, key, seed, persistent)",
    ),
    (HEAD + "defaults: {message: [{size: 12B}]}\n", 5, "seed, persistent), not a list"),
    (HEAD + "defaults: {rate: {a: 1}}\n", 5, "defaults.rate: write a rate like 5k/s, or max, not keys"),
    (scenario("repeat: {until: 3%}"), 5,
     "scenarios.B.repeat.until: '3%' is not a repetition rule; write interval(rate) < 3%"),
    (scenario("repeat: {most: 0}"), 5, "scenarios.B.repeat.most: '0' is not a whole number from 1 to 1000"),
    (scenario("title: " + "x" * 2001), 5, "scenarios.B.title: is longer than 2000 characters"),
    # sweeps
    (HEAD + "defaults:\n  rate:\n    - 1k/s\n    - fast\n", 8, "defaults.rate.2: 'fast' is not a rate"),
    (scenario("rate: []"), 5, "scenarios.B.rate: is an empty list; write at least one value"),
    (scenario("batch: [1, 1]"), 5, "scenarios.B.batch: contains a value twice"),
    (scenario("repeat: {most: [1, 2]}"), 5, "scenarios.B.repeat.most: write a whole number, not a list"),
    (scenario("rate: [[1k/s]]"), 5, "scenarios.B.rate.1: write a rate like 5k/s, or max, not a list"),
    (HEAD + f"  B: {{topics: 1, producers: {MANY}, consumers: {MANY}, message: {{size: 12B}}}}\n", 5,
     "scenarios.B: its lists give 10201 points; at most 10000 are accepted"),
    # values that do not fit together
    (HEAD + "  B: {topics: 1, queues: 1}\n", 5, "scenarios.B: has topics and queues; write only one of them"),
    (HEAD + "  B: {producers: 1, consumers: 1, message: {size: 12B}}\n", 5,
     "scenarios.B: no destination; write topics: 1"),
    (HEAD + "  B:\n    topics: 1\n    producers: 1\n", 5, "scenarios.B: consumers is missing here and in defaults"),
    (HEAD + "  B: {topics: 1, producers: 1, consumers: 1}\n", 5,
     "scenarios.B: message.size is missing here and in defaults"),
    (HEAD + "  B: {queues: 4, producers: 2, consumers: 4, message: {size: 12B}}\n", 5,
     "scenarios.B: 4 queues need at least as many producers, not 2"),
    (scenario("batch: [10, 1000000]"), 5,
     "scenarios.B: batch=1000000: 1000000 messages of 12B are too large for a batch; at most 8MiB are accepted"),
    (scenario("repeat: {least: 6}"), 5, "scenarios.B: repeat.least (6) is above repeat.most (5)"),
    (HEAD + "scales: {quick: {repeat: {least: 9}}}\n", 4, "scenarios.A: at scale quick: repeat.least (9) is above"),
    # requests and replies
    (asking("queues: 1, requesters: 1, responders: 1, producers: 1"), 5,
     "scenarios.B: producers do not belong to pattern: request-reply; write requesters and responders"),
    (scenario("requesters: 2"), 5,
     "scenarios.B: requesters do not belong to pattern: one-way; write producers and consumers"),
    (scenario("threads: 2"), 5, "scenarios.B: threads do not belong to pattern: one-way"),
    (asking("topics: 1, requesters: 1, responders: 1"), 5, "scenarios.B: requests and replies go through queues"),
    (asking("queues: 1, responders: 1"), 5, "requesters is missing here and in defaults; write requesters: 10"),
    (asking("queues: 1, requesters: 1"), 5, "scenarios.B: responders is missing here and in defaults"),
    (asking("queues: 1, requesters: 4, clients: 2, responders: 1"), 5,
     "scenarios.B: has requesters and clients or threads; clients x threads are the requesters"),
    (asking("queues: 2, requesters: 1, responders: 2"), 5, "2 queues need at least as many requesters, not 1"),
    (asking("queues: 1, clients: 1000, threads: 1000, responders: 1"), 5,
     "clients x threads are 1000000 requesters; at most 10000 are accepted"),
    (asking("queues: 1, requesters: 1, responders: 1, batch: 2"), 5,
     "so a batch of 2 is not possible; leave batch out"),
    (asking("queues: 1, requesters: 1, responders: 1").replace("24B", "23B"), 5,
     "scenarios.B: a reply carries the id of its request, so a body has at least 24B here"),
    (asking("queues: 1, requesters: 1, responders: 1, load: send"), 5,
     "load does not belong to pattern: request-reply; leave it out"),
    (scenario("pattern: [one-way, request-reply]"), 5,
     "the two patterns have different roles; write a scenario for each"),
    (scenario("pattern: ask"), 5, "scenarios.B.pattern: 'ask' is not accepted; write one-way or request-reply"),
    # work, and who does it
    (scenario("messages: 100, phases: {warmup: 1s}"), 5,
     "scenarios.B.phases.warmup: a fixed amount of work (messages) has no warmup phase"),
    (scenario("messages: 100, phases: {measure: 1s}"), 5, "scenarios.B.phases.measure: a fixed amount of work"),
    (scenario("messages: 0"), 5, "scenarios.B.messages: '0' is not a whole number from 1"),
    (scenario("load: receive"), 5, "load: receive reads messages sent before, which a topic keeps for durable"),
    (scenario("load: receive, durable: yes"), 5, "load: receive needs a number of messages to send before"),
    (scenario("load: all"), 5, "scenarios.B.load: 'all' is not accepted; write both or send or receive"),
    (HEAD + "  B: {topics: 1, producers: 1, consumers: 0, message: {size: 12B}}\n", 5,
     "scenarios.B: consumers: 0 is accepted with load: send only"),
    (HEAD + "  B: {queues: 1, producers: 1, consumers: 1, message: {size: 12B}, durable: yes}\n", 5,
     "scenarios.B: durable is for subscriptions to topics, and this scenario uses queues"),
    (scenario('selector: "a = \\e[2J"'), 5, "scenarios.B.selector: a selector is a condition on one line"),
    (scenario(f"selector: a = '{'x' * 500}'"), 5, "a selector has at most 500 characters, this one 506"),
    (scenario("preload: 5"), 5, "the consumers would receive the preloaded messages; give them a selector"),
    (scenario("client_cpu: 75"), 5, "scenarios.B.client_cpu: '75' is not a share"),
    (scenario("client_cpu: 0%"), 5, "scenarios.B.client_cpu: '0%' leaves no CPU for the clients"),
    (scenario("topology: local"), 5, "'local' is not accepted; write client or bindings or distributed"),
    (scenario("consume_rate: fast"), 5, "scenarios.B.consume_rate: 'fast' is not a rate"),
    # settings of the system
    (scenario("settings: {Queue-Limit: 1MB}"), 5,
     "'Queue-Limit' is not a name; write lower-case letters, digits and _"),
    (scenario("settings: {size: 1}"), 5,
     "settings.size: size is a parameter of the study, so a setting cannot have this name"),
    (scenario('settings: {a: "1, 2"}'), 5, "scenarios.B.settings.a: '1, 2' is not a value; write up to 200 characters"),
    (scenario("settings: {a: [x, x]}"), 5, "scenarios.B.settings.a: contains a value twice"),
    # sweeps in step, and bases
    (scenario("rate: [1/s, max], together: [[rate, batch]]"), 5, "together: 'batch' is not a list in this scenario"),
    (scenario("rate: [1/s, max], batch: [1, 2, 3], together: [[rate, batch]]"), 5,
     "lists that go together must have the same number of values, not rate 2, batch 3"),
    (scenario("rate: [max, max], batch: [1, 1], together: [[rate, batch]]"), 5,
     "the point batch=1, rate=max occurs twice"),
    (scenario("rate: [1/s, max], base: {batch: 1}"), 5, "base: batch is not swept here; swept: rate"),
    (scenario("rate: [1/s, max], base: {rate: 2/s}"), 5,
     "base: there is no point rate=2/s to compare rate=1/s with"),
    (scenario("rate: [1/s, max], base: {rate: 1/s}") + "scales: {quick: {scenarios: {B: {rate: [max]}}}}\n", 5,
     "scenarios.B: at scale quick: base: there is no point rate=1/s"),
    (HEAD + "scales:\n  quick:\n    scenarios:\n      C: {rate: max}\n", 8,
     "scales.quick.scenarios.C: there is no such scenario; accepted: A"),
    # what stands for what
    (HEAD + "systems: {Queue 1: []}\nstand_ins: {Quue 1: embedded}\n", 6,
     "stand_ins.Quue 1: is not among the study's systems; did you mean 'Queue 1'?"),
    (HEAD + "systems: {Queue 1: []}\nsuccessors: {Quue 1: [q]}\n", 6,
     "successors.Quue 1: is not among the study's systems; did you mean 'Queue 1'?"),
    (HEAD + "prose:\n  - {table: T}\n", 6, "prose.1: write either claim (the id of a claim) or reason"),
    (HEAD + "claims: [{id: a, says: b, source: c, not_testable: d}]\nprose:\n  - {table: T, claim: b}\n", 7,
     "prose.1.claim: there is no claim 'b'; accepted: a"),
    # exhibits of chosen points
    (sweeping("exhibits:\n  - {table: T, by: [size], columns: []}\n").replace("columns: []", "columns: [{as: x}]"), 7,
     "exhibits.1.columns.1: write one of value, ratio, faster, impact, peak with its metric"),
    (sweeping("exhibits:\n  - {table: T, by: [size], columns: [{peak: rate.sent}]}\n"), 7,
     "exhibits.1.columns.1: a peak is the maximum over swept parameters; name them"),
    (sweeping("exhibits:\n  - {table: T, by: [size], columns: [{value: rate.sent, over: [size]}]}\n"), 7,
     "exhibits.1.columns.1.over: over belongs to peak, ratio and faster"),
    (sweeping("exhibits:\n  - {table: T, by: [sizes], columns: [{value: rate.sent}]}\n"), 7,
     "exhibits.1: there is no parameter 'sizes'; did you mean 'size'?"),
    (sweeping("exhibits:\n  - {table: T, of: [C], by: [size], columns: [{value: rate.sent}]}\n"), 7,
     "exhibits.1.of: there is no scenario 'C'; accepted: A, B"),
    (sweeping("exhibits:\n  - {series: T, where: {size: 2KiB}}\n"), 7,
     "exhibits.1.where.size: no point has size=2KiB; did you mean '1KiB'?"),
    (sweeping(
        "exhibits:\n  - {lines: T, where: {size: 12B}, x: trace, values: [{peak: rate.sent, over: [size]}]}\n"), 7,
     "exhibits.1.where.size: a peak is over all values of size; take it out of over or of where"),
    (sweeping("exhibits:\n  - {lines: T, x: size, values: [rate.sent, rate.sent, rate.sent]}\n"), 7,
     "exhibits.1.values: a chart has one or two values"),
    (sweeping("exhibits:\n  - {lines: T, x: size, values: [rate.snet]}\n"), 7, "'rate.snet' is not a metric"),
    # exhibits
    (HEAD + "exhibits:\n  - {chart: Rates}\n", 6, "exhibits.1: is not an exhibit; write one of matrix, bars, table"),
    (HEAD + "exhibits:\n  - {summary: S}\n  - {matrix: M, rows: system, columns: scenario, value: rate.recieved}\n", 7,
     "exhibits.2.value: 'rate.recieved' is not a metric; did you mean 'rate.received'?"),
    (HEAD + "exhibits:\n  - {matrix: M, rows: system, columns: system, value: syncs}\n", 6,
     "rows and columns are the same"),
    (HEAD + "exhibits:\n  - {matrix: M, rows: time, columns: system, value: syncs}\n", 6,
     "exhibits.1.rows: 'time' is not accepted; write system or scenario"),
    (HEAD + "exhibits:\n  - {bars: Rates, each: scenario, of: system, value: syncs}\n", 6, "put {scenario} into it"),
    (HEAD + "exhibits:\n  - {bars: 'S {scenario}', each: scenario, bar: system, value: syncs}\n", 6,
     "exhibits.1.bar: unknown key; did you mean 'bars'?"),
    (HEAD + "exhibits:\n  - {diagram: 'S {scenario}'}\n", 6, "exhibits.1: each is missing"),
    # claims
    (HEAD + "claims:\n  - {id: a, says: b, source: c}\n", 6,
     "claims.1: write either check (an expression) or not_testable"),
    (HEAD + "claims:\n  - id: a\n    says: b\n    source: c\n    check: rate.received[Z] > 1\n", 9,
     "claims.1.check: there is no scenario 'Z'; accepted: A"),
    (HEAD + "claims:\n  - {id: a, says: b, source: c, check: rate.received > 1}\n", 6,
     "claims.1.check: rate.received is not"),
    (HEAD + "claims:\n  - {id: a, says: b, source: c, check: 'rate.received[A, \"size=1B\"] > 1'}\n", 6,
     "claims.1.check: scenario A has no point 'size=1B'"),
    (scenario("rate: [1/s, max]") + "claims:\n  - {id: a, says: b, source: c, check: 'rate.sent[B] > 1'}\n", 7,
     'claims.1.check: scenario B has 2 points; name one, like rate.sent[B, "rate=1/s"]'),
    (sweeping("claims:\n  - {id: a, says: b, source: c, check: 'rate.sent[B, size=12B] > 1'}\n"), 7,
     "claims.1.check: B size=12B matches 2 points, which differ in trace; name that too"),
    (sweeping("claims:\n  - {id: a, says: b, source: c, check: 'max(rate.sent[B, size=*]) > 1'}\n"), 7,
     "claims.1.check: B size=12B matches 2 points, which differ in trace"),
    (sweeping("claims:\n  - {id: a, says: b, source: c, check: 'rate.sent[B, sizes=12B] > 1'}\n"), 7,
     "claims.1.check: scenario B has no parameter 'sizes'; did you mean 'size'?"),
    (sweeping("claims:\n  - {id: a, says: b, source: c, check: 'rate.sent[B, size=2KiB, trace=off] > 1'}\n"), 7,
     "claims.1.check: scenario B has no point with size=2KiB; did you mean '1KiB'?"),
    (sweeping("claims:\n  - {id: a, says: b, source: c, check: 'max(rate.sent[\"C*\"]) > 1'}\n"), 7,
     "claims.1.check: there is no scenario 'C*'; accepted: A, B"),
    (HEAD + "claims:\n  - {id: a, says: b, source: c, check: 'rate.sent[A] of \"Q\" > 1'}\n", 6,
     "claims.1.check: 'Q' is not among the study's systems"),
    (HEAD + "claims:\n  - {id: a, says: b, source: c, check: 'first(rate.sent[A]) == \"Q\"'}\n", 6,
     "claims.1.check: 'Q' is not among the study's systems"),
    (HEAD + "claims:\n" + "  - {id: a, says: b, source: c, not_testable: d}\n" * 2, 7,
     "claims.2.id: the id 'a' is used twice"),
    (HEAD + "claims: ../claims.yaml\n", 5, "claims: '../claims.yaml' is not the name of a file beside the study"),
    # where it comes from
    (HEAD + "source: {title: T, author: N, where: W}\n", 5, "source.author: unknown key; did you mean 'authors'?"),
    (HEAD + "systems:\n  Q 1:\n    - {setting: a}\n", 7, "systems.Q 1.1: value is missing"),
    (HEAD + "systems:\n  Q 1: fast\n", 6, "systems.Q 1: write a list"),
    (HEAD + f"systems:\n  {'Q' * 81}: []\n", 6, "is not a name; write up to 80"),
    (HEAD + "published: [a.csv]\n", 5, "published: write the name of a file, not a list"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "message"), CASES, ids=[message[:50] for _, _, message in CASES])
def test_one_sentence_with_file_and_line(write: Write, text: str, line: int, message: str) -> None:
    path = write(text)
    with pytest.raises(StudyError) as caught:
        load_study(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}:{line}: "), sentence
    assert message in sentence
    assert "\n" not in sentence


def test_the_first_of_several_errors_is_told(write: Write) -> None:
    with pytest.raises(StudyError, match=r":5: exhibits.1"):
        load_study(write(HEAD + "exhibits: [{}]\ndefaults: {rate: x}\nscales: {quick: {rate: y}}\n"))


def test_a_claims_file_has_lines_of_its_own(write: Write) -> None:
    claims = "- id: one\n  says: a\n  source: b\n  check: rate.received[A] > 1\n- id: two\n  say: a\n"
    path = write(HEAD + "claims: claims.yaml\n", claims_yaml=claims)
    with pytest.raises(StudyError) as caught:
        load_study(path)
    assert str(caught.value).startswith(f"{path.parent / 'claims.yaml'}:6: 2.say: unknown key; did you mean 'says'?")


def test_missing_files(tmp_path: Path, write: Write) -> None:
    with pytest.raises(StudyError, match="no such file and no built-in study; did you mean 'jms-four-brokers'"):
        load_study("jms-four-broker")
    with pytest.raises(StudyError, match=r"is a folder without study.yaml"):
        load_study(tmp_path)
    with pytest.raises(StudyError, match=r"published.csv: cannot be read: No such file"):
        load_study(write(HEAD + "published: published.csv\n"))


def test_an_error_cannot_write_to_the_terminal(write: Write) -> None:
    with pytest.raises(StudyError) as caught:
        load_study(write(HEAD + 'defaults: {send: "a\\e[2J\\nb"}\n'))
    assert str(caught.value).isprintable()


def test_scales_and_scenarios_that_are_not_there(write: Write) -> None:
    study = load_study(write(scenario("rate: max")))
    with pytest.raises(StudyError, match="mine has no scale 'fast'; accepted: quick, standard, full"):
        study.points("fast")
    with pytest.raises(StudyError, match="mine has no scenario 'Z'; accepted: A, B"):
        study.points("quick", ["A", "Z"])
