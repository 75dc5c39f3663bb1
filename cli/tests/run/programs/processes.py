# SPDX-License-Identifier: MIT OR Apache-2.0
"""Python beside other processes: subprocesses from several threads, pipes, limits of time, forks of
a program with threads, a loop of asyncio with sockets, processes and threads."""

import asyncio
import os
import subprocess
import threading

THREADS = 4


def from_threads():
    results = [None] * THREADS

    def run(own):
        output = subprocess.run(
            ["sh", "-c", f"read line; echo $line {own}; exit {own}"],
            input=b"given\n",
            capture_output=True,
            check=False,
        )
        results[own] = (output.returncode, output.stdout)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(at, b"given %d\n" % at) for at in range(THREADS)]


def limited():
    try:
        subprocess.run(["sleep", "1000"], timeout=0.01, check=True)
        raise AssertionError("a limit of time")
    except subprocess.TimeoutExpired:
        pass


def forks():
    event = threading.Event()
    thread = threading.Thread(target=event.wait)
    thread.start()
    for at in range(5):
        child = os.fork()
        if child == 0:
            other = threading.Thread(target=lambda: None)
            other.start()
            other.join()
            os._exit(at)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == at
    event.set()
    thread.join()


async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()


async def client(port, own):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for at in range(20):
        line = f"{own} {at}\n".encode()
        writer.write(line)
        assert await reader.readline() == line
    writer.close()
    await writer.wait_closed()


async def loop():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(client(port, own) for own in range(6)))
    server.close()
    process = await asyncio.create_subprocess_exec("echo", "said", stdout=subprocess.PIPE)
    assert (await process.communicate())[0] == b"said\n" and process.returncode == 0
    values = await asyncio.gather(*(asyncio.to_thread(pow, at, 2) for at in range(20)))
    assert values == [at * at for at in range(20)]
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.005)
        raise AssertionError("a limit of time")
    except asyncio.TimeoutError:
        pass


def asynchronous():
    asyncio.run(loop())


def main():
    for test in (from_threads, limited, forks, asynchronous):
        test()
        print(test.__name__, flush=True)


main()
