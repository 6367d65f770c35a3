"""Every claim of the built-in studies can hold and can be refuted, by measures that the tests invent."""

import pytest

from mqlab.report.claims.verdicts import BY_CONSTRUCTION, HOLDS, NOT_TESTABLE, REFUTED
from mqlab.study import Claim, Study, built_in_studies, load_study
from mqlab.study.language.expression import parse
from report.claims.invented_measures import InventedMeasures

STUDIES = {name: load_study(name) for name in built_in_studies()}
CHECKED = [(study, claim) for study in STUDIES.values() for claim in study.claims if claim.check is not None]
# The run that decides the comparison of 2010 on today's brokers.
BROKERS = ("embedded", "hornetq", "activemq", "openmq", "artemis")


def names(cases: list[tuple[Study, Claim]]) -> list[str]:
    return [f"{study.id}:{claim.id}" for study, claim in cases]


@pytest.mark.parametrize(("study", "claim"), CHECKED, ids=names(CHECKED))
def test_each_claim_can_hold_and_be_refuted(study: Study, claim: Claim) -> None:
    """By the published systems themselves, if there are any, so that neither a stand-in nor a setting decides."""
    invented = InventedMeasures(study, claim, study.systems_published or ("embedded",))
    decided = {True: HOLDS, False: REFUTED}
    if claim.cause and not parse(claim.check or "").systems():
        decided = dict.fromkeys(decided, NOT_TESTABLE)
    if "consume_rate" in claim.imposed_by:
        decided = dict.fromkeys(decided, BY_CONSTRUCTION)
    for truth, verdict in decided.items():
        assert invented.search(truth), f"no measures were found for which it is {truth}"
        assert invented.verdict().verdict == verdict


def imposed() -> list[tuple[Study, Claim]]:
    """The claims that the stand-ins of a study cannot prove."""
    return [(study, claim) for study, claim in CHECKED if study.stand_ins and (claim.imposed_by or claim.cause)]


@pytest.mark.parametrize(("study", "claim"), imposed(), ids=names(imposed()))
def test_stand_ins_prove_nothing_that_they_were_set_to_or_lack(study: Study, claim: Claim) -> None:
    """The subject is the last stand-in, which has a setting that brings about the effect."""
    invented = InventedMeasures(study, claim, list(study.stand_ins.values())[::-1])
    assert invented.search(wanted=True)
    assert invented.verdict().verdict == (NOT_TESTABLE if claim.cause else BY_CONSTRUCTION)


JMS = STUDIES["jms-four-brokers"]
# The embedded broker alone counts its syncs.
UNDECIDED = [claim for claim in JMS.claims if claim.check is None or claim.cause or "SwiftMQ 7.6" in claim.check]
DECIDED = [(JMS, claim) for claim in JMS.claims if claim not in UNDECIDED]


@pytest.mark.parametrize(("study", "claim"), DECIDED, ids=names(DECIDED))
def test_todays_brokers_decide_the_comparison_of_2010(study: Study, claim: Claim) -> None:
    invented = InventedMeasures(study, claim, BROKERS)
    for truth, verdict in ((True, HOLDS), (False, REFUTED)):
        assert invented.search(truth)
        found = invented.verdict()
        assert found.verdict == verdict
        assert ("hornetq 7 stands for HornetQ 2.1.1" in found.stands_for) == (
            "HornetQ" in (claim.check or "") or parse(claim.check or "").over_systems
        )


def test_only_what_these_brokers_cannot_decide_is_left() -> None:
    assert [claim.id for claim in UNDECIDED] == [
        "large-network-full", "large-leaders-level", "large-all-level", "transactions-swiftmq", "group-commit-delay",
        "sync-or-disallowed", "long-enough",
    ]  # fmt: skip
