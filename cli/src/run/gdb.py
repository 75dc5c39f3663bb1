# For gdb: the threads of a program under `umcg run`, also those that no kernel thread runs.
#
#   umcg run --gdb-script > umcg.py
#   gdb -x umcg.py -p PID        or        gdb -x umcg.py PROGRAM CORE
#
#   info workers            all threads of the program: number, id, where each is
#   worker N                the backtrace of thread N, as `worker N bt`
#   worker N COMMAND        a command in its innermost frame, as `worker N info locals`
#   worker apply all bt     the same for each
#
# A thread that is parked or ready has its registers in its descriptor. An unwinder takes these for
# the frame that called the innermost one of the selected thread, so all commands that walk frames
# see the parked thread's. Nothing in the process is changed: core files do as well. The library's
# table `umcg_run_layout` says where all of that lies.

import re
import struct

import gdb
import gdb.unwinder

MAGIC = b"umcg-run"
VERSION = 1
WHY = {1: "waits for a word", 2: "sleeps", 3: "yields", 4: "went home"}


def read(address, form):
    """Values in the process's memory, in a form of the module struct."""
    memory = gdb.selected_inferior().read_memory(address, struct.calcsize(form))
    return struct.unpack(form, bytes(memory))


def word(address):
    return read(address, "<Q")[0]


def half(address):
    return read(address, "<I")[0]


class Layout:
    """The table of the library."""

    def __init__(self):
        # In C, whatever the selected frame's language is.
        language = gdb.parameter("language")
        try:
            gdb.execute("set language c")
            table = int(gdb.parse_and_eval("(unsigned long)&umcg_run_layout"))
            magic, version = read(table, "<8sQ")
        except (gdb.error, gdb.MemoryError):
            raise gdb.GdbError("No library of `umcg run` in this program.")
        finally:
            gdb.execute("set language " + language)
        if magic != MAGIC or version != VERSION:
            raise gdb.GdbError("The program is under `umcg run` of another version.")
        (self.first, self.next, self.serial, self.tid, self.worker, self.stand,
         self.context, self.state, self.home, self.pointer) = read(table + 16, "<10Q")


class Worker:
    """A thread of the program."""

    def __init__(self, layout, guest):
        self.tid = half(guest + layout.tid)
        self.serial = half(guest + layout.serial)
        self.why, self.call = read(guest + layout.stand, "<II")
        worker = word(guest + layout.worker)
        self.is_away = worker != 0 and half(worker + layout.state) != layout.home
        self.thread = thread_of(self.tid)
        self.context = None
        if self.is_away:
            self.home, self.thread = self.thread, None
            storage = word(worker + layout.pointer)
            servers = [thread for thread in threads() if thread.ptid[1] != self.tid]
            self.thread = next((t for t in servers if storage_of(t) == storage), None)
            if self.thread is None:
                self.context = read(worker + layout.context, "<4Q")

    def place(self):
        if not self.is_away:
            return "at home"
        if self.thread is not None:
            return "away, runs on thread %d (%s)" % (self.thread.num, self.thread.name)
        return "away, off servers; last: %s" % WHY.get(self.why, "in its own code")

    def execute(self, command):
        """A command of gdb's, in the frame where the worker stands."""
        before = gdb.selected_thread()
        try:
            if self.context is None:
                if self.thread is None:
                    raise gdb.GdbError("Its thread is not to be seen.")
                self.thread.switch()
                gdb.execute(command)
            else:
                self.execute_parked(command)
        finally:
            if before is not None and before.is_valid():
                before.switch()

    def execute_parked(self, command):
        (self.home or threads()[0]).switch()
        UNWINDER.show(self.context)
        try:
            depth, frame = programs_frame()
            frame.select()
            backtrace = re.match(r"(bt|backtrace|where)(?:\s+(\d+))?$", command)
            if backtrace:
                most = " %d" % (int(backtrace[2]) + depth) if backtrace[2] else ""
                text = gdb.execute("backtrace" + most, to_string=True)
                print(without_first(text, depth), end="")
            else:
                gdb.execute(command)
        finally:
            UNWINDER.show(None)


def programs_frame():
    """The innermost frame of the program's own, and its depth: the library's are below it."""
    first = frame = gdb.newest_frame().older()
    if frame is None:
        raise gdb.GdbError("Its frames cannot be read.")
    depth = 1
    while frame is not None and depth < 64:
        older = frame.older()
        if older is not None and (
            frame.name() == "umcg_intercept_entry" or frame.type() == gdb.SIGTRAMP_FRAME
        ):
            return depth + 1, older
        depth, frame = depth + 1, older
    return 1, first


def without_first(text, depth):
    """A backtrace without its first frames."""
    lines = text.split("\n")
    while lines and not re.match(r"#%d\b" % depth, lines[0]):
        lines.pop(0)
    return "\n".join(
        re.sub(r"^#(\d+)( *)", lambda n: "#%-*d" % (len(n[0]) - 1, int(n[1]) - depth), line)
        for line in lines
    )


def threads():
    return sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num)


def thread_of(tid):
    return next((thread for thread in threads() if tid and thread.ptid[1] == tid), None)


def storage_of(thread):
    """The thread pointer that a kernel thread runs with."""
    before = gdb.selected_thread()
    thread.switch()
    try:
        return int(gdb.newest_frame().read_register("fs_base"))
    except (gdb.error, ValueError):
        return 0
    finally:
        before.switch()


def workers():
    layout = Layout()
    guest, found = word(layout.first), []
    while guest:
        if half(guest + layout.serial):
            found.append(Worker(layout, guest))
        guest = word(guest + layout.next)
    return sorted(found, key=lambda worker: worker.serial)


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class Parked(gdb.unwinder.Unwinder):
    """Shows a saved context as the caller of the selected thread's innermost frame."""

    def __init__(self):
        super().__init__("umcg-parked")
        self.context = None

    def show(self, context):
        self.context = context
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.context is None or pending.level() != 0:
            return None
        pc, sp, fp, bp = self.context
        # The id of the outer frame is computed from its own registers.
        unwind = pending.create_unwind_info(
            FrameId(pending.read_register("rsp"), pending.read_register("rip"))
        )
        for name, value in (("rip", pc), ("rsp", sp), ("rbp", fp), ("rbx", bp)):
            unwind.add_saved_register(name, gdb.Value(value))
        return unwind


UNWINDER = Parked()
gdb.unwinder.register_unwinder(None, UNWINDER, replace=True)


class InfoWorkers(gdb.Command):
    """The threads of a program under `umcg run`, and where each is."""

    def __init__(self):
        super().__init__("info workers", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        for worker in workers():
            line = "%4d  thread %s: %s" % (worker.serial, worker.tid or "?", worker.place())
            print(line)


class WorkerCommand(gdb.Command):
    """A command for a thread of a program under `umcg run`: `worker N bt`, `worker apply all bt`"""

    def __init__(self):
        super().__init__("worker", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        argument = re.sub(r"^apply\s+", "", argument.strip())
        number, _, command = argument.partition(" ")
        command = command.strip() or "bt"
        chosen = [w for w in workers() if number == "all" or str(w.serial) == number]
        if not chosen:
            raise gdb.GdbError("worker N|apply all COMMAND; `info workers` has the numbers")
        for worker in chosen:
            print("\nworker %d, thread %s: %s" % (worker.serial, worker.tid or "?", worker.place()))
            try:
                worker.execute(command)
            except gdb.error as error:
                print(error)


InfoWorkers()
WorkerCommand()
