"""`accel doctor` and `accel env`: machines with something wrong, and the errors that people meet."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from accel_runtime.commands import doctor, env
from accel_runtime.doctor import builds, checks, known_errors, machine, scripts
from accel_runtime.doctor.finding import FAIL, OK, WARN
from accel_runtime.doctor.machine import Gpu, Machine

ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]
TORCH = {
    "version": "2.9.1+cu128",
    "file": "/venv/torch/__init__.py",
    "cuda": "12.8",
    "hip": None,
    "architectures": ARCHITECTURES,
    "distributed": True,
    "nccl": True,
    "devices": 2,
    "nccl_version": "2.27.5",
}
H100 = Gpu("NVIDIA H100 80GB HBM3", (9, 0), 81559)
SOUND = Machine(
    torch=TORCH,
    driver="570.86.10",
    gpus=[H100, H100],
    packages={"torch": "2.9.1", "torchvision": "0.24.1"},
    shared_memory=(60 << 30, 64 << 30),
    interfaces=["lo", "eth0", "docker0"],
)


def statuses(found: Machine) -> dict[str, str]:
    return {finding.text: finding.status for finding in checks.findings(found)}


def test_a_sound_machine_has_nothing_to_mend():
    assert set(statuses(SOUND).values()) == {OK}


CPU_BUILD = {**TORCH, "version": "2.9.1+cpu", "cuda": None, "architectures": [], "nccl": False, "devices": 0}
WRONG = {
    "python": ({"python": (3, 9)}, FAIL, "Python 3.9", "python=3.12"),
    "no torch": ({"torch": {"error": "Traceback\nModuleNotFoundError: No module named 'torch'"}}, FAIL, "torch is not installed", "pip install 'accel-migrate[runtime]'"),
    "broken torch": ({"torch": {"error": "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"}}, FAIL, "libcudnn", "--force-reinstall torch"),
    "odd torch": ({"torch": {"error": "importing torch ended the process with -11"}}, FAIL, "ended the process with -11", "import torch"),
    "old torch": ({"torch": {**TORCH, "version": "2.1.0"}}, FAIL, "needs 2.6", "--upgrade torch"),
    "cpu build": ({"torch": CPU_BUILD}, FAIL, "a build without CUDA", "for cu126"),
    "cpu build, new driver": ({"torch": CPU_BUILD, "driver": "580.95.05"}, FAIL, "a build without CUDA", "for cu130"),
    "cpu build, Blackwell": ({"torch": CPU_BUILD, "gpus": [Gpu("RTX 5090", (12, 0), 32607)]}, FAIL, "a build without CUDA", "for cu128"),
    "old driver": ({"driver": "470.57.02"}, FAIL, "470.57.02 is too old for the CUDA 12.8", "for cu118"),
    "ancient driver": ({"driver": "390.10"}, FAIL, "too old", "install a newer NVIDIA driver"),
    "new architecture": ({"torch": {**TORCH, "architectures": ["sm_80", "sm_90"]}, "gpus": [Gpu("RTX 5090", (12, 0), 32607)]}, FAIL, "no code for RTX 5090 (sm_120)", "for cu128"),
    "dropped architecture": ({"gpus": [Gpu("Tesla V100", (7, 0), 16384)], "driver": "580.1.1"}, FAIL, "no code for Tesla V100 (sm_70)", "for cu126"),
    "fabric manager": ({"torch": {**TORCH, "devices": 0, "cuda_error": "RuntimeError: Unexpected error ... Error 802: system not yet initialized"}}, FAIL, "fabric manager", "systemctl start"),
    "hidden devices": ({"torch": {**TORCH, "devices": 0}, "environment": {"CUDA_VISIBLE_DEVICES": ""}}, FAIL, "CUDA_VISIBLE_DEVICES is ''", "unset CUDA_VISIBLE_DEVICES"),
    "mixed GPUs": ({"gpus": [H100, Gpu("A100", (8, 0), 40960)]}, WARN, "different kinds", "--gpu_ids"),
    "driver mismatch": ({"driver": "", "gpus": [], "driver_error": "Failed to initialize NVML: Driver/library version mismatch"}, FAIL, "updated while", "reboot"),
    "AMD": ({"torch": CPU_BUILD, "gpus": [], "driver": "", "amd": True}, FAIL, "not a build for ROCm", "build of torch for ROCm"),
    "no nccl": ({"torch": {**TORCH, "nccl": False}}, FAIL, "without NCCL", "--force-reinstall torch"),
    "no distributed": ({"torch": {**TORCH, "distributed": False}}, FAIL, "without torch.distributed", "--force-reinstall torch"),
    "nccl interface": ({"environment": {"NCCL_SOCKET_IFNAME": "ib0"}}, FAIL, "NCCL_SOCKET_IFNAME is ib0", "=eth0"),
    "slow nccl": ({"environment": {"NCCL_P2P_DISABLE": "1"}}, WARN, "NCCL_P2P_DISABLE is set", "unset"),
    "shared memory": ({"shared_memory": (64 << 20, 64 << 20)}, FAIL, "shared memory is 64 MiB", "--ipc=host"),
    "full shared memory": ({"shared_memory": (1 << 20, 8 << 30)}, WARN, "1 MiB of 8192 MiB are free", "/dev/shm"),
    "open files": ({"open_files": 1024}, WARN, "may open 1024 files", "ulimit -n"),
    "locked memory": ({"infiniband": True, "locked_memory": 64 << 10}, WARN, "InfiniBand", "ulimit -l unlimited"),
    "host name": ({"host_resolves": False}, WARN, "has no address", "/etc/hosts"),
    "no port": ({"port": False}, FAIL, "no port", "lo up"),
    "port in use": ({"default_port_taken": True}, WARN, "port 29500", "accel launch"),
    "leftovers": ({"environment": {"RANK": "0", "WORLD_SIZE": "2"}}, WARN, "RANK, WORLD_SIZE are set", "unset RANK WORLD_SIZE"),
    "library path": ({"environment": {"LD_LIBRARY_PATH": "/usr/local/cuda-11.8/lib64"}}, WARN, "LD_LIBRARY_PATH", "unset LD_LIBRARY_PATH"),
    "torchvision": ({"packages": {"torch": "2.9.1", "torchvision": "0.20.0"}}, FAIL, "torchvision 0.20.0 was not built", "torchvision==0.24.*"),
    "shadowing": ({"folder": ["torch.py", "train.py"]}, FAIL, "torch.py in this folder", "git mv torch.py"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found_with_what_mends_it(name):
    changes, status, text, mend = WRONG[name]
    bad = [finding for finding in checks.findings(replace(SOUND, **changes)) if finding.status != OK]
    found = [finding for finding in bad if text in finding.text]
    assert [finding.status for finding in found] == [status] and mend in found[0].mend
    assert len(bad) == 1, [finding.text for finding in bad]


def test_no_finding_without_a_line_that_mends_it():
    for changes, *_ in WRONG.values():
        assert all(
            finding.mend and "\n" not in finding.mend
            for finding in checks.findings(replace(SOUND, **changes))
            if finding.status != OK
        )


@pytest.mark.parametrize(
    ("architectures", "capability", "suits"),
    [
        (["sm_80"], (8, 6), True),
        (["sm_86"], (8, 0), False),
        (["sm_90"], (10, 0), False),
        (["sm_80", "compute_80"], (12, 0), True),
        (["sm_90a"], (9, 0), True),
        (["sm_90a"], (10, 0), False),
        ([], (8, 0), False),
    ],
)
def test_which_build_runs_on_which_gpu(architectures, capability, suits):
    assert builds.supports(architectures, capability) is suits


SITE = "/venv/lib/python3.11/site-packages"
ERRORS = {
    "ModuleNotFoundError: No module named 'cv2'": ("cv2 is not installed", "opencv-python-headless"),
    "ModuleNotFoundError: No module named 'sklearn.datasets'": ("sklearn.datasets is not installed", "scikit-learn"),
    "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory": ("libcudart", "--force-reinstall torch"),
    "OSError: libcublasLt.so.12: cannot open shared object file": ("libcublasLt", "--force-reinstall torch"),
    "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory": ("driver's library", "--gpus all"),
    "ImportError: libGL.so.1: cannot open shared object file: No such file or directory": ("OpenCV", "headless"),
    f"ImportError: {SITE}/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12": ("older CUDA", "unset LD_LIBRARY_PATH"),
    f"ImportError: {SITE}/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister": ("older NCCL", "unset LD_LIBRARY_PATH"),
    f"ImportError: {SITE}/torch/lib/libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent": ("MKL", "mkl<2024.1"),
    f"ImportError: {SITE}/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_string": ("flash_attn_2_cuda was built for another version of torch", "flash-attn"),
    f"OSError: {SITE}/torch_scatter/_version_cuda.so: undefined symbol: _ZN5torch8jit17parseSchemaOrNameE": ("torch_scatter was built", "torch_scatter"),
    "RuntimeError: operator torchvision::nms does not exist": ("torchvision", "torch torchvision"),
    "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.1.0 as it may crash.": ("NumPy 1", "numpy<2"),
    "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88": ("another version of NumPy", "--no-cache-dir"),
    "AttributeError: partially initialized module 'torch' has no attribute 'nn'": ("a file of this folder", "torch.py"),
    "ImportError: cannot import name 'Tensor' from partially initialized module 'torch' (most likely due to a circular import) (/home/me/torch.py)": ("a file of this folder", "torch.py"),
    "ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by scipy)": ("C++ library", "libstdcxx-ng"),
    "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found (required by triton)": ("GLIBC_2.32", "newer system"),
    "OSError: [WinError 126] The specified module could not be found. Error loading \"C:\\torch\\lib\\fbgemm.dll\"": ("Windows", "VCRedist"),
    "AssertionError: Torch not compiled with CUDA enabled": ("without CUDA", "accel doctor"),
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).": ("older than the CUDA", "accel doctor"),
    "RuntimeError: CUDA error: no kernel image is available for execution on the device": ("no code for this GPU", "accel doctor"),
    "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment": ("module for memory", "nvidia_uvm"),
    "RuntimeError: No CUDA GPUs are available": ("no GPU", "CUDA_VISIBLE_DEVICES"),
    "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing": ("forked", "spawn"),
    "torch.distributed.DistBackendError: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 3000": ("same GPU", "--num_processes"),
    "RuntimeError: DataLoader worker (pid 123) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.": ("shared memory", "--ipc=host"),
    "OSError: [Errno 24] Too many open files": ("too many files", "ulimit -n"),
    "RuntimeError: The server socket has failed to listen on any local network address. port: 29500, EADDRINUSE": ("port", "accel launch"),
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.": ("memory", "accel estimate"),
    "ImportError: cannot import name 'AdamW' from 'transformers' (/x/transformers/__init__.py)": ("has no AdamW", "--upgrade transformers"),
}  # fmt: skip


@pytest.mark.parametrize("error", ERRORS)
def test_errors_that_people_meet(error):
    text, mend = ERRORS[error]
    found = known_errors.explain(
        f'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n{error}\n'
    )
    assert found is not None and text in found.text and mend in found.mend
    assert "{" not in found.text + found.mend and found.mend.count("\n") == 0


def test_every_known_error_has_its_words_and_an_unknown_one_is_unknown():
    for known in known_errors.KNOWN:
        assert known.wrong and known.mend
    assert known_errors.explain("KeyError: 'a'") is None


def test_imports_of_a_script(tmp_path):
    (tmp_path / "engine.py").touch()
    source = "import os, engine, no_such_package.part\ntry:\n    import another_one\nexcept ImportError: pass\ndef f():\n    from cv3 import x\n"
    found = scripts.findings(tmp_path / "train.py", source)
    assert [finding.mend for finding in found] == ["python -m pip install cv3", "python -m pip install no_such_package"]


@pytest.fixture
def healthy(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "look", lambda: SOUND)
    monkeypatch.setattr(env, "look", lambda: SOUND)


def test_the_commands_exit_code_says_whether_something_is_to_be_mended(healthy, tmp_path, capsys):
    assert doctor.main([]) == 0
    assert (
        capsys.readouterr().out.splitlines()[-1] == f"0 to mend, 0 to look at, {len(checks.findings(SOUND))} in order"
    )
    (tmp_path / "accel.yaml").write_text("mixed_precision: bf61\n")
    assert doctor.main([]) == 1
    assert "fail accel.yaml:1: mixed_precision: 'bf61' is not one of" in capsys.readouterr().out


def test_an_error_is_explained_from_a_file_or_standard_input(healthy, monkeypatch, capsys, tmp_path):
    (tmp_path / "log.txt").write_text("OSError: [Errno 24] Too many open files\n")
    assert doctor.main(["log.txt"]) == 1
    assert capsys.readouterr().out == "the processes have too many files open\nmend: ulimit -n 65536\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("KeyError: 'a'\n"))
    assert doctor.main(["-"]) == 1
    assert capsys.readouterr().out == "this error is not known: KeyError: 'a'\n"


@pytest.mark.parametrize("arguments", [["none.log"], ["none.py"], ["--loud"], ["broken.py"]])
def test_bad_usage_is_one_line_and_exit_code_2(healthy, tmp_path, arguments, capsys):
    (tmp_path / "broken.py").write_text("def\n")
    assert doctor.main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_env_is_a_block_to_paste_and_keeps_secrets(healthy, monkeypatch, capsys):
    variables = {"ACCELERATE_TOKEN": "s3cret", "NCCL_DEBUG": "INFO"}
    monkeypatch.setattr(env, "look", lambda: replace(SOUND, environment=variables))
    assert env.main([]) == 0
    out = capsys.readouterr().out
    assert out.startswith("```text\naccel_runtime: ") and "gpu 1: NVIDIA H100 80GB HBM3, 81559 MiB, sm_90" in out
    assert "NCCL_DEBUG: INFO" in out and "s3cret" not in out
    assert env.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["torch"].startswith("2.9.1+cu128")


def test_this_machine_can_be_looked_at():
    found = machine.look()
    assert found.torch["version"] and found.torch["distributed"] and found.port and found.cores >= 1


def test_torch_that_cannot_be_imported_is_reported_not_raised(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libcudnn.so.9: cannot open shared object file')\n")
    probe = str(Path(machine.probe.__file__))
    done = subprocess.run(
        [sys.executable, probe], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=60
    )
    assert "libcudnn.so.9" in json.loads(done.stdout)["error"]
