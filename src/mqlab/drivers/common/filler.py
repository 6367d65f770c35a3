"""The body of a message of the lab: an id, then filler, the same in every message. Null servers send it as well."""

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

# The producer (4 bytes) and its sequence number (8 bytes).
ID_SIZE: Final = 12


@lru_cache(maxsize=64)
def filler(size: int) -> npt.NDArray[np.uint8]:
    """The bytes behind the id of a body of `size` bytes.

    They differ, so that they do not compress to nothing. Blocks of 256 bytes differ as well, so that a body whose
    blocks were exchanged differs from the one that was sent.
    """
    index = np.arange(size - ID_SIZE)
    made: npt.NDArray[np.uint8] = (index + (index >> 8) + (index >> 16)).astype(np.uint8)
    return made
