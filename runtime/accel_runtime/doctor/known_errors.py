"""Errors of imports and starts that many people meet: what each means, and the line that mends it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .finding import FAIL, Finding

_PIP = "python -m pip install"
_DISTRIBUTIONS = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
    "dotenv": "python-dotenv",
    "accel_runtime": "'accel-migrate[runtime]'",
    "flash_attn": "flash-attn --no-build-isolation",
    "flash_attn_2_cuda": "flash-attn",
    "torch": "'accel-migrate[runtime]'",
    "pytorch_lightning": "pytorch-lightning",
    "google.protobuf": "protobuf",
    "bs4": "beautifulsoup4",
    "attr": "attrs",
    "hydra": "hydra-core",
    "tensorboard": "tensorboard",
}
"""Import name -> what installs it, where the two differ."""


@dataclass(frozen=True)
class Known:
    """An error: a regular expression for its text, what it means, what mends it; groups are filled in by name."""

    pattern: str
    wrong: str
    mend: str


_NO_LIBRARY_PATH = "unset LD_LIBRARY_PATH  # torch brings its own CUDA libraries"
_SHARED_MEMORY = (
    "docker run --ipc=host ...  (or --shm-size 16g; in Kubernetes an emptyDir with medium: Memory on /dev/shm)"
)
_SAME_TORCH = f"{_PIP} --force-reinstall --no-deps --no-build-isolation {{distribution}}"

KNOWN = (
    Known(r"cannot import name .* from partially initialized module '(?P<name>\w+)'|module '(?P<other>torch|numpy|accelerate|transformers)' has no attribute '(?:nn|Tensor|tensor|cuda|array|__version__)'",
          "a file of this folder has the name of a library and is imported in its place", "rename {name}{other}.py, and remove its __pycache__"),
    Known(r"lib(?P<name>cuda)\.so\.1: cannot open shared object file", "the NVIDIA driver's library is not there", "docker run --gpus all ...  (in a container; otherwise install the NVIDIA driver)"),
    Known(r"lib(?P<name>cudart|cudnn\w*|cublas\w*|cufft|curand|cusolver|cusparse\w*|cupti|nvrtc\w*|nvJitLink|nccl|nvToolsExt|nvshmem\w*|cufile)\.so[.\d]*: cannot open shared object file",
          "lib{name}, which comes with torch's GPU build, is missing", f"{_PIP} --force-reinstall torch"),
    Known(r"undefined symbol: (?P<name>__?nvJitLink\w+)", "an older CUDA library is found before torch's own", _NO_LIBRARY_PATH),
    Known(r"undefined symbol: (?P<name>nccl\w+)", "an older NCCL is found before torch's own", f"{_NO_LIBRARY_PATH}; {_PIP} --force-reinstall torch"),
    Known(r"undefined symbol: (?P<name>(?:cudnn|cublas|cusparse|cu[A-Z])\w+)", "an older CUDA library is found before torch's own", _NO_LIBRARY_PATH),
    Known(r"undefined symbol: iJIT_NotifyEvent", "this torch of conda does not go with the newest MKL", "conda install 'mkl<2024.1'"),
    Known(r"(?:site|dist)-packages/(?P<package>[\w.]+?)(?:/\S*|\.cpython\S*|\.abi3\S*)?\.so: undefined symbol: _Z\w*(?:c10|at|torch)\w*", "{package} was built for another version of torch", _SAME_TORCH),
    Known(r"(?P<package>[A-Za-z_]\w*?)(?:_cuda)?\.(?:cpython|abi3)\S*\.so: undefined symbol: _Z\w*(?:c10|at|torch)\w*", "{package} was built for another version of torch", _SAME_TORCH),
    Known(r"operator torchvision::nms does not exist", "torchvision was built for another version of torch", f"{_PIP} --upgrade torch torchvision"),
    Known(r"compiled using NumPy 1\.x cannot be run in\s+NumPy 2|_ARRAY_API not found|numpy\.core\.multiarray failed to import", "a package was built for NumPy 1 and NumPy 2 is installed", f"{_PIP} 'numpy<2'  # or a newer version of that package"),
    Known(r"numpy\.(?:dtype|ndarray|ufunc) size changed", "a package was built for another version of NumPy", f"{_PIP} --force-reinstall --no-cache-dir PACKAGE  # the one at the bottom of the traceback"),
    Known(r"libGL\.so\.1: cannot open|libgthread-2\.0\.so\.0: cannot open", "OpenCV wants the libraries of a screen", f"{_PIP} --force-reinstall opencv-python-headless  # and uninstall opencv-python"),
    Known(r"libgomp\.so\.1: cannot open", "the OpenMP library is missing", "apt-get install libgomp1"),
    Known(r"libgomp\S*: cannot allocate memory in static TLS block", "the OpenMP library is loaded too late", "export LD_PRELOAD=$(ldconfig -p | awk '/libgomp.so.1/{{print $NF; exit}}')"),
    Known(r"libmpi\S*\.so[.\d]*: cannot open", "MPI is not installed", "apt-get install libopenmpi-dev"),
    Known(r"libsndfile\S*: cannot open|sndfile library not found", "the sound file library is missing", "apt-get install libsndfile1"),
    Known(r"version `(?P<name>GLIBCXX_[\d.]+|CXXABI_[\d.]+)' not found", "the C++ library in use is older than what a package was built with", "conda install -c conda-forge libstdcxx-ng  # in a conda environment; else unset LD_LIBRARY_PATH"),
    Known(r"version `(?P<name>GLIBC_[\d.]+)' not found", "this system is older than what a package was built for ({name})", "use a newer system or container, or an older version of that package"),
    Known(r"WinError 126.*(?:fbgemm|c10|shm|torch\w*)\.dll", "the C++ runtime of Windows is missing", "winget install Microsoft.VCRedist.2015+.x64"),
    Known(r"Torch not compiled with CUDA enabled", "this torch is a build without CUDA", "accel doctor  # names the build for this machine's driver"),
    Known(r"driver on your system is too old|CUDA driver version is insufficient", "the NVIDIA driver is older than the CUDA of this torch", "accel doctor  # names a build for this driver; or install a newer driver"),
    Known(r"no kernel image is available|is not compatible with the current PyTorch installation", "this torch has no code for this GPU", "accel doctor  # names a build for this GPU"),
    Known(r"Error 802|system not yet initialized", "the GPUs of this machine wait for NVIDIA's fabric manager", "systemctl start nvidia-fabricmanager  # of the driver's own version"),
    Known(r"Error 80[34]|unsupported display driver / cuda driver combination|forward compatibility was attempted", "a libcuda of another driver version is found first", "unset LD_LIBRARY_PATH  # in a container: use an image whose CUDA is not newer than the driver, without cuda-compat"),
    Known(r"[Dd]river/library version mismatch", "the driver was updated while its old modules run", "reboot  # or unload and load the nvidia modules"),
    Known(r"CUDA unknown error|Error 999", "the driver's module for memory is not loaded", "modprobe nvidia_uvm  # after sleep: rmmod nvidia_uvm first"),
    Known(r"no CUDA-capable device|No CUDA GPUs are available|Error 100\b", "torch sees no GPU", "echo $CUDA_VISIBLE_DEVICES  # must not be empty or -1; in a container: docker run --gpus all ..."),
    Known(r"Cannot re-initialize CUDA in forked subprocess", "a process was forked after the GPU was in use", "use no GPU before notebook_launcher; in a DataLoader: multiprocessing_context='spawn', or tensors on the CPU in the data set"),
    Known(r"Duplicate GPU detected", "two processes use the same GPU", "accel launch --num_processes N  # not more than there are GPUs; and no torch.cuda.set_device(0) in the script"),
    Known(r"Bootstrap : no socket interface found|no socket interface|unable to find interface|Unable to find address for", "NCCL or gloo finds no network between the machines", "export NCCL_SOCKET_IFNAME=eth0 GLOO_SOCKET_IFNAME=eth0  # the interface with the machines' addresses: ip -br address"),
    Known(r"Bus error|unable to (?:open|mmap|write to|allocate) (?:shared memory|\d+ bytes from)|unable to open shared memory object|No space left on device.*/dev/shm|/dev/shm.*No space left", "the shared memory, through which loader workers send batches, is full", _SHARED_MEMORY),
    Known(r"Too many open files|received 0 items of ancdata", "the processes have too many files open", "ulimit -n 65536"),
    Known(r"[Aa]ddress already in use|EADDRINUSE", "the port where the processes meet is taken", "accel launch SCRIPT  # takes a free one; or give another --main_process_port"),
    Known(r"CUDA out of memory|OutOfMemoryError", "the GPU's memory does not suffice", "accel estimate SIZE  # what fits; then a smaller batch with gradient accumulation, bf16, or sharding"),
    Known(r"unhandled system error|ncclSystemError|ncclRemoteError", "NCCL could not reach the other processes or the system", "NCCL_DEBUG=INFO accel launch ...  # the line before the error names what failed"),
    Known(r"cannot import name '(?P<what>\w+)' from '(?P<name>\w+)[\w.]*'", "the installed {name} has no {what}: the code is for another version of it", f"{_PIP} --upgrade {{distribution}}"),
    Known(r"No module named '(?P<name>[\w.]+)'", "{name} is not installed for this interpreter", f"{_PIP} {{distribution}}"),
)  # fmt: skip
"""From the particular to the general: the first that is found in a text explains it."""


def explain(text: str) -> Finding | None:
    """What the error in `text` means, None if it is not known; the last lines, where the cause usually stands, go first."""
    lines = text.strip().splitlines()
    for part in (*("\n".join(lines[-n:]) for n in (1, 3)), text):
        for known in KNOWN:
            found = re.search(known.pattern, part, re.DOTALL if known.pattern.startswith("WinError") else 0)
            if found:
                words = {name: value or "" for name, value in found.groupdict().items()}
                words["distribution"] = distribution(words.get("name") or words.get("package") or "")
                return Finding(FAIL, known.wrong.format(**words), known.mend.format(**words))
    return None


def distribution(module: str) -> str:
    """What installs the package in which `module` is."""
    return _DISTRIBUTIONS.get(module) or _DISTRIBUTIONS.get(module.partition(".")[0]) or module.partition(".")[0]
