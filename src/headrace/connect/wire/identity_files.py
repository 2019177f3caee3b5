"""Keys and certificates in files, for their owner alone.

authority/   certificate.pem, key.pem: the project's own authority, where the project is coordinated
identity/    key.pem, certificate.pem, authority.pem, instance: what one process shows, and whom it trusts
"""

from __future__ import annotations

import datetime
import os
import secrets
from pathlib import Path

from headrace.connect.wire.contexts import AUTHORITY, CERTIFICATE, IDENTITY_FOLDER, KEY
from headrace.connect.wire.identity import (
    Authority,
    is_due,
    is_signed_by,
    make_authority,
    make_key,
    request_certificate,
    sign_request,
)
from headrace.connect.wire.names import WireName

AUTHORITY_FOLDER = "authority"
INSTANCE_FILE = "instance"


def open_authority(root: Path, project: str, now: datetime.datetime) -> Authority:
    """The authority of a project, which is made when it is first asked for."""
    folder = root / AUTHORITY_FOLDER
    certificate, key = folder / CERTIFICATE, folder / KEY
    if not certificate.exists():  # which is written last
        made = make_authority(project, now)
        _write_private(key, made.key)
        _write_private(certificate, made.certificate)
    return Authority(certificate.read_bytes(), key.read_bytes())


def give_certificate(authority: Authority, root: Path, site: str | None, now: datetime.datetime) -> None:
    """Sees to it that a process has a certificate that is not due. Does nothing most of the time."""
    folder = root / IDENTITY_FOLDER
    name = WireName(site, read_instance(root))
    kept = _read(folder / CERTIFICATE)
    if kept is not None and is_signed_by(kept, authority.certificate) and not is_due(kept, now):
        return
    certificate = sign_request(authority, request_certificate(read_key(root)), name, now)
    keep_certificate(root, certificate, authority.certificate)


def keep_certificate(root: Path, certificate: bytes, authority: bytes) -> None:
    """Takes what an authority has signed; the next handshakes show it."""
    _write_private(root / IDENTITY_FOLDER / AUTHORITY, authority)
    _write_private(root / IDENTITY_FOLDER / CERTIFICATE, certificate)


def read_key(root: Path) -> bytes:
    """The key of a process, which is made when it is first asked for and stays."""
    file = root / IDENTITY_FOLDER / KEY
    if not file.exists():
        _write_private(file, make_key())
    return file.read_bytes()


def read_instance(root: Path) -> str:
    """Which of several folders this is that may run one site. A copy of a folder has the same."""
    file = root / IDENTITY_FOLDER / INSTANCE_FILE
    if not file.exists():
        keep_instance(root, new_instance())
    return file.read_text()


def new_instance() -> str:
    """Nobody else has it."""
    return secrets.token_hex(8)


def keep_instance(root: Path, instance: str) -> None:
    """The folder is this instance from now on, whatever it was copied from."""
    _write_private(root / IDENTITY_FOLDER / INSTANCE_FILE, instance.encode())


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _write_private(file: Path, content: bytes) -> None:
    """All or nothing: whoever reads the file meanwhile finds what was there before."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    unfinished.replace(file)
