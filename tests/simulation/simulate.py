"""Run simulations by their seeds; each repeats exactly. Of a broker's core and store, or of two brokers and channels.

python tests/simulation/simulate.py --seed 7
python tests/simulation/simulate.py --seeds 1000
python tests/simulation/simulate.py --channel --seed 7
python tests/simulation/simulate.py --full --seed 7
"""

import argparse
import json
import sys
import tempfile
import traceback
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from simulation.channel.world import Simulation as ChannelSimulation
from simulation.world import Simulation

_TELL_EVERY = 50


def simulate(seed: int, *, verbose: bool = False) -> dict[str, int]:
    """What happened, in numbers. Raises whatever shows a fault."""
    with _folder() as folder:
        simulation = Simulation(seed, Path(folder))
        simulation.books.verbose = verbose
        return simulation.run()


def simulate_channel(seed: int, *, verbose: bool = False, full: bool = False) -> dict[str, int]:
    """Two brokers; as `simulate`. `full`: they fill up with messages for each other before they can connect."""
    with _folder() as folder:
        simulation = ChannelSimulation(seed, Path(folder), full=full)
        simulation.timeline.verbose = verbose
        return simulation.run()


def _folder() -> tempfile.TemporaryDirectory[str]:
    """In memory where there is such a place: the disk is imitated, and need not be waited for."""
    fast = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="mqlab-simulation-", dir=fast if fast.is_dir() else None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the (first) seed (1)")
    parser.add_argument("--seeds", type=int, default=1, help="how many, one after the other (1)")
    parser.add_argument("--channel", action="store_true", help="two brokers with channels both ways")
    parser.add_argument("--full", action="store_true", help="two brokers that fill up with messages for each other")
    parser.add_argument("--verbose", action="store_true", help="tell what happens")
    chosen = parser.parse_args()
    run = partial(simulate_channel, full=True) if chosen.full else simulate_channel if chosen.channel else simulate
    total: Counter[str] = Counter()
    failed = []
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        try:
            total.update(run(seed, verbose=chosen.verbose))
        except Exception:
            failed.append(seed)
            print(f"seed {seed}", file=sys.stderr)
            traceback.print_exc()
        done = seed - chosen.seed + 1
        if done % _TELL_EVERY == 0:
            print(f"{done} of {chosen.seeds} seeds, {len(failed)} failed", file=sys.stderr)
    print(json.dumps({"seeds": chosen.seeds, "failed": failed, **total}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
