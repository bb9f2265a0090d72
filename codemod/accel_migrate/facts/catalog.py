"""Tables: what PyTorch's names make and do. A new name is one more entry here."""

from __future__ import annotations

from accel_migrate.facts import graphs, trackers
from accel_migrate.facts.values import Role

LOADERS = {
    "torch.utils.data.DataLoader",
    "torch.utils.data.dataloader.DataLoader",
    *graphs.LOADERS,
    "torchdata.stateful_dataloader.StatefulDataLoader",
    "monai.data.DataLoader",
}
DISTRIBUTED_SAMPLERS = {
    "torch.utils.data.DistributedSampler",
    "torch.utils.data.distributed.DistributedSampler",
}
SCALERS = {"torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"}
AUTOCASTS = {"torch.cuda.amp.autocast", "torch.amp.autocast", "torch.autocast", "torch.cuda.amp.autocast_mode.autocast"}
DATA_PARALLEL = {"torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel.DataParallel"}
DISTRIBUTED_DATA_PARALLEL = {
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "apex.parallel.DistributedDataParallel",
}
CLIPPING = {
    "torch.nn.utils.clip_grad_norm_": "clip_grad_norm_",
    "torch.nn.utils.clip_grad_norm": "clip_grad_norm_",
    "torch.nn.utils.clip_grad.clip_grad_norm_": "clip_grad_norm_",
    "torch.nn.utils.clip_grad_value_": "clip_grad_value_",
    "torch.nn.utils.clip_grad.clip_grad_value_": "clip_grad_value_",
}
SEEDERS = {
    "torch.manual_seed",
    "torch.random.manual_seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.cuda.random.manual_seed_all",
    "torch.mps.manual_seed",
    "torch.xpu.manual_seed",
    "random.seed",
    "numpy.random.seed",
}
AVAILABILITY = {
    "torch.cuda.is_available",
    "torch.cuda.device_count",
    "torch.backends.mps.is_available",
    "torch.mps.is_available",
    "torch.accelerator.is_available",
    "torch.xpu.is_available",
}
CURRENT_ACCELERATOR = {"torch.accelerator.current_accelerator", "torch.cuda.current_device"}
NO_GRAD = {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.inference_mode"}
PROGRESS_BARS = {"tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.trange", "tqdm.auto.trange", "tqdm.notebook.tqdm", "tqdm.std.tqdm"}
WRITERS = {
    "torch.utils.tensorboard.SummaryWriter",
    "torch.utils.tensorboard.writer.SummaryWriter",
    "tensorboardX.SummaryWriter",
    *trackers.MAKERS,
}
IDENTITIES = {"torch.autograd.Variable", "torch.compile", "torch.nn.SyncBatchNorm.convert_sync_batchnorm"}
"""Functions that hand on their first argument."""
TENSOR_MAKERS = {
    "torch.Tensor", "torch.tensor", "torch.as_tensor", "torch.asarray", "torch.from_numpy", "torch.FloatTensor", "torch.LongTensor",
    "torch.cuda.FloatTensor", "torch.cuda.LongTensor", "torch.DoubleTensor", "torch.cuda.DoubleTensor",
}  # fmt: skip
"""Constructors of tensors from values or (those with capitals) from sizes."""
DEEP_COPIES = {"copy.deepcopy", "copy.copy"}
PARAM_GROUPS = "param_groups"
"""The parameters of an optimizer, as it hands them on to another one within it."""
MODEL_AVERAGES = {"torch.optim.swa_utils.AveragedModel"}
BATCH_WRAPPERS = {"enumerate", "zip", "iter", "reversed", "itertools.chain", "itertools.cycle", "itertools.islice", *PROGRESS_BARS}

METRIC_SCHEDULERS = {"torch.optim.lr_scheduler.ReduceLROnPlateau"}
MODEL_FACTORY_PREFIXES = ("torchvision.models.", "timm.create_model", "timm.models.", "timm.layers.", "segmentation_models_pytorch.", "torchvision.ops.")
MODEL_BASES = {
    "torch.nn.Module",
    "torch.nn.modules.Module",
    "torch.nn.modules.module.Module",
    "torch.jit.ScriptModule",
    "transformers.PreTrainedModel",
    "torch_geometric.nn.MessagePassing",
}
LIGHTNING_PREFIXES = ("pytorch_lightning", "lightning", "lightning_fabric")
HF_TRAINERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer", "trl.")

RANDOM_DRAWS = {
    "torch.randn", "torch.rand", "torch.randint", "torch.normal", "numpy.random.rand", "numpy.random.randn", "numpy.random.random",
    "numpy.random.random_sample", "numpy.random.normal", "numpy.random.uniform", "numpy.random.randint", "numpy.random.beta",
}  # fmt: skip
TIME_FIRST = {"RNN", "LSTM", "GRU", "Transformer", "TransformerEncoderLayer", "TransformerDecoderLayer", "MultiheadAttention"}
"""Layers that take time as the first dimension, and the rows as the second, unless told otherwise."""
RANDOM_LIKES = {"torch.randn_like", "torch.rand_like", "torch.randint_like"}
ROW_DRAWS = {"torch.bernoulli", "torch.multinomial", "torch.normal", "torch.poisson", "torch.binomial", "torch.nn.functional.gumbel_softmax"}
"""Functions that draw for each row of a tensor they are given."""
METHOD_DRAWS = {
    "bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "multinomial", "normal_", "random_", "rsample",
    "sample", "uniform_",
}  # fmt: skip
"""Methods of tensors and distributions that draw for each row."""
ENVIRONMENTS = ("gym.", "gymnasium.", "gym_minigrid.", "minigrid.", "pettingzoo.", "procgen.", "dm_control.", "atari_py.", "ale_py.", "unityagents.", "mlagents_envs.", "stable_baselines3.", "baselines.")
"""Beginnings of the names of libraries of environments for reinforcement learning."""
OLD_ITERATORS = {"Iterator", "BPTTIterator", "BucketIterator"}
"""Classes of torchtext that yielded batches until version 0.12."""
BATCH_PERMUTATIONS = {"torch.randperm", "numpy.random.permutation"}

REDUCED_LOSSES = {
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss",
    "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
}  # fmt: skip
CLASS_WEIGHTED_LOSSES = {"cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss"}

ROW_REDUCTIONS = {"mean": "mean", "sum": "sum", "nanmean": "mean", "nansum": "sum", "count_nonzero": "sum"}
OTHER_REDUCTIONS = {
    "all", "amax", "amin", "any", "argmax", "argmin", "corrcoef", "cov", "logsumexp", "max", "median", "min", "nanmedian", "nanquantile", "norm", "prod",
    "quantile", "std", "unique", "var",
}  # fmt: skip
SELECTIONS = {"argsort", "kthvalue", "msort", "sort", "topk"}
"""They compare along the last dimension unless told otherwise."""
ELEMENTWISE = {
    "add", "clamp", "clip", "div", "divide", "lerp", "masked_fill", "maximum", "minimum", "mul", "multiply", "sub", "subtract", "true_divide", "where",
}  # fmt: skip
"""Functions and methods which meet each element of one operand with those of the others."""
BATCH_SIZES = {"num_graphs"}
"""Attributes of batches that count their samples: those of PyTorch Geometric."""
PRODUCTS = {"mm", "matmul", "__matmul__"}
"""Methods that multiply matrices."""
SCALAR_PRODUCTS = {"dot", "inner", "vdot"}
TENSOR_PRODUCTS = {f"{package}.{name}" for package in ("torch", "torch.linalg", "numpy") for name in {*PRODUCTS, *SCALAR_PRODUCTS}}
ROW_COUPLING = {"cdist", "corrcoef", "cov", "pairwise_distance"}

IN_PLACE_AT = {"index_add_", "index_copy_", "index_put_", "scatter_add_", "scatter_"}
"""Methods that write rows to given places."""
IN_PLACE = {
    "add_", "addcdiv_", "addcmul_", "clamp_", "copy_", "div_", "fill_", "lerp_", "mul_", "sub_", "zero_", *IN_PLACE_AT,
}  # fmt: skip
"""Methods that change a tensor and give it back."""
PARAMETER_MAKERS = {"torch.nn.Parameter", "torch.nn.parameter.Parameter"}
PARAMETER_CONTAINERS = {"torch.nn.ParameterList", "torch.nn.ParameterDict"}
DETACHING = {"data", "detach", "detach_"}

FINITENESS = {"isnan", "isinf", "isfinite"}
HOST_CONVERSIONS = {"numpy", "tolist"}
KEEPS_SPREAD = {
    "abs", "bfloat16", "bool", "byte", "clamp", "clone", "contiguous", "cpu", "cuda", "data", "detach", "detach_", "double",
    "exp", "flatten", "float", "half", "int", "long", "reshape", "requires_grad_", "squeeze", "to", "type", "type_as",
    "unsqueeze", "view", "view_as", "mul_", "div_", "mul", "div", "add", "add_", "sub", "neg", "astype", "round", "copy",
}  # fmt: skip
LINEAR = {
    "array", "asarray", "astype", "bfloat16", "clone", "contiguous", "copy", "cpu", "cuda", "data", "detach", "detach_", "diag", "double", "expand", "expand_as", "flatten",
    "float", "gather", "grad", "half", "index_select", "item", "mean", "nanmean", "nansum", "narrow", "neg", "negative", "numpy", "permute",
    "requires_grad_", "reshape", "retain_grad", "select", "squeeze", "sum", "t", "to", "tolist", "trace", "transpose", "type", "type_as",
    "unsqueeze", "view", "view_as",
}  # fmt: skip
"""Functions and methods that make of a mean over the rows such a mean, and of a sum a sum."""
QUESTIONS = {"bool", "eq", "ge", "gt", "isfinite", "isinf", "isnan", "le", "logical_and", "logical_not", "logical_or", "lt", "ne"}
"""Functions and methods that answer with true or false for each row."""
PLACES = {"nonzero", "argwhere", "flatnonzero"}
"""Functions and methods that tell where a mask holds."""
TENSOR_FACTS = {"dtype", "device", "ndim", "requires_grad", "is_cuda", "layout", "itemsize", "grad_fn", "is_leaf"}
"""Attributes of a tensor which say nothing of its rows."""


ANY_MEMBER = "*"
"""Last part of the name of a module's member that is chosen while the program runs: `getattr(torch.optim, name)`."""


RETURN_TUPLES = {"LSTM", "GRU", "RNN", "LSTMCell", "MultiheadAttention", "AdaptiveLogSoftmaxWithLoss"}


RECURRENT = {f"torch.nn.{name}" for name in ("LSTM", "GRU", "RNN")}
"""Layers that return their outputs and their state."""


def returns_tensor(name: str) -> bool:
    """Whether a layer made by `name` surely returns one tensor."""
    package, _, last = name.rpartition(".")
    return package in {"torch.nn", "torch.nn.modules"} and last not in RETURN_TUPLES


def role_of(name: str) -> Role | None:
    """The role of what calling the library's `name` makes; None where the tables do not know."""
    if name in LOADERS:
        return Role.LOADER
    if name in SCALERS:
        return Role.SCALER
    if name in WRITERS:
        return Role.WRITER
    if name in METRIC_SCHEDULERS:
        return Role.METRIC_SCHEDULER
    if name == "logging.getLogger":
        return Role.LOGGER
    if name in {"torch.device", *CURRENT_ACCELERATOR}:
        return Role.DEVICE
    if name in {"accelerate.Accelerator", "accel_runtime.Accelerator"}:
        return Role.ACCELERATOR
    if name.endswith("parse_args") or name in {"argparse.Namespace", "types.SimpleNamespace"}:
        return Role.NAMESPACE
    return _role_by_pattern(name)


def _role_by_pattern(name: str) -> Role | None:
    package, _, last = name.rpartition(".")
    if (package.startswith("torch.nn") and last.endswith("Loss")) or (package.startswith("timm.loss") and last[:1].isupper()):
        return Role.CRITERION
    if package in {"torch.nn", "torch.nn.modules", "torch_geometric.nn"} and last[:1].isupper() and last != "Parameter":
        return Role.MODEL
    if (package in {"torch.optim.lr_scheduler", "torch.optim.swa_utils"} and last in {"SWALR"}) or (
        package == "torch.optim.lr_scheduler" and last[:1].isupper()
    ):
        return Role.SCHEDULER
    if (name.startswith("transformers.get_") and name.endswith(("_schedule", "_warmup", "_scheduler"))) or name.startswith(
        "transformers.optimization.get_"
    ):
        return Role.SCHEDULER
    if last == ANY_MEMBER and package in {"torch.optim", "torch.optim.lr_scheduler"}:
        return Role.OPTIMIZER if package == "torch.optim" else Role.SCHEDULER
    if package == "torch.optim.swa_utils":
        return None
    if package.startswith("timm.optim") and last.startswith("create_optimizer"):
        return Role.OPTIMIZER
    if last[:1].isupper() and (package.startswith(("torch.optim", "timm.optim", "torch_optimizer", "bitsandbytes.optim", "apex.optimizers")) or name == "transformers.AdamW"):
        return Role.OPTIMIZER
    if name.startswith(MODEL_FACTORY_PREFIXES) or (package.startswith("transformers") and last in {"from_pretrained", "from_config"} and "Model" in package):
        return Role.MODEL
    if package.startswith("torch.utils.data") and last.endswith("Sampler"):
        return Role.SAMPLER
    return None
