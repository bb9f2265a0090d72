"""From a project to its facts: scopes, then interpretation until nothing changes, then the plan for evaluation loops."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from accel_migrate.facts.accelerated import accelerator_calls
from accel_migrate.facts.coming_back import coming_back
from accel_migrate.facts.cuts import plan_cuts, stays_whole
from accel_migrate.facts.draws import plan_draws
from accel_migrate.facts.evaluation import plan_gathers
from accel_migrate.facts.facts import Facts, Gather
from accel_migrate.facts.helpers import contradicted_gathers
from accel_migrate.facts.looking import only_looked_at
from accel_migrate.facts.machine import Machine
from accel_migrate.facts.recurrent import plan_states
from accel_migrate.facts.returning import returning_gathers
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.traces import Traces
from accel_migrate.facts.tracing import innermost
from accel_migrate.facts.unshared import environment
from accel_migrate.facts.values import UNKNOWN, ClassValue, Instance
from accel_migrate.project import Project, in_import_order

MAX_PASSES = 8
MAX_SWEEPS = 2
"""How often what a settled pass did not find again is forgotten: what was derived from it goes with the next sweep."""


def gather_facts(project: Project, losses: Iterable[Gather] = ()) -> Facts:
    """The facts of the program `project`, where the losses of `losses` are computed from the whole batch."""
    facts = _empty_facts(project)
    machine = ProjectMachine(facts, project)
    machine.go_on_from(project.traces)
    machine.run_to_fixpoint()
    if facts.backwards and not accelerator_calls(facts) and not any(b.with_loader for b in facts.backwards.values()) and not facts.loops:
        machine = cut_by_hand(machine)
        facts = machine.facts
    cut_states(machine)
    whole = {gather.statement: replace(gather, scope=facts.scope(gather.statement)) for gather in losses}
    facts.gathers = {**plan_gathers(facts), **plan_draws(facts), **whole}
    machine.follow(facts.gathers)
    machine.staying = coming_back(facts)
    machine.settle_meters()
    if not facts.loops and not facts.gathers:
        return facts  # nothing is shared out: another look would find the same
    machine.forget()
    machine.run_to_fixpoint()
    contradicted = contradicted_gathers(facts) | returning_gathers(facts)
    if contradicted:
        facts.gathers = {s: g for s, g in facts.gathers.items() if s not in contradicted}
        machine.follow(facts.gathers)
        machine.forget()
        machine.run_to_fixpoint()
    return facts


def accelerated_facts(project: Project) -> Facts:
    """The facts of a program that is accelerated already, as it stands: nothing is prepared or gathered but by the script."""
    machine = ProjectMachine(_empty_facts(project), project)
    machine.accelerated = True
    machine.run_to_fixpoint()
    machine.settle_meters()
    machine.facts.looked_at = set()
    machine.forget()
    machine.run_to_fixpoint()
    return machine.facts


def _empty_facts(project: Project) -> Facts:
    """Facts that know the files of `project` and nothing else."""
    facts = Facts(entry=project.entry)
    facts.sources = list(dict.fromkeys([*(s for s in project.sources.values() if s is not project.entry), project.entry]))
    for source in facts.sources:
        facts.scopes.update(source.scopes)
        facts.source_of[source.tree] = source
        facts.parents.update(source.index.parents)
    return facts


def cut_by_hand(machine: ProjectMachine) -> ProjectMachine:
    """Looks for batches that the program makes without a loader, and for the places to cut them; `machine` where one is not found."""
    if environment(machine.facts) is not None:
        return machine
    trial = ProjectMachine(_empty_facts(machine.project), machine.project)
    trial.by_hand = True
    trial.run_to_fixpoint()
    facts = trial.facts
    facts.cuts = plan_cuts(trial)
    if facts.cuts:
        trial.forget()
        trial.run_to_fixpoint()
        cut_states(trial)
    facts.unfollowed = machine.facts.unfollowed = stays_whole(facts)
    return trial if facts.cuts and facts.unfollowed is None else machine


def cut_states(machine: ProjectMachine) -> None:
    """Looks for the states that recurrent layers start from, made for whole batches; from there on they are those of each process's rows."""
    states = plan_states(machine.facts)
    if not states <= machine.facts.states:
        machine.facts.states |= states
        machine.forget()
        machine.run_to_fixpoint()


class ProjectMachine(Machine):
    """A machine that knows the files of a project."""

    def __init__(self, facts: Facts, project: Project) -> None:
        super().__init__(facts)
        self.project = project
        self.active: set[Scope] = set()
        self.modules = in_import_order(project)
        self.known = Traces()
        self.slots = self.known.slots

    def project_module(self, name: str, frame: object):
        return self.project.find(name)

    def run_to_fixpoint(self) -> None:
        """Passes until attributes, containers and globals hold nothing new."""
        self.traces = None if self.by_hand or self.accelerated else self.known
        planned = *self.plan, *self.hoisted, *self.staying, *self.whole_counts, *self.facts.states
        self.planned = {innermost(self.facts, node) for node in planned}
        sweeps = 0
        for number in range(MAX_PASSES):
            self.run(last=number == MAX_PASSES - 1)
            if self.changed:
                continue
            if sweeps == MAX_SWEEPS or not self.narrow():
                break
            sweeps += 1

    def go_on_from(self, traces: Traces) -> None:
        """Runs that were traced before, in this program or in what it was, are followed."""
        self.known, self.slots = traces, traces.slots
        self.slots.empty()

    def settle_meters(self) -> None:
        """From now on it is known which functions run models."""
        self.active = {f.scope for f in (*self.facts.forwards.values(), *self.facts.backwards.values())}
        self.facts.looked_at = only_looked_at(self.facts)
        self.meters_known = True

    def forget(self) -> None:
        """Starts over: under a plan, rows that were local are global."""
        super().forget()
        self.module_frames.clear()

    def run(self, last: bool) -> None:
        """One pass over the whole program; what earlier passes learned of attributes and globals stays.

        Functions that nothing reaches wait for a pass in which the rest has settled, or for the `last` one.
        """
        facts = self.facts
        self.begin_pass()
        for table in (facts.values, facts.external, facts.methods, facts.conversions, facts.forwards, facts.bindings, self.memo, self.runs):
            table.clear()
        facts.visited.clear()
        facts.blind_forwards.clear()
        facts.trained_statistics.clear()
        for backward in facts.backwards.values():  # kept, so that what feeds one is known before it is reached
            backward.values, backward.with_loader = UNKNOWN, False
        self.order = 0
        known = self._lasting()
        for source in self.modules:
            self.run_module(facts.scopes[source.tree])
        self.changed |= self._lasting() != known
        if last or not self.changed:
            known = self._lasting()
            self.run_unreached()
            self.changed |= self._lasting() != known
        for figure in facts.trained_statistics:  # a detached figure would train another model
            facts.conversions.pop(figure, None)

    def _lasting(self) -> tuple[object, ...]:
        """How much is known of what passes leave behind beside the store, and what they ask for while they run."""
        facts = self.facts
        tables = facts.backwards, facts.callees, facts.proven_models, self.kept, self.repeated
        members = facts.optimized.values(), facts.parts_of.values(), (loop.loaders for loop in facts.loops.values())
        training = sum(loop.trains for loop in facts.loops.values())
        return self.trains_tensors, facts.lineages, training, *map(len, tables), *(sum(map(len, sets)) for sets in members)

    def run_unreached(self) -> None:
        """Functions which no module body reaches are run with unknown arguments."""
        reached = set(self.facts.visited)
        for node, scope in list(self.facts.scopes.items()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and node not in self.facts.visited:
                cls = scope.enclosing_class
                receiver = None
                if cls is not None:
                    receiver = Instance(ClassValue(cls.node, cls), cls.node)  # type: ignore[arg-type]
                bound = frozenset({receiver}) if receiver is not None else None
                self.unreached = scope.source is not self.facts.entry
                self.run_function(node, scope, self.function_env(node, [], {}, bound), receiver)
        self.unreached = False
        self.facts.visited = reached
