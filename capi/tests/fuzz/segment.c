/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Contents of segments: operations of two openings, between which bytes of the file are
 * overwritten; and files of any contents that are opened. Every call ends, with a result or an
 * error.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <umcg/rt.h>
#include <umcg/segment.h>

enum { SIZE = 24, OPENINGS = 2 };

struct opening {
    umcg_segment_t *segment;
    umcg_segment_sem_t *sems[2];
    umcg_segment_event_t *events[2];
    umcg_segment_tube_t *tube;
};

static struct opening openings[OPENINGS];
static int file;
static off_t length;

static void name_all(struct opening *o)
{
    o->sems[0] = umcg_segment_sem(o->segment, "a", 1);
    o->sems[1] = umcg_segment_sem(o->segment, "b", 0);
    o->events[0] = umcg_segment_event(o->segment, "e", 0);
    o->events[1] = umcg_segment_event(o->segment, "m", UMCG_EVENT_MANUAL | UMCG_EVENT_SET);
    o->tube = umcg_segment_tube(o->segment, "t", SIZE, 3);
}

static void forget_all(struct opening *o)
{
    for (int i = 0; i < 2; i++) {
        umcg_segment_sem_free(o->sems[i]);
        umcg_segment_event_free(o->events[i]);
    }
    umcg_segment_tube_free(o->tube);
    memset(o->sems, 0, sizeof *o - offsetof(struct opening, sems));
}

static void open_again(struct opening *o, int fd)
{
    forget_all(o);
    umcg_segment_close(o->segment);
    if ((o->segment = umcg_segment_open_fd(fd)) != NULL) {
        umcg_segment_set_patience(o->segment, 10000000);
        name_all(o);
    }
}

void fuzz_begin(struct input *in)
{
    umcg_segment_options_t options = UMCG_SEGMENT_OPTIONS_INIT;
    struct stat status;
    options.objects = 4 + pick(in, 8);
    options.waiters = 2 + pick(in, 14);
    options.processes = 2 + pick(in, 3);
    options.bytes = 64 + byte(in) * 16;
    PROMISED((openings[0].segment = umcg_segment_create(&options)) != NULL);
    file = umcg_segment_fd(openings[0].segment);
    PROMISED(fstat(file, &status) == 0);
    length = status.st_size;
    name_all(&openings[0]);
    umcg_segment_set_patience(openings[0].segment, 10000000);
    open_again(&openings[1], file);
}

static unsigned some_bytes(struct input *in, int count)
{
    unsigned value = 0;
    while (count-- > 0)
        value = value << 8 | byte(in);
    return value;
}

/* Some bytes somewhere, of kinds that are likely to be believed. */
static void overwrite(struct input *in, int fd, off_t size)
{
    off_t at = (off_t)(some_bytes(in, 3) % (unsigned)size);
    uint64_t value = 0;
    size_t count = 1;
    switch (pick(in, 6)) {
    case 0:
        value = byte(in);
        break;
    case 1:
        value = pick(in, 5), count = 4, at &= ~(off_t)3;
        break;
    case 2:
        value = UINT64_MAX, count = 4, at &= ~(off_t)3;
        break;
    case 3:
        PROMISED(pread(fd, &value, 1, at) >= 0);
        value ^= 1u << pick(in, 8);
        break;
    case 4:
        value = (uint64_t)some_bytes(in, 2) << 48, value |= some_bytes(in, 1), count = 8,
        at &= ~(off_t)7;
        break;
    default:
        value = 1u << pick(in, 31), count = 4, at &= ~(off_t)3;
    }
    trace("overwrite %zu bytes at %ld with %#" PRIx64, count, (long)at, value);
    if (at + (off_t)count <= size)
        PROMISED(pwrite(fd, &value, count, at) == (ssize_t)count);
}

/* A file that begins as a segment does, except for some bytes. */
static void open_any(struct input *in)
{
    int fd = memfd_create("any", MFD_CLOEXEC);
    uint8_t bytes[4096];
    umcg_segment_t *any;
    ssize_t size = pread(file, bytes, sizeof bytes, 0);
    PROMISED(fd >= 0 && size > 0);
    size = pick(in, 4) ? size : (ssize_t)byte(in) * 4;
    PROMISED(pwrite(fd, bytes, (size_t)size, 0) == size);
    if (pick(in, 2))
        PROMISED(ftruncate(fd, length) == 0);
    if (size >= 64)
        overwrite(in, fd, 64);
    any = umcg_segment_open_fd(fd);
    trace("open_fd of any file: %p", (void *)any);
    if (any) {
        struct opening o = {any, {NULL, NULL}, {NULL, NULL}, NULL};
        umcg_segment_set_patience(any, 10000000);
        name_all(&o);
        umcg_segment_sem_try_acquire(o.sems[0]);
        umcg_segment_tube_length(o.tube);
        forget_all(&o);
        umcg_segment_close(any);
    }
    close(fd);
}

void fuzz_step(struct input *in)
{
    static const char *const names[] = {"a", "b", "e", "m", "t", "new", "", NULL};
    unsigned what = byte(in);
    struct opening *o = &openings[pick(in, OPENINGS)];
    umcg_segment_sem_t *list[3] = {o->sems[pick(in, 2)], o->sems[pick(in, 2)],
                                   openings[pick(in, OPENINGS)].sems[0]};
    umcg_segment_sem_t *sem = list[0];
    umcg_segment_event_t *event = o->events[pick(in, 2)];
    uint64_t soon = pick(in, 4) ? umcg_after_ns(100000) : UMCG_POLL;
    uint8_t message[SIZE] = {1};
    size_t counts[2];
    umcg_segment_t *s = o->segment;

    if (what < 80) {
        overwrite(in, file, length < 8192 || pick(in, 4) ? length : 8192);
        return;
    }
    trace("operation %u of opening %d (%s)", what, (int)(o - openings), s ? "open" : "not open");
    switch (what % 23) {
    case 0: umcg_segment_sem_acquire_until(sem, soon); break;
    case 1: umcg_segment_sem_acquire_many(sem, byte(in), soon); break;
    case 2: umcg_segment_sem_try_acquire(sem); break;
    case 3: umcg_segment_sem_try_acquire_many(sem, byte(in) << pick(in, 25)); break;
    case 4: umcg_segment_sem_release(sem, byte(in) << pick(in, 25)); break;
    case 5: umcg_segment_sem_available(sem), umcg_segment_sem_waiters(sem); break;
    case 6:
        umcg_segment_sem_any(list, (int)pick(in, 5) - 1 > 3 ? 3 : (int)pick(in, 4), soon);
        break;
    case 7: umcg_segment_event_set(event); break;
    case 8: umcg_segment_event_pulse(event), umcg_segment_event_reset(event); break;
    case 9: umcg_segment_event_wait_until(event, soon); break;
    case 10:
        umcg_segment_event_trywait(event), umcg_segment_event_is_set(event),
            umcg_segment_event_waiters(event);
        break;
    case 11: umcg_segment_tube_send_until(o->tube, message, soon); break;
    case 12: umcg_segment_tube_recv_until(o->tube, message, soon); break;
    case 13: umcg_segment_tube_try_send(o->tube, message); break;
    case 14: umcg_segment_tube_try_recv(o->tube, message); break;
    case 15:
        umcg_segment_tube_length(o->tube),
            umcg_segment_tube_waiters(o->tube, &counts[0], &counts[1]);
        break;
    case 16: pick(in, 4) ? 0 : umcg_segment_tube_close(o->tube); break;
    case 17: umcg_segment_forget(s, names[pick(in, 8)]); break;
    case 18: open_again(&openings[1], file); break;
    case 19: open_any(in); break;
    case 20: umcg_segment_sem_free(umcg_segment_sem(s, names[pick(in, 8)], byte(in))); break;
    case 21:
        umcg_segment_event_free(
            umcg_segment_event(s, names[pick(in, 8)], (int)byte(in) - 2));
        break;
    default:
        umcg_segment_tube_free(
            umcg_segment_tube(s, names[pick(in, 8)], byte(in), pick(in, 5)));
        break;
    }
}

void fuzz_end(void)
{
    for (int i = 0; i < OPENINGS; i++) {
        forget_all(&openings[i]);
        umcg_segment_close(openings[i].segment);
    }
}
