"""`accel lsp` as an editor meets it: what is wrong when a file is opened and saved, and the fix of one place."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from accel_migrate.check.document import faults_of, mended

WRONG = "from accelerate import Accelerator\n\naccelerator = Accelerator()\nif accelerator.is_main_process:\n    accelerator.save_state('é𝒳'); accelerator.save_state('b')\n"
ONE = "from accelerate import Accelerator\n\naccelerator = Accelerator()\nif accelerator.is_main_process:\n    accelerator.save_state('out')\n"
RIGHT = "from accelerate import Accelerator\n\naccelerator = Accelerator()\naccelerator.save_state('out')\n"
PATIENCE = 120
"""Seconds at most for an answer, on a busy machine."""


def test_the_text_in_the_editor_counts(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(RIGHT)
    (fault,) = faults_of(path, ONE) or []
    assert (fault.rule, mended(fault)) == ("collective-in-rank-guard", RIGHT)


def test_a_file_that_was_never_saved_is_checked(tmp_path: Path) -> None:
    assert len(faults_of(tmp_path / "new.py", ONE) or []) == 1


def test_text_that_is_no_python_yet_keeps_what_was_found(tmp_path: Path) -> None:
    assert faults_of(tmp_path / "new.py", "if accelerator.is_main") is None


def test_faults_of_imported_files_are_theirs(tmp_path: Path) -> None:
    (tmp_path / "saving.py").write_text("def save(accelerator):\n    if accelerator.is_main_process:\n        accelerator.save_state('out')\n")
    text = "from accelerate import Accelerator\nfrom saving import save\n\nsave(Accelerator())\n"
    assert faults_of(tmp_path / "train.py", text) == []


def test_an_editor_gets_diagnostics_and_a_fix(tmp_path: Path) -> None:
    pytest.importorskip("pygls")
    asyncio.run(asyncio.wait_for(_session(tmp_path / "train.py"), PATIENCE))


async def _session(path: Path) -> None:
    from lsprotocol import types
    from pygls.lsp.client import LanguageClient

    client = LanguageClient("editor", "1")
    published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
    client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: published.put_nowait(params))
    run = "import sys; from accel_migrate.command.umbrella import main; sys.exit(main(['lsp']))"
    await client.start_io(sys.executable, "-c", run, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    path.write_text(WRONG)
    document = types.TextDocumentItem(path.as_uri(), "python", 1, WRONG)
    await client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities(), root_uri=path.parent.as_uri()))
    client.initialized(types.InitializedParams())

    client.text_document_did_open(types.DidOpenTextDocumentParams(document))
    first, second = (await published.get()).diagnostics
    assert (first.code, first.source, first.severity) == ("collective-in-rank-guard", "accel", types.DiagnosticSeverity.Error)
    assert (first.range.start, second.range.start.character) == (types.Position(4, 4), 35)  # the second letter is two units of UTF-16

    version = types.VersionedTextDocumentIdentifier(2, document.uri)
    client.text_document_did_change(types.DidChangeTextDocumentParams(version, [types.TextDocumentContentChangeWholeDocument(ONE)]))
    client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(document.uri)))
    (fault,) = (await published.get()).diagnostics
    asked = types.CodeActionParams(types.TextDocumentIdentifier(document.uri), fault.range, types.CodeActionContext([fault]))
    (action,) = await client.text_document_code_action_async(asked) or []
    assert isinstance(action, types.CodeAction) and action.edit is not None and action.edit.changes is not None
    assert action.edit.changes[document.uri][0].new_text == RIGHT

    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
