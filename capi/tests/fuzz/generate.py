#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes the calls of the fuzz target `calls`: for each prototype of the headers a function that
reads its arguments from the input, by their types and names, with what arguments.h has for them. A
type that is missing here fails, so that no new function is left out unseen.

    generate.py INCLUDE > calls.inc
"""

import pathlib
import re
import sys

# Not called, and why.
LEFT_OUT = {
    "umcg_ctl": "has a target of its own",
    "umcg_light_create": "as umcg_ctl",
    "umcg_set_preemption": "as umcg_ctl",
    "umcg_notice_blocking": "replaces code, once and for good",
    **dict.fromkeys(
        [
            "uth_init",
            "uth_init_options",
            "uth_vp_init",
            "uth_get_vpid",
            "uth_create",
            "uth_reinit",
            "uth_delete",
            "uth_switchto",
            "uth_self",
            "uth_getarg",
            "uth_setarg",
            "uth_self2",
            "uth_switchto2",
            "uth_set_name",
        ],
        "have a target of their own",
    ),
}

# These end the process when they are misused, as their headers say. So a child of a fork calls them
# first, and the caller only if that child came back. With this number it is also right if the child
# does not come back: the call may wait without an end.
FORKED = {"initsem": 0, "upsem": 0, "tsend": 1, "trecv": 1}

# Calls that may wait without an end: only where another flow cuts them short.
FOR_EVER = {
    "altsems",
    "talt",
    "umcg_accept",
    "umcg_connect",
    "umcg_read",
    "umcg_recv",
    "umcg_write",
    "umcg_send",
    "umcg_park",
    "umcg_hand_over",
    "umcg_join",
    "umcg_barrier_wait",
    "umcg_select_set_wait",
    "downsem",
    "umcg_cond_wait",
    "umcg_once_wait",
    "umcg_wait_group_wait",
    "umcg_event_wait",
    "umcg_segment_event_wait",
    "umcg_sem_acquire",
    "umcg_segment_sem_acquire",
    "umcg_tube_send",
    "umcg_tube_recv",
    "umcg_tube_reserve",
    "umcg_tube_recv_ref",
    "umcg_segment_tube_send",
    "umcg_segment_tube_recv",
}

# Calls that always wait without an end: only with no object.
ENDLESS = {
    "umcg_mutex_lock",
    "umcg_rwlock_rdlock",
    "umcg_rwlock_wrlock",
    "umcg_rwlock_uplock",
    "umcg_rwlock_upgrade",
}

# By name and type, by name, or by type: an expression of C. `in` is the input.
NAMED = {
    "deadline_ns": "a_deadline(in)",
    "time_ns": "a_deadline(in)",
    "duration_ns": "a_number(in) % 100000",
    "timeout_ns": "a_number(in)",
    "due_ns": "a_deadline(in)",
    "period_ns": "a_number(in) % 5000000",
    "patience_ns": "a_number(in)",
    "fd": "a_descriptor(in)",
    "path": "a_path(in)",
    "name": "a_name(in)",
    "milliseconds": "pick(in, 3)",
    "msz": "a_size(in)",
    "size": "a_size(in)",
    "most": "a_count(in)",
    "capacity": "a_capacity(in)",
    "buffer": "a_buffer(in)",
    "message": "a_buffer(in)",
    "p": "a_buffer(in)",
    "na": "(int)a_count_of(in)",
}
ARRAYS = {
    "Sem*const*": "some_sems(in)",
    "Sem**": "some_sems(in)",
    "umcg_segment_sem_t*const*": "some_segment_sems(in)",
    "umcg_nt_t*const*": "some_objects(in)",
    "constumcg_futex_word_t*": "some_words(in)",
    "Talt*": "some_talts(in)",
    "constTalt*": "some_talts(in)",
    "umcg_op_t*": "some_ops(in)",
    "constumcg_op_t*": "some_ops(in)",
}
TYPED = {
    "int": "(int)a_number(in)",
    "uint32_t": "(uint32_t)a_number(in)",
    "uint64_t": "a_number(in)",
    "int64_t": "(int64_t)a_number(in)",
    "int32_t": "(int32_t)a_number(in)",
    "unsignedlong": "a_capacity(in)",
    "size_t": "a_count(in)",
    "socklen_t": "pick(in, 2) * 16",
    "int*": "an_int(in)",
    "uint32_t*": "(uint32_t *)an_int(in)",
    "uint64_t*": "a_long(in)",
    "size_t*": "(size_t *)a_long(in)",
    "void**": "(void **)a_long(in)",
    "constuint32_t*": "a_word(in)",
    "void*": "a_buffer(in)",
    "constvoid*": "a_buffer(in)",
    "structsockaddr*": "an_address(in)",
    "conststructsockaddr*": "an_address(in)",
    "socklen_t*": "a_length(in)",
    "Sem*": "a_sem(in)",
    "constSem*": "a_sem(in)",
    "Tube*": "a_tube(in)",
    "constTube*": "a_tube(in)",
    "umcg_worker_t*": "a_worker(in)",
    "umcg_mutex_t*": "OBJECT(mutexes)",
    "umcg_rwlock_t*": "OBJECT(rwlocks)",
    "umcg_cond_t*": "OBJECT(conds)",
    "umcg_once_t*": "OBJECT(onces)",
    "constumcg_once_t*": "OBJECT(onces)",
    "umcg_barrier_t*": "OBJECT(barriers)",
    "umcg_wait_group_t*": "OBJECT(groups)",
    "constumcg_wait_group_t*": "OBJECT(groups)",
    "umcg_event_t*": "OBJECT(events)",
    "constumcg_event_t*": "OBJECT(events)",
    "umcg_nt_t*": "a_object(in)",
    "umcg_waitset_t*": "a_waitset(in)",
    "umcg_select_set_t*": "a_set(in)",
    "umcg_local_t*": "a_local(in)",
    "umcg_handle_t": "a_handle(in)",
    "umcg_rt_t*": "NULL",
    "umcg_segment_t*": "a_segment(in)",
    "constumcg_segment_t*": "a_segment(in)",
    "umcg_segment_sem_t*": "a_segment_sem(in)",
    "constumcg_segment_sem_t*": "a_segment_sem(in)",
    "umcg_segment_event_t*": "a_segment_event(in)",
    "constumcg_segment_event_t*": "a_segment_event(in)",
    "umcg_segment_tube_t*": "a_segment_tube(in)",
    "constumcg_segment_tube_t*": "a_segment_tube(in)",
    "constumcg_rt_options_t*": "an_rt_option(in)",
    "constumcg_spawn_attr_t*": "an_attribute(in)",
    "constumcg_segment_options_t*": "an_option(in)",
    "constchar*": "a_name(in)",
    "void*(*)(void*)": "a_function(in)",
    "void(*)(void)": "an_initializer(in)",
    "void(*)(void*)": "NULL",
}
# Functions with arguments of their own.
SPECIAL = {
    ("umcg_sleep_until_ns", "time_ns"): "a_deadline(in)",
    ("umcg_nt_timer_set_100ns", "due"): "-(int64_t)pick(in, 100)",
    ("initsem", "s"): "scratch(in)",
    ("freetube", "t"): "gone_tube(in)",
    ("umcg_rt_stop", "rt"): "NULL",
    ("umcg_rt_dump", "fd"): "-1",
    ("umcg_join", "worker"): "a_worker_or_self(in)",
    ("umcg_join_until", "worker"): "a_worker_or_self(in)",
    ("umcg_waitset_add", "word"): "a_lasting_word(in)",
    ("umcg_select_set_create", "ops"): "some_lasting_ops(in)",
    ("umcg_select_set_change", "op"): "some_lasting_ops(in)",
    ("umcg_tube_commit", "p"): "a_place(in)",
    ("umcg_tube_unreserve", "p"): "a_place(in)",
    ("umcg_tube_recv_done", "p"): "a_place(in)",
    ("umcg_close", "fd"): "a_descriptor_to_close(in)",
    ("umcg_waitset_destroy", "set"): "gone_waitset(in)",
    ("umcg_select_set_destroy", "set"): "gone_set(in)",
    ("umcg_nt_close", "object"): "gone_object(in)",
    ("umcg_tube_destroy", "t"): "gone_tube(in)",
    ("umcg_segment_close", "segment"): "gone_segment(in)",
    ("umcg_segment_sem_free", "s"): "gone_segment_sem(in)",
    ("umcg_segment_event_free", "e"): "gone_segment_event(in)",
    ("umcg_segment_tube_free", "tube"): "gone_segment_tube(in)",
    ("umcg_detach", "worker"): "gone_worker(in)",
    ("umcg_segment_set_patience", "patience_ns"): "10000000",
}
# An object that is initialised may have no waiter, not even in sets that are kept.
SCRATCH = re.compile(r"umcg_\w+_init$")
RESULTS = {
    "Tube*": "keep_tube",
    "umcg_worker_t*": "keep_worker",
    "umcg_nt_t*": "keep_object",
    "umcg_waitset_t*": "keep_waitset",
    "umcg_select_set_t*": "keep_set",
    "umcg_local_t*": "keep_local",
    "umcg_segment_t*": "keep_segment",
    "umcg_segment_sem_t*": "keep_segment_sem",
    "umcg_segment_event_t*": "keep_segment_event",
    "umcg_segment_tube_t*": "keep_segment_tube",
    "umcg_rt_t*": "keep_runtime",
}


def prototypes(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", text, flags=re.M)
    for match in re.finditer(
        r"^([a-zA-Z_][\w \*]*?[\s\*])(\w+)\(([^;{}]*)\)\s*;", text, flags=re.M
    ):
        yield match[1].replace(" ", ""), match[2], " ".join(match[3].split())


def split(parameters):
    """(type without blanks, name) of each parameter."""
    if parameters == "void":
        return []
    parts, depth, part = [], 0, ""
    for char in parameters + ",":
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += char
    result = []
    for part in parts:
        pointer = re.match(r"(.*)\(\*(\w+)\)\((.*)\)$", part)
        if pointer:
            inner = re.sub(r"(\*)\w+|(\w)\s+\w+$", r"\1\2", pointer[3]).replace(" ", "")
            result.append((pointer[1].replace(" ", "") + "(*)(" + inner + ")", pointer[2]))
            continue
        name = re.search(r"(\w+)(\[\])?$", part)
        kind = part[: name.start()].replace(" ", "") + ("*" if name[2] else "")
        result.append((kind, name[1]))
    return result


def argument(function, kind, name, has_array):
    if function in ENDLESS:
        return "NULL"
    if (function, name) in SPECIAL:
        return SPECIAL[function, name]
    if SCRATCH.match(function) and kind.endswith("*"):
        return "scratch(in)"
    if has_array and name in ("n", "count", "na"):
        return "a_count_of(in)"
    if kind in ARRAYS:
        return ARRAYS[kind]
    if name in NAMED and not (name.endswith("_ns") and kind.endswith("*")):
        return NAMED[name]
    if kind not in TYPED:
        sys.exit(
            f"generate.py: {function}: no argument for {name}, a {kind}: "
            "add one to this file and to arguments.h"
        )
    return TYPED[kind]


def main():
    include = pathlib.Path(sys.argv[1])
    functions = []
    print("/* Made by generate.py. */")
    for header in sorted([*include.glob("*.h"), *include.glob("umcg/*.h")]):
        for result, function, parameters in prototypes(header.read_text(encoding="utf-8")):
            if function in LEFT_OUT:
                continue
            kinds = split(parameters)
            has_array = any(kind in ARRAYS for kind, _ in kinds)
            arguments = [argument(function, kind, name, has_array) for kind, name in kinds]
            print(f"static void call_{function}(struct input *in)\n{{")
            print("    (void)in;")
            for index, ((kind, _), expression) in enumerate(zip(kinds, arguments)):
                print(
                    f"    __auto_type a{index} = {expression};"
                    if expression != "NULL"
                    else f"    void *a{index} = NULL;"
                )
            shown = "".join(
                f", (long long)(intptr_t)a{i}" if kind != "umcg_handle_t" else ", 0LL"
                for i, (kind, _) in enumerate(kinds)
            )
            print(f'    trace("{function}(' + ", ".join(["%#llx"] * len(kinds)) + f')"{shown});')
            call = f"{function}({', '.join(f'a{i}' for i in range(len(kinds)))})"
            if function in FORKED:
                print(f'    if (RETURNS("{function}", {FORKED[function]}, {call}))')
                print(f"        {call};")
            elif function in ("umcg_join", "umcg_join_until"):
                print(f"    joined(a0, {call});")
            elif function == "umcg_tube_close" or function == "umcg_sem_close":
                print(f"    {call};")
            elif result in RESULTS and function != "umcg_nt_dup":
                print(
                    f"    {RESULTS[result]}({call}"
                    + (", a0" if function in ("newtube", "umcg_tube_create") else "")
                    + ");"
                )
            elif function == "umcg_nt_dup":
                print(f"    keep_object({call});")
            elif function in (
                "umcg_tube_reserve",
                "umcg_tube_reserve_until",
                "umcg_tube_try_reserve",
                "umcg_tube_recv_ref",
                "umcg_tube_recv_ref_until",
                "umcg_tube_try_recv_ref",
            ):
                print(f"    keep_place({call});")
            else:
                print(f"    {call};")
            print("}\n")
            functions.append(function)
    print("static const struct call calls[] = {")
    for function in functions:
        print(f'    {{"{function}", call_{function}, {int(function in FOR_EVER)}}},')
    print("};")


main()
