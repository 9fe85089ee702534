"""Taking secrets out of a whole output before it is kept; quick on what holds none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from steps.parse.secrets import HIDDEN, public_env, redact

_NEEDLES = (
    *(b"token", b"secret", b"passw", b"passphrase", b"credential", b"auth", b"bearer", b"basic "),
    *(b"api_key", b"api-key", b"apikey", b"access_key", b"access-key", b"accesskey"),
    *(b"private_key", b"private-key", b"privatekey", b"signing", b"client_key", b"client-key"),
    *(b"connection_string", b"connection-string", b"connectionstring", b"://"),
    *(b"akia", b"asia", b"aroa", b"aida", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"),
    *(b"github_pat_", b"glpat-", b"xox", b"hf_", b"hf-", b"nvapi", b"sk-", b"sk_", b"wandb"),
    *(b"aiza", b"eyj", b"?sig", b"&sig", b"x-amz-", b"?sv=", b"&sv=", b"?se=", b"&se="),
)
"""What `redact` looks for, told apart roughly and in lower case: a line without any holds none.

Searching for each alone is twenty times faster than one expression for all.
"""
_KEY_BLOCK = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)

_ENV = re.compile(rb'"env"\s*:\s*\[')
_ENV_TOKEN = re.compile(rb'"((?:\\.|[^"\\\n])*)"?|\[[^\]\n]*\]|\]')
"""A text, the tag that mpirun puts before a line, or the end of the list."""


def without_secrets(data: bytes) -> bytes:
    """Return an output with secrets replaced by ``***``, line by line; see `redact`.

    nccl-tests writes its whole environment into its JSON; only settings of the communication
    libraries stay of it.
    """
    if b"PRIVATE KEY-----" in data:
        data = _KEY_BLOCK.sub(HIDDEN.encode(), data)
    data = _without_environment(data)
    pieces, at = [], 0
    for start, end in sorted(set(_suspicious(data))):
        line = data[start:end].decode("utf-8", "surrogateescape")
        pieces += [data[at:start], redact(line).encode("utf-8", "surrogateescape")]
        at = end
    return b"".join((*pieces, data[at:])) if pieces else data


def _without_environment(data: bytes) -> bytes:
    pieces, at = [], 0
    for start in _ENV.finditer(data):
        for token in _ENV_TOKEN.finditer(data, start.end()):
            if token[0] == b"]":
                break
            name, equals, value = (token[1] or b"").decode("utf-8", "replace").partition("=")
            if token[1] is not None and not (equals and public_env(name, value)):
                pieces += [data[at : token.start()], f'"{HIDDEN}"'.encode()]
                at = token.end()
    return b"".join((*pieces, data[at:])) if pieces else data


def _suspicious(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of every line that may hold a secret."""
    lowered = data.lower()
    for needle in _NEEDLES:
        found = lowered.find(needle)
        while found >= 0:
            start = data.rfind(b"\n", 0, found) + 1
            end = data.find(b"\n", found)
            end = len(data) if end < 0 else end
            yield start, end
            found = lowered.find(needle, end)
