import pytest

from mqlab.broker import limits
from mqlab.broker.security.patterns import EVERYTHING
from mqlab.broker.security.rights import ANYONE, RIGHTS, Rights, User, check_right
from mqlab.broker.settings import SettingError


def test_each_right_stands_alone() -> None:
    for right in RIGHTS:
        user = User("ann", Rights(**{right: ("queue:orders.#",)}))
        assert [one for one in RIGHTS if user.may(one, "queue:orders.new")] == [right]
        assert not user.may(right, "topic:orders.new")


def test_a_subscription_needs_the_right_to_all_it_can_match() -> None:
    user = User("ann", Rights(read=("topic:prices.*", "topic:news.#")))
    assert user.may("read", "topic:prices.gold")
    assert user.may("read", "topic:prices.*")
    assert user.may("read", "topic:news.sport.*.#")
    for more in ("topic:prices.#", "topic:*.gold", "topic:#", "topic:*", EVERYTHING):
        assert not user.may("read", more)


def test_somebody_without_rights_may_nothing_and_anyone_everything() -> None:
    nobody = User("ann", Rights())
    for right in RIGHTS:
        for destination in ("queue:a", "topic:#", EVERYTHING):
            assert not nobody.may(right, destination)
            assert ANYONE.may(right, destination)


def test_answers_are_remembered_but_not_without_end() -> None:
    user = User("ann", Rights(read=("queue:a.#",)))
    for _ in range(2):
        for number in range(limits.ANSWERS_A_USER + 10):
            assert user.may("read", f"queue:a.{number}")
            assert not user.may("read", f"queue:b.{number}")
            assert len(user._answers) <= limits.ANSWERS_A_USER


def test_rights_are_granted_and_revoked_as_they_are_written() -> None:
    rights = Rights().granted("read", "queue:a.#").granted("read", "all").granted("read", "queue:a.#")
    assert rights == Rights(read=("queue:a.#", "all"))
    assert rights.revoked("read", "all") == Rights(read=("queue:a.#",))
    with pytest.raises(SettingError, match=r"no right to read 'queue:a\.b'; there is read: queue:a\.#, all"):
        rights.revoked("read", "queue:a.b")
    with pytest.raises(SettingError, match="there is write: nothing"):
        rights.revoked("write", "all")
    with pytest.raises(SettingError, match="is not a pattern"):
        rights.granted("write", "orders")


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_user_has_so_many_rights(more: int) -> None:
    patterns = tuple(f"queue:{number}" for number in range(limits.RIGHTS_A_USER - 1 + more))
    if more <= 0:
        Rights(read=patterns, admin=("all",))
        return
    with pytest.raises(SettingError, match=str(limits.RIGHTS_A_USER)):
        Rights(read=patterns, admin=("all",))


def test_words_for_rights() -> None:
    assert [check_right(right) for right in RIGHTS] == ["read", "write", "create", "admin"]
    with pytest.raises(SettingError, match=r"'Read\\n' is not a right; the rights are: read, write, create, admin"):
        check_right("Read\n")
