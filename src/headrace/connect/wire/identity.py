"""Who is who between the sites of a project: an authority of the project's own signs a certificate for each of them.

A certificate names a site, or the process that coordinates, and which instance of it: the folder that runs the site.
It lasts seven days and is due for the next when two thirds of that have passed. Nothing here looks at a clock.
"""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headrace.connect.wire.names import WireName, read_uris
from headrace.model.errors import ConnectError

LASTS = datetime.timedelta(days=7)
DUE_AFTER = LASTS * 2 / 3
AUTHORITY_LASTS = datetime.timedelta(days=3650)
CLOCKS_DIFFER = datetime.timedelta(days=3)
"""How much earlier a certificate begins to count: clocks of sites differ, and somebody may set one back."""
LONGEST_COMMON_NAME = 64


@dataclass(frozen=True, slots=True)
class Authority:
    """The project's own authority: what it has signed is trusted between sites, and nothing else. Both are PEM."""

    certificate: bytes
    key: bytes


def make_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def make_authority(project: str, now: datetime.datetime) -> Authority:
    key = make_key()
    signer = _load_key(key)
    name = _common_name(f"headrace {project}")
    made = _begin(name, name, signer.public_key(), now - CLOCKS_DIFFER, now + AUTHORITY_LASTS)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = made.add_extension(_usage(signs=True), critical=True)
    made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(signer.public_key()), critical=False)
    return Authority(made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), key)


def request_certificate(key: bytes) -> bytes:
    """Asks an authority to sign a key. Whose it is, is for the authority to say."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(_load_key(key), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def sign_request(authority: Authority, request: bytes, name: WireName, now: datetime.datetime) -> bytes:
    """A certificate for the key of a request. Raises ConnectError for what is no request."""
    try:
        asked = x509.load_pem_x509_csr(request)
        public = asked.public_key()
        is_whole = asked.is_signature_valid
    except (ValueError, UnsupportedAlgorithm, InvalidSignature) as error:
        raise ConnectError(f"the request for a certificate cannot be read: {error}") from error
    if not is_whole or not isinstance(public, ec.EllipticCurvePublicKey):
        raise ConnectError("the request for a certificate is not signed with the key that it is for")
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = _load_key(authority.key)
    made = _begin(_common_name(name.shown), issuer.subject, public, now - CLOCKS_DIFFER, now + LASTS)
    alternative = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(one) for one in name.to_uris()])
    made = made.add_extension(alternative, critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(_usage(signs=False), critical=True)
    used = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = made.add_extension(x509.ExtendedKeyUsage(used), critical=False)
    key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    made = made.add_extension(key_id, critical=False)
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def is_due(certificate: bytes, now: datetime.datetime) -> bool:
    """Whether it is time for the next certificate, or this one cannot be read."""
    try:
        found = x509.load_pem_x509_certificate(certificate)
    except ValueError:
        return True
    return now >= found.not_valid_after_utc - LASTS + DUE_AFTER


def is_signed_by(certificate: bytes, authority: bytes) -> bool:
    """Whether an authority, given by its certificate, has signed another one."""
    try:
        found, signer = x509.load_pem_x509_certificate(certificate), x509.load_pem_x509_certificate(authority)
        found.verify_directly_issued_by(signer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def has_run_out(certificate: bytes, now: datetime.datetime) -> bool:
    """Whether a certificate does not count any more, or cannot be read."""
    try:
        return now >= x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    except ValueError:
        return True


def read_owner(certificate: bytes, authority: bytes, request: bytes) -> WireName | None:
    """Whose a certificate was that may have run out, if an authority has signed it, and a request for the next one is
    signed with the same key: only its owner has that. None otherwise.
    """
    if not is_signed_by(certificate, authority):
        return None
    try:
        found, asked = x509.load_pem_x509_certificate(certificate), x509.load_pem_x509_csr(request)
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        is_owner = asked.is_signature_valid and asked.public_key() == found.public_key()
    except (ValueError, x509.ExtensionNotFound, UnsupportedAlgorithm, InvalidSignature):
        return None
    return read_uris(names.get_values_for_type(x509.UniformResourceIdentifier)) if is_owner else None


def fingerprint(certificate: bytes) -> str:
    """SHA-256, in hexadecimal: enough to recognise an authority that one has never talked to."""
    try:
        found = x509.load_pem_x509_certificate(certificate)
    except ValueError as error:
        raise ConnectError(f"the authority's certificate cannot be read: {error}") from error
    return hashlib.sha256(found.public_bytes(serialization.Encoding.DER)).hexdigest()


def _begin(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    begins: datetime.datetime,
    ends: datetime.datetime,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(begins).not_valid_after(ends)


def _common_name(text: str) -> x509.Name:
    """What people see of a certificate. Nobody decides by it, so it may be cut short."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:LONGEST_COMMON_NAME])])


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _load_key(key: bytes) -> ec.EllipticCurvePrivateKey:
    found = serialization.load_pem_private_key(key, None)
    assert isinstance(found, ec.EllipticCurvePrivateKey), "all our keys are of this kind"
    return found
