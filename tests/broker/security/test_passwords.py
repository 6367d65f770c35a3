import hashlib

import pytest

from mqlab.broker import limits
from mqlab.broker.security import passwords
from mqlab.broker.security.passwords import Cost, PasswordHash
from mqlab.broker.settings import SettingError


def test_a_hash_fits_its_password_only() -> None:
    made = PasswordHash.of("correct horse")
    assert made.matches("correct horse")
    for other in ("", "correct horsf", "correct horse ", "Correct horse", "correct horse\x00"):
        assert not made.matches(other)


def test_a_hash_comes_back_from_its_text() -> None:
    made = PasswordHash.of("correct horse")
    again = PasswordHash.parse(made.encode())
    assert again == made
    assert again.matches("correct horse")


def test_the_same_password_never_has_the_same_hash() -> None:
    assert PasswordHash.of("correct horse").encode() != PasswordHash.of("correct horse").encode()


def test_the_text_is_what_it_says() -> None:
    """Any scrypt agrees: nobody is bound to this implementation."""
    salt = b"sixteen bytes  !"
    digest = hashlib.scrypt(b"correct horse", salt=salt, n=1024, r=4, p=2, dklen=32)
    made = PasswordHash(Cost(10, 4, 2), salt, digest)
    assert made.matches("correct horse")
    assert made.encode().startswith("$scrypt$ln=10,r=4,p=2$c2l4dGVlbiBieXRlcyAgIQ$")


def test_the_usual_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert Cost(14, 8, 5) == passwords.COST
    made = PasswordHash.of("correct horse")
    assert made.cost.memory == 16 * 1024 * 1024
    assert made.matches("correct horse")


def test_the_same_letters_from_another_keyboard() -> None:
    assert PasswordHash.of("pâté en croûte").matches("pa\u0302te\u0301 en crou\u0302te")


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_limits(more: int) -> None:
    for fine, password in (
        (more >= 0, "a" * (limits.PASSWORD_LEAST + more)),
        (more <= 0, "a" * (limits.PASSWORD + more)),
        (more <= 0, "ä" * (limits.PASSWORD // 2) + "a" * more if more >= 0 else "ä" * (limits.PASSWORD // 2 - 1)),
    ):
        if fine:
            assert PasswordHash.of(password).matches(password)
        else:
            with pytest.raises(SettingError, match="8 characters or more, 1024 bytes at most, and no NUL") as caught:
                PasswordHash.of(password)
            assert password not in str(caught.value)


@pytest.mark.parametrize("password", ["a" * 10_000_000, "\ud800" * 10, "correct horse\x00"])
def test_what_cannot_be_a_password_fits_nothing_and_costs_nothing(
    password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingError, match="a password has"):
        PasswordHash.of(password)
    made = PasswordHash.of("correct horse")
    monkeypatch.setattr(hashlib, "scrypt", None)
    assert not made.matches(password)


def test_nothing_is_shown() -> None:
    made = PasswordHash.of("correct horse")
    assert repr(made) == "PasswordHash(cost=Cost(log_n=10, r=8, p=1))"


SALT, DIGEST = "A" * 22, "B" * 43


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a password hash"),
        ("correct horse", "is not a password hash"),
        (f"$scrypt$ln=10,r=8,p=1${SALT}${DIGEST}\n", "is not a password hash"),
        (f"$scrypt$ln=10,r=8,p=1${SALT}${DIGEST[1:]}", "is not a password hash"),
        (f"$scrypt$ln=10,r=8,p=1${SALT[1:]}_${DIGEST}", "is not a password hash"),
        (f"$scrypt$ln=1\u0660,r=8,p=1${SALT}${DIGEST}", "is not a password hash"),
        (f"$argon2id$ln=10,r=8,p=1${SALT}${DIGEST}", "is not a password hash"),
        (f"$scrypt$ln=9,r=8,p=1${SALT}${DIGEST}", "out of bounds"),
        (f"$scrypt$ln=10,r=0,p=1${SALT}${DIGEST}", "out of bounds"),
        (f"$scrypt$ln=10,r=8,p=0${SALT}${DIGEST}", "out of bounds"),
        (f"$scrypt$ln=10,r=8,p=17${SALT}${DIGEST}", "out of bounds"),
        (f"$scrypt$ln=19,r=8,p=1${SALT}${DIGEST}", "out of bounds"),
        (f"$scrypt$ln=99,r=99,p=1${SALT}${DIGEST}", "out of bounds"),
    ],
)
def test_what_is_no_hash(text: str, says: str) -> None:
    with pytest.raises(SettingError, match=says) as caught:
        PasswordHash.parse(text)
    assert "horse" not in str(caught.value)


@pytest.mark.parametrize("cost", ["ln=18,r=8,p=1", "ln=10,r=99,p=16"])
def test_the_dearest_hash_of_a_file_can_be_computed(cost: str) -> None:
    assert not PasswordHash.parse(f"$scrypt${cost}${SALT}${DIGEST}").matches("correct horse")
