#!/usr/bin/env python3
"""Migrate a training script, check the result, verify that it trains the same, and print the report of SKILL.md.

convert.py train.py --output migrated -- --epochs 1     what follows after -- are the script's own arguments
convert.py train.py --write                             in place; verified before anything is written
convert.py train.py                                     writes nothing: the plan, and the verification of it

Exit status: 0 done and the same; 1 something is left by hand, or it trains differently; 2 wrong usage, or it cannot be run;
3 nothing was migrated. Needs nothing but accel-migrate, and torch for the verification.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys

MOST = 20
"""Findings and differences that are printed."""


def main() -> int:
    arguments, script_args = parse(sys.argv[1:])
    migrated = accel("migrate", arguments.path, "--format", "json", *targets(arguments), *places(arguments))
    program = (migrated["programs"] or [{"status": "unreadable", "reason": "; ".join(migrated["errors"])}])[0]
    report: dict = {"path": arguments.path, "status": program["status"], "reason": program.get("reason", "")}
    if program["status"] not in ("changed", "unchanged"):
        show(report, arguments.json)
        return 3 if program["status"] == "refused" else 2
    result = os.path.join(arguments.output, os.path.basename(arguments.path)) if arguments.output else arguments.path
    report |= {
        "result": result,
        "edits": migrated["summary"]["edits"],
        "by_hand": [place(f) for f in program["findings"] if f["severity"] in ("error", "warning")],
    }
    if not arguments.no_verify:
        pair = [arguments.path, *([result] if arguments.output else [])]
        verify = ["verify", *pair, "--processes", arguments.processes, *steps(arguments)]
        verified = attempt(*verify, "--format", "json", "--", *script_args)
        report["proof" if isinstance(verified, dict) else "unproved"] = (
            proof(verified) if isinstance(verified, dict) else verified
        )
        report["command"] = " ".join(["accel", *verify, *(["--", *script_args] if script_args else [])])
    if "unproved" in report and arguments.write:
        show(report, arguments.json)
        return complain("nothing was written: it could not be verified")
    if arguments.write and report.get("proof", {}).get("verdict") != "different":
        accel("migrate", arguments.path, "--write", "--format", "json", *targets(arguments))
    if arguments.output or arguments.write:
        report["check"] = [
            place(f) for f in accel("check", result, "--format", "json")["findings"] if f["severity"] != "info"
        ]
    show(report, arguments.json)
    if "unproved" in report:
        return 2
    return int(bool(report["by_hand"] or report.get("check") or report.get("proof", {}).get("verdict") == "different"))


def parse(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    at = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="the script that is run")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--output", metavar="DIR", help="write the program to DIR")
    where.add_argument("--write", action="store_true", help="write in place, unless it trains differently")
    parser.add_argument("--target", choices=("accel_runtime", "accelerate"), help="the library of the result")
    parser.add_argument("--processes", default="1,2", help="to verify on (default: 1,2)")
    parser.add_argument("--to-end", action="store_true", help="verify to the script's end")
    parser.add_argument("--steps", metavar="K", help="optimizer steps to verify (default: 20)")
    parser.add_argument("--no-verify", action="store_true", help="do not run anything")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    return parser.parse_args(argv[:at]), argv[at + 1 :]


def targets(arguments: argparse.Namespace) -> list[str]:
    return ["--target", arguments.target] if arguments.target else []


def steps(arguments: argparse.Namespace) -> list[str]:
    return ["--to-end"] if arguments.to_end else ["--steps", arguments.steps] if arguments.steps else []


def places(arguments: argparse.Namespace) -> list[str]:
    return ["--output", arguments.output] if arguments.output else []


def accel(*arguments: str) -> dict:
    """The JSON which `accel ARGUMENTS` prints; ends the program where there is none."""
    answer = attempt(*arguments)
    return answer if isinstance(answer, dict) else sys.exit(complain(answer))


def attempt(*arguments: str) -> dict | str:
    """The JSON which `accel ARGUMENTS` prints, or what it says instead."""
    here = importlib.util.find_spec("accel_migrate") is not None
    if not here and shutil.which("accel") is None:
        sys.exit(complain("accel-migrate is not installed: pip install 'accel-migrate[runtime]'"))
    code = "import sys; from accel_migrate.command.umbrella import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [*([sys.executable, "-c", code] if here else ["accel"]), *arguments], capture_output=True, text=True
    )
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return done.stderr.strip() or done.stdout.strip() or f"accel {arguments[0]} ended with {done.returncode}"


def complain(text: str) -> int:
    print(text[-2000:], file=sys.stderr)
    return 2


def place(finding: dict) -> str:
    return f"{finding['path']}:{finding['line']}: {finding['rule']}: {finding['message']}; {finding['advice']}"


def proof(verified: dict) -> dict:
    runs = verified["comparisons"]
    losses = [run["largest"]["loss"] for run in runs if "loss" in run["largest"]]
    return {
        "verdict": verified["verdict"],
        "processes": [run["processes"] for run in runs],
        "steps": max((run["steps"] for run in runs), default=0),
        "loss": max(losses, default=None),
        "why": [
            line
            for run in runs
            for line in (*run["reasons"], *(d["text"] for d in run["differences"] if not d["expected"]))
        ][:MOST],
        "unverified": sorted({text for run in runs for text in run["unverified"]}),
    }


def show(report: dict, as_json: bool) -> None:
    print(json.dumps(report, indent=2) if as_json else "\n".join(lines(report)))


def lines(report: dict) -> list[str]:
    if "result" not in report:
        return [f"## {report['path']} on several processes", f"- Result: nothing was migrated: {report['reason']}"]
    found = [f"- Result: {report['result']}, {report['edits']} edits; left by hand: {len(report['by_hand'])}"]
    found += [f"  - {text}" for text in report["by_hand"][:MOST]]
    if "check" in report:
        found += [
            f"- Check: {len(report['check']) or 'nothing'} wrong",
            *(f"  - {text}" for text in report["check"][:MOST]),
        ]
    if "proof" in report:
        ran = report["proof"]
        many = " and ".join(map(str, ran["processes"]))
        within = "" if ran["loss"] is None else f", losses within {ran['loss']:.1e}"
        found += [
            f"- Proof: `{report['command']}`: {ran['verdict']} on {many} processes, {ran['steps']} steps{within}",
            *(f"  - {text}" for text in ran["why"]),
        ]
        found += [f"- Not verified: {text}" for text in ran["unverified"]]
    elif "unproved" in report:
        found.append(f"- Proof: could not be run: {report['unproved'].splitlines()[-1]}")
    else:
        found.append("- Proof: none, nothing was run")
    return [
        f"## {report['path']} on several processes",
        *found,
        f"- Launch: accel launch --num_processes N {report['result']}",
    ]


if __name__ == "__main__":
    sys.exit(main())
