"""Takes secrets out of text before it becomes evidence in a document."""

from __future__ import annotations

import re

HIDDEN = "***"

_NAME = (
    r"[A-Za-z0-9_.-]*(?:token|secret|passw(?:or)?d|passwd|passphrase|credential|api[_-]?key|"
    r"apikey|access[_-]?key|private[_-]?key|signing[_-]?key|auth[_-]?key|auth[_-]?header|"
    r"connection[_-]?string|client[_-]?key)[A-Za-z0-9_.-]*"
)
_VALUE = r"(?:\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'?|[^\s,;\"'}\])]+)"

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # a whole key block may have been cut, so the end marker is optional
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
        ),
        HIDDEN,
    ),
    (re.compile(r"(?i)\b(authorization\s*[:=]\s*)[^\r\n\"']+"), rf"\g<1>{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}"), rf"\g<1> {HIDDEN}"),
    (re.compile(r"\b([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@\"']+@"), rf"\g<1>{HIDDEN}@"),
    (re.compile(rf"(?i)(?<![A-Za-z0-9_.])({_NAME}[\"']?\s*[=:]\s*){_VALUE}"), rf"\g<1>{HIDDEN}"),
    (re.compile(rf"(?i)(?<![\w-])(--?{_NAME}\s+)(?!-){_VALUE}"), rf"\g<1>{HIDDEN}"),
    (re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}"), HIDDEN),
    (re.compile(r"\bglpat-[A-Za-z0-9_-]{16,}|\bxox[abeoprs]-[A-Za-z0-9-]{10,}"), HIDDEN),
    (re.compile(r"\b(?:hf|nvapi|sk|wandb)[-_][A-Za-z0-9_-]{20,}"), HIDDEN),
    (re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"), HIDDEN),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"), HIDDEN),
    (re.compile(r"(?i)([?&](?:sig|signature|x-amz-[a-z-]+|sv|se)=)[^&\s\"']+"), rf"\g<1>{HIDDEN}"),
)

_HINT = re.compile(
    r"(?i)token|secret|passw|passphrase|credential|key|auth|bearer|basic|://|AKIA|ASIA|AROA|AIDA|"
    r"gh[pousr]_|github_pat|glpat|xox|hf_|nvapi|sk-|sk_|wandb|AIza|eyJ|sig|x-amz|connection"
)

_ENV_ALLOWED = re.compile(r"(?:NCCL|FI|UCX|RCCL|OFI_NCCL)_[A-Z0-9_]+")
_ENV_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|_KEY\b|_KEY_|AUTH")


def redact(text: str) -> str:
    """Return the text with everything that looks like a secret replaced by ``***``.

    Known token shapes, bearer and basic credentials, credentials inside URLs, private keys, and
    the values of names that smell of a secret (``NAME=value``, ``"name": "value"``, ``--name v``).
    """
    if not _HINT.search(text):
        return text
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def public_env(name: str, value: str) -> str | None:
    """Return the value of an environment variable that may be shown, or None.

    Only settings of the communication libraries are shown (NCCL, RCCL, libfabric, UCX): they
    explain why two runs of the same nodes differ.
    """
    if not _ENV_ALLOWED.fullmatch(name) or _ENV_SECRET.search(name):
        return None
    return redact(value)[:200]
