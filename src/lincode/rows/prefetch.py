"""Compute the next item of an iterator in a thread while the present one is used."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def prefetch(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the items, each of which is computed while the caller uses the one before it.

    At most one item is waiting. An exception of ``items`` is raised when its turn comes. If the
    caller closes this generator, it waits for the item that is being computed and then closes
    ``items``, so that no thread remains.
    """
    end = object()
    try:
        with ThreadPoolExecutor(1, thread_name_prefix="lincode-prefetch") as pool:
            future = pool.submit(next, items, end)
            while (item := future.result()) is not end:
                future = pool.submit(next, items, end)
                yield item  # type: ignore[misc]
                del item  # so that at most two items exist while the next one is awaited
    finally:
        if isinstance(items, Generator):
            items.close()
