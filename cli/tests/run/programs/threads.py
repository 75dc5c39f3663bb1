# SPDX-License-Identifier: MIT OR Apache-2.0
"""Python's threads: the interpreter's lock, queues, events, timers, pools, thread-local data."""

import concurrent.futures
import queue
import signal
import threading
import time

THREADS = 6


def in_threads(body):
    threads = [threading.Thread(target=body, args=(at,)) for at in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def locks():
    lock = threading.Lock()
    counter = 0

    def count(_):
        nonlocal counter
        for _ in range(300):
            with lock:
                counter += 1

    in_threads(count)
    assert counter == THREADS * 300
    assert lock.acquire() and not lock.acquire(timeout=0.003)
    lock.release()


def queues():
    there, back = queue.Queue(maxsize=3), queue.Queue()

    def answer():
        while (item := there.get()) is not None:
            back.put(item * 2)

    thread = threading.Thread(target=answer)
    thread.start()
    for at in range(300):
        there.put(at)
    there.put(None)
    thread.join()
    assert [back.get_nowait() for _ in range(300)] == [2 * at for at in range(300)]
    try:
        back.get(timeout=0.003)
        raise AssertionError("an empty queue")
    except queue.Empty:
        pass


def conditions():
    condition, turn = threading.Condition(), 0
    barrier, started = threading.Barrier(THREADS), threading.Event()

    def take_turns(own):
        nonlocal turn
        started.wait()
        barrier.wait()
        for _ in range(20):
            with condition:
                condition.wait_for(lambda: turn % THREADS == own)
                turn += 1
                condition.notify_all()

    threading.Timer(0.003, started.set).start()
    in_threads(take_turns)
    assert turn == THREADS * 20


def computing():
    """Threads that only compute give up the interpreter's lock by its timer."""
    local = threading.local()

    def compute(own):
        local.value = own
        value = 0
        for at in range(20000):
            value = (value * 31 + at) % 1000003
        assert local.value == own
        results[own] = value

    results = [None] * THREADS
    in_threads(compute)
    assert len(set(results)) == 1 and results[0] is not None


def pools():
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        assert list(pool.map(lambda value: value * value, range(100))) == [
            value * value for value in range(100)
        ]
        slow = pool.submit(time.sleep, 0.005)
        done, pending = concurrent.futures.wait([slow], timeout=0)
        assert slow.result() is None and len(done) + len(pending) == 1
        failing = pool.submit(lambda: 1 // 0)
        assert isinstance(failing.exception(), ZeroDivisionError)


def signals():
    """A handler runs in the main thread, while that waits for another."""
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(threading.current_thread()))

    def send():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        time.sleep(0.003)

    thread = threading.Thread(target=send)
    thread.start()
    thread.join()
    assert seen == [threading.main_thread()]


def main():
    for test in (locks, queues, conditions, computing, pools, signals):
        test()
        print(test.__name__, flush=True)
    daemon = threading.Thread(target=time.sleep, args=(1000,), daemon=True)
    daemon.start()


main()
