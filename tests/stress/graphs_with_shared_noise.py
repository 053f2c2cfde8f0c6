"""Guarantees of shared noise against all that is seen, on many random graphs.

    PYTHONPATH=.:tests python tests/stress/graphs_with_shared_noise.py [graphs]

Graphs of up to ten agents, with every coalition of up to three. The tests take 25 of them.
"""

import sys
import time

from consensus.test_shared_noise import check_against_all_that_is_seen

if __name__ == "__main__":
    graphs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    start = time.process_time()
    check_against_all_that_is_seen(range(graphs), 3)
    print(f"{graphs} graphs agree, in {time.process_time() - start:.0f} s")
