"""The questions of `accel config`. Which are asked depends on the answers so far, and on what this machine has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..settings.errors import LaunchError
from ..settings.offered import SWITCH_OF, offered
from ..settings.table import SETTINGS

Answers = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        name: the setting that it is for.
        text: what is asked.
        default: the answer on Enter, as text; "" leaves the setting out.
        choices: answer -> what it means; without, text is typed in.
        when: whether it is asked after these answers.
    """

    name: str
    text: str
    default: str = ""
    choices: dict[str, str] | None = None
    when: Callable[[Answers], bool] = lambda answers: True

    def check(self, text: str) -> str | None:
        """What is wrong with an answer that was typed in; None if nothing."""
        try:
            self.read(text)
        except ValueError as error:
            return str(error)
        return None

    def read(self, text: str) -> Any:
        """The value of an answer; None leaves the setting out."""
        return SETTINGS[self.name].kind.read(text) if text.strip() else None


_STRATEGIES = {
    "": "data parallel: every process holds the whole model",
    "FSDP": "FSDP: parameters, gradients and optimizer states are sharded",
    "DEEPSPEED": "DeepSpeed",
}
_YES_NO = {"": "no", "true": "yes"}
_SCRIPT = {"": "as the script says", "true": "yes", "false": "no"}


def _several(answers: Answers) -> bool:
    return bool(answers.get("num_machines", 1) > 1)


def _fsdp(answers: Answers) -> bool:
    return bool(answers.get("distributed_type") == "FSDP")


def _deepspeed(answers: Answers) -> bool:
    return bool(answers.get("distributed_type") == "DEEPSPEED")


def questions(devices: int) -> list[Question]:
    """All questions for a machine with `devices` accelerators."""
    many = f"one per device, {devices} on this machine" if devices else "one: this machine has no devices"
    strategies = {kind: text for kind, text in _STRATEGIES.items() if not kind or offered(SWITCH_OF[kind])}
    wraps = {
        "TRANSFORMER_BASED_WRAP": "each transformer block",
        "SIZE_BASED_WRAP": "modules from a size on",
        "NO_WRAP": "the model as a whole",
    }
    return [
        Question("num_machines", "How many machines?", "1"),
        Question("main_process_ip", "Address of machine 0?", when=_several),
        Question("main_process_port", "A free port of machine 0? (Enter: 29500)", when=_several),
        Question(
            "rdzv_backend",
            "How do they meet?",
            "static",
            {
                "static": "static: machine 0 waits for the others",
                "c10d": "c10d: machines may come back after a failure",
            },
            _several,
        ),
        Question(
            "cpu",
            "What to train on?",
            "" if devices else "true",
            {"": "devices, where there are any", "true": "the CPU"},
        ),
        Question("num_processes", f"How many processes, on all machines together? (Enter: {many})"),
        *([Question("distributed_type", "How is the training spread?", "", strategies)] if len(strategies) > 1 else []),
        Question("fsdp_auto_wrap_policy", "What is sharded as a unit?", "TRANSFORMER_BASED_WRAP", wraps, _fsdp),
        Question(
            "fsdp_transformer_layer_cls_to_wrap",
            "Classes of the blocks? (Enter: found by themselves)",
            when=lambda a: a.get("fsdp_auto_wrap_policy") == "TRANSFORMER_BASED_WRAP",
        ),
        Question(
            "fsdp_min_num_params",
            "From how many parameters on?",
            "1000000",
            when=lambda a: a.get("fsdp_auto_wrap_policy") == "SIZE_BASED_WRAP",
        ),
        Question("fsdp_offload_params", "Keep parameters and optimizer states in host memory?", "", _YES_NO, _fsdp),
        Question(
            "fsdp_activation_checkpointing",
            "Compute activations again in backward, to save memory?",
            "",
            _YES_NO,
            _fsdp,
        ),
        Question("deepspeed_config_file", "DeepSpeed's JSON file? (Enter: none)", when=_deepspeed),
        Question(
            "zero_stage",
            "What does ZeRO shard?",
            "2",
            {"1": "optimizer states", "2": "and gradients", "3": "and parameters"},
            lambda a: _deepspeed(a) and "deepspeed_config_file" not in a,
        ),
        Question(
            "mixed_precision",
            "Precision of the forward pass?",
            "",
            {"": "as the script says", **{c: c for c in SETTINGS["mixed_precision"].kind.choices}},
        ),
        *([Question("tf32", "Multiply float32 matrices in tf32, where the devices can?", "", _SCRIPT)] if devices else []),
        Question("gradient_accumulation_steps", "Micro-batches per optimizer step? (Enter: as the script says)"),
    ]


def ask_all(ask: Callable[[Question], str], devices: int) -> Answers:
    """The answers that differ from the defaults; `ask` puts one question and returns the answer as text."""
    answers: Answers = {}
    for question in questions(devices):
        if question.when(answers):
            value = question.read(ask(question))
            if value is not None:
                answers[question.name] = value
    if _several(answers) and "main_process_ip" not in answers:
        raise LaunchError("several machines need the address of machine 0")
    return {name: value for name, value in answers.items() if value != SETTINGS[name].default}


def asked_on_terminal(question: Question) -> str:
    """Put a question on the terminal.

    Raises:
        KeyboardInterrupt: it was left by Ctrl-C.
    """
    import questionary

    if question.choices:
        choices = [questionary.Choice(title, value=answer) for answer, title in question.choices.items()]
        chosen = next(choice for choice in choices if choice.value == question.default)
        return str(questionary.select(question.text, choices=choices, default=chosen).unsafe_ask())
    return str(
        questionary.text(
            question.text, default=question.default, validate=lambda text: question.check(text) or True
        ).unsafe_ask()
    )


def devices() -> int:
    """Accelerators of this machine; 0 where torch, which knows, is not installed."""
    from ..launch_plan import count_devices

    try:
        return count_devices("all")
    except ImportError:
        return 0
