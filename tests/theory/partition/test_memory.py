"""Peak memory of whole certificates, each in a process of its own."""

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc"),
]

CODE = """
import re, numpy as np
from porism.theory.partition import Semivalue, TopK, UtilityTable, certify_partition
n, k = {n}, {n} // 2
masks = np.arange(1 << n, dtype=np.int32)
v = np.random.default_rng(0).random(1 << n) * {noise}
for i in range(k):
    v += masks >> i & 1
del masks
c = certify_partition(UtilityTable.from_array(v, max_players=n), Semivalue.shapley(), TopK(k), radii={radii})
assert (c.robust, c.members) == ({robust}, tuple(range(k))), c
# not ru_maxrss, which keeps what the parent held before exec
print(int(re.search("VmHWM: *[^0-9]*([0-9]+)", open("/proc/self/status").read())[1]) / 1024)
"""


def peak(**numbers):
    """MiB of a certificate; the first run pays for compilation, so it is not the one that counts."""
    run = lambda: subprocess.run(
        [sys.executable, "-c", CODE.format(**numbers)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    done = run()
    assert done.returncode == 0, done.stderr[-2000:]
    return float(run().stdout)


@pytest.mark.parametrize(("noise", "robust"), [(0.9, True), (4.0, False)])
def test_twenty_players_with_radii_under_400_megabytes(noise, robust):
    assert peak(n=20, noise=noise, robust=robust, radii=("slope", "score")) < 400


@pytest.mark.skipif(not os.environ.get("PORISM_SLOW"), reason="minutes; set PORISM_SLOW=1")
def test_twenty_four_players():
    assert peak(n=24, noise=0.9, robust=True, radii=()) < 3000
