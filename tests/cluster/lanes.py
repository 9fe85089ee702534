"""Independent stories side by side, each on a node of its own: most of their time is waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

Story = Callable[[str], Any]
"""Given the name of a node that nobody else uses meanwhile; returns what a test looks at."""


@contextmanager
def side_by_side(
    nodes: Sequence[str], stories: Mapping[str, Story]
) -> Iterator[Mapping[str, Future[Any]]]:
    """Begin all stories, as many at a time as there are nodes, and yield their outcomes.

    Those that have not begun at the end of the `with` block never begin.
    """
    free: SimpleQueue[str] = SimpleQueue()
    for node in nodes:
        free.put(node)

    def tell(story: Story) -> Any:
        node = free.get()
        try:
            return story(node)
        finally:
            free.put(node)

    executor = ThreadPoolExecutor(len(nodes))
    try:
        yield {name: executor.submit(tell, story) for name, story in stories.items()}
    finally:
        executor.shutdown(cancel_futures=True)
