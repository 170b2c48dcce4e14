"""Wait for the next item of an iterator so that signals are still handled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

Item = TypeVar("Item")
WAIT_SECONDS = 0.2
"""The longest wait after which signals are handled."""


def interruptible(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items, each of which is computed in a thread when it is needed.

    Python handles signals such as Ctrl-C between the steps of the main thread. It could not do so
    while the main thread waits in compiled code for data that may never come. Here it waits for a
    thread instead, with a timeout, because a signal that arrives just before a wait does not end
    it. If a signal raises an exception, a thread that still waits is left behind.
    """
    end: Any = object()
    wanted: SimpleQueue[bool] = SimpleQueue()
    computed: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def compute() -> None:
        while wanted.get():
            try:
                computed.put((next(items, end), None))
            except BaseException as error:
                computed.put((end, error))

    Thread(target=compute, name="lincode-read", daemon=True).start()
    try:
        while True:
            wanted.put(True)
            item, error = _wait_for(computed)
            if error is not None:
                raise error
            if item is end:
                return
            yield item
    finally:
        wanted.put(False)


def _wait_for(queue: SimpleQueue[Item]) -> Item:
    while True:
        with suppress(Empty):
            return queue.get(timeout=WAIT_SECONDS)
