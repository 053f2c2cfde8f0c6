"""Print the name of an OpenBLAS kernel that this machine runs, and that is not its own.

Results of a solver that stops early may depend on the order in which a kernel adds, so a
test that passes with one of them may fail with another: ``OPENBLAS_CORETYPE=<name>``
chooses it. Where there is no other one, nothing is printed, and the reason goes to stderr.
"""

import os
import subprocess
import sys

ASK = (
    "import numpy, threadpoolctl\n"
    "print(*{pool.get('architecture') for pool in threadpoolctl.threadpool_info()\n"
    "        if pool.get('internal_api') == 'openblas'})"
)
#: Kernels by how they add: AVX-512, fused multiply-add, AVX without it, SSE, ARM.
KERNELS = ("SkylakeX", "Haswell", "Sandybridge", "Nehalem", "NEOVERSEN1", "ARMV8")
#: Processors whose kernels are those of another name.
ALIKE = {"Zen": "Haswell", "Cooperlake": "SkylakeX", "Sapphirerapids": "SkylakeX"}
#: What /proc/cpuinfo has to say of a processor that runs a kernel.
NEEDS = {
    "SkylakeX": {"avx512f", "avx512vl", "avx512dq", "avx512bw"},
    "Haswell": {"avx2", "fma"},
    "Sandybridge": {"avx"},
    "Nehalem": {"sse4_2"},
    "NEOVERSEN1": {"asimddp"},
    "ARMV8": {"asimd"},
}


def kernels(name=None):
    """The kernels that NumPy and SciPy take, when asked for one of them."""
    environment = dict(os.environ)
    if name is not None:
        environment["OPENBLAS_CORETYPE"] = name
    command = [sys.executable, "-c", ASK]
    asked = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    return set(asked.stdout.split())


def flags():
    """What the processor can do, by its own account; nothing where that is not said."""
    try:
        with open("/proc/cpuinfo") as lines:
            known = [line for line in lines if line.startswith(("flags", "Features"))]
    except OSError:
        return set()
    return set(known[0].partition(":")[2].split()) if known else set()


def other():
    """A kernel that is not the machine's own, or the reason why there is none."""
    own = {ALIKE.get(name, name) for name in kernels()}
    if not own:
        return None, "NumPy's BLAS is not OpenBLAS"
    able = flags()
    for name in KERNELS:
        if name not in own and NEEDS[name] <= able and kernels(name) == {name}:
            return name, ""
    return None, f"this processor runs no kernel of OpenBLAS but {', '.join(own)}"


if __name__ == "__main__":
    found, reason = other()
    print(found or "")
    if reason:
        print(reason, file=sys.stderr)
