"""`accel lsp`: the linter for editors, by the language server protocol on standard input and output.

https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

from accel_migrate import __version__
from accel_migrate.check.alarms import Fault
from accel_migrate.check.check import Wanted
from accel_migrate.check.document import faults_of, mended
from accel_migrate.command.settings import CHECK, read_settings
from accel_migrate.edits import Severity
from accel_migrate.errors import UserError
from accel_migrate.report.outcome import place_of

SOURCE = "accel"
_LEVELS = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the editor closes the connection; return the exit status."""
    parser = argparse.ArgumentParser(prog="accel lsp", description="The linter for editors: diagnostics and quick fixes, on standard input and output.")
    parser.parse_args(sys.argv[1:] if argv is None else argv)
    server().start_io()
    return 0


def server() -> LanguageServer:
    """A server that checks a file when it is opened or saved, and offers its fixes."""
    made = LanguageServer("accel-lsp", __version__)
    known: dict[str, list[Fault]] = {}

    def publish(uri: str) -> None:
        document = made.workspace.get_text_document(uri)
        faults = _faults(document)
        if faults is not None:
            known[uri] = faults
            made.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, [_diagnostic(f) for f in faults]))

    @made.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @made.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @made.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        known.pop(params.text_document.uri, None)

    @made.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]))
    def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        document = made.workspace.get_text_document(params.text_document.uri)
        faults = known.get(params.text_document.uri, [])
        return [_action(document, f) for f in faults if f.fix is not None and f.source.text == document.source and _meets(_range(f), params.range)]

    return made


def _faults(document: TextDocument) -> list[Fault] | None:
    path = Path(to_fs_path(document.uri) or document.path)
    try:
        settings = read_settings(path, CHECK)
    except UserError:
        return faults_of(path, document.source)
    return faults_of(path, document.source, Wanted(settings.select or frozenset(), settings.ignore or frozenset()))


def _diagnostic(fault: Fault) -> types.Diagnostic:
    message = f"{fault.message}\n{fault.advice}" if fault.advice else fault.message
    return types.Diagnostic(_range(fault), message, severity=_LEVELS[fault.severity], code=fault.rule, source=SOURCE)


def _range(fault: Fault) -> types.Range:
    """The lines and columns of a fault, counted from 0, in UTF-16 units."""
    place, lines = place_of(fault.source, fault.node), fault.source.text.split("\n")
    first, last = (place.line or 1) - 1, place.end_line - 1
    start = types.Position(first, _units(lines[first], place.column - 1))
    return types.Range(start, types.Position(last, _units(lines[last], place.end_column - 1)))


def _units(line: str, column: int) -> int:
    return len(line[:column].encode("utf-16-le")) // 2


def _meets(one: types.Range, other: types.Range) -> bool:
    return one.start.line <= other.end.line and other.start.line <= one.end.line


def _action(document: TextDocument, fault: Fault) -> types.CodeAction:
    lines = document.source.split("\n")
    everything = types.Range(types.Position(0, 0), types.Position(len(lines), 0))
    edit = types.WorkspaceEdit(changes={document.uri: [types.TextEdit(everything, mended(fault))]})
    unsafe = "" if fault.fix is not None and fault.fix.safe else " (look at the result)"
    return types.CodeAction(f"{fault.rule}: mend{unsafe}", kind=types.CodeActionKind.QuickFix, diagnostics=[_diagnostic(fault)], edit=edit)
