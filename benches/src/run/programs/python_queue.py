"""Two threads hand a number to each other through queue.Queue. An operation is there and back."""

import queue
import sys
import threading
import time


def answers(ping, pong):
    while (number := ping.get()) is not None:
        pong.put(number + 1)


def main():
    budget = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    ping, pong = queue.Queue(), queue.Queue()
    other = threading.Thread(target=answers, args=(ping, pong))
    other.start()
    operations, before, is_warm, start = 0, 0, False, time.monotonic()
    while True:
        for _ in range(16):
            ping.put(operations)
            if pong.get() != operations + 1:
                sys.exit("a wrong answer")
            operations += 1
        elapsed = time.monotonic() - start
        if not is_warm and elapsed >= budget / 8:
            before, is_warm, start = operations, True, time.monotonic()
        elif is_warm and elapsed >= budget:
            break
    print(f"ops {operations - before} seconds {elapsed:.9f} all {operations}")
    ping.put(None)
    other.join()


main()
