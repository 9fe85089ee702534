"""Runs last of these tests, see conftest: it takes the lab down."""

from __future__ import annotations

import pytest

from tests.cluster.lab import Lab
from tests.cluster.lifecycle import attach, down, leftovers

pytestmark = pytest.mark.cluster


def test_teardown_leaves_nothing(lab: Lab, python_image: str) -> None:
    if not lab.state.owner_pid:
        pytest.skip("this lab was started by hand to stay")
    name = lab.create_namespace()
    pod = ["run", "sleeper", f"--image={python_image}", "--restart=Never"]
    lab.kubectl(*pod, "-n", name, "--", "sleep", "1000")
    lab.wait_pods(name, {"Running": 1})
    assert leftovers()
    down()
    assert leftovers() == []
    assert attach() is None
    down()
