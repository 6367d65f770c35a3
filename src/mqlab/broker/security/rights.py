"""Rights of users on destinations: read (also browse and show), write, create and admin (purge, move, delete).

No right implies another. One pattern of the user must cover the whole request: patterns are not combined.
"""

from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from mqlab.broker import limits
from mqlab.broker.security.patterns import EVERYTHING, check_pattern, covers
from mqlab.broker.settings import SettingError

Right = Literal["read", "write", "create", "admin"]
RIGHTS: Final[tuple[Right, ...]] = get_args(Right)


def check_right(text: str) -> Right:
    for right in RIGHTS:
        if text == right:
            return right
    raise SettingError(f"{text[:80]!r} is not a right; the rights are: {', '.join(RIGHTS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """Patterns of destinations for each right."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    create: tuple[str, ...] = ()
    admin: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for right in RIGHTS:
            for pattern in self.of(right):
                check_pattern(pattern)
        if sum(len(self.of(right)) for right in RIGHTS) > limits.RIGHTS_A_USER:
            raise SettingError(f"a user has at most {limits.RIGHTS_A_USER} rights")

    def of(self, right: Right) -> tuple[str, ...]:
        patterns: tuple[str, ...] = getattr(self, right)
        return patterns

    def granted(self, right: Right, pattern: str) -> "Rights":
        patterns = self.of(right)
        return self if pattern in patterns else replace(self, **{right: (*patterns, pattern)})

    def revoked(self, right: Right, pattern: str) -> "Rights":
        """Without exactly this pattern. Raises SettingError if it was not granted."""
        patterns = self.of(right)
        if pattern not in patterns:
            has = ", ".join(patterns) or "nothing"
            raise SettingError(f"there is no right to {right} {pattern[:80]!r}; there is {right}: {has}")
        return replace(self, **{right: tuple(granted for granted in patterns if granted != pattern)})


@dataclass(frozen=True, slots=True)
class User:
    """A user and its rights."""

    name: str
    rights: Rights
    _answers: dict[tuple[Right, str], bool] = field(default_factory=dict, init=False, compare=False, repr=False)

    def may(self, right: Right, destination: str) -> bool:
        """`destination` has its kind: queue:orders. A pattern asks for all that it matches, `all` for everything."""
        answer = self._answers.get((right, destination))
        if answer is None:
            if len(self._answers) >= limits.ANSWERS_A_USER:
                self._answers.clear()
            answer = any(covers(granted, destination) for granted in self.rights.of(right))
            self._answers[right, destination] = answer
        return answer


# The user of all clients of a broker without users.
ANYONE: Final = User("anyone", Rights(**dict.fromkeys(RIGHTS, (EVERYTHING,))))
