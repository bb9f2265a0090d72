"""The questions of `accel new`: one for each choice that no flag has made."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from accel_migrate.errors import UserError
from accel_migrate.scaffold import catalog
from accel_migrate.scaffold.answers import Answers


@dataclass(frozen=True)
class Question:
    """One choice.

    Attributes:
        name: the field of `Answers`.
        choices: answer -> what it means.
        several: whether any number of them may be chosen.
    """

    name: str
    text: str
    choices: dict[Any, str]
    several: bool = False


def ask_all(given: dict[str, Any], ask: Callable[[Question], Any]) -> dict[str, Any]:
    """`given` and, for what it leaves open, what `ask` returns for each question."""
    answers = dict(given)
    for question in _questions(answers):
        answers[question.name] = tuple(ask(question)) if question.several else ask(question)
    return answers


def _questions(answers: dict[str, Any]) -> Iterator[Question]:
    """Those still open; each may depend on the answers before it."""
    tasks = catalog.tasks()
    if "task" not in answers:
        yield Question(
            "task", "What is trained?", {name: f"{task.title}: {task.summary}" for name, task in tasks.items()}
        )
    if "strategy" not in answers:
        suitable = tasks[answers["task"]].strategies if answers["task"] in tasks else ()
        titles = {name: strategy.title for name, strategy in catalog.strategies().items() if name in suitable}
        yield Question("strategy", "How is it spread over processes?", titles)
    if "precision" not in answers:
        yield Question("precision", "In which precision?", {name: name for name in catalog.PRECISIONS})
    if "tracker" not in answers:
        yield Question(
            "tracker", "Where do its figures go?", {name: name for name in ("csv", "tensorboard", "wandb", "none")}
        )
    if "checkpoints" not in answers:
        yield Question("checkpoints", "Save its state, and go on from it?", {True: "yes", False: "no"})
    if "places" not in answers:
        titles = {name: place.title for name, place in catalog.places().items()}
        yield Question("places", "Where does it run, besides this machine?", titles, several=True)


def on_terminal(question: Question) -> Any:
    """Put a question on the terminal.

    Raises:
        UserError: the library that asks is not installed.
        KeyboardInterrupt: it was left by Ctrl-C.
    """
    if importlib.util.find_spec("questionary") is None:
        raise UserError("asking needs questionary: pip install 'accel-migrate[runtime]', or give flags and --yes")
    import questionary

    default = getattr(Answers, question.name, None)
    choices = [questionary.Choice(title, value=answer) for answer, title in question.choices.items()]
    if question.several:
        return questionary.checkbox(question.text, choices=choices).unsafe_ask()
    first = next((choice for choice in choices if choice.value == default), choices[0])
    return questionary.select(question.text, choices=choices, default=first).unsafe_ask()
