/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* 200,000 uths at once, with vm.max_map_count at its default: each runs, waits in the middle, and
 * ends. */
#include <stdint.h>

#include "check.h"
#include "uth.h"

static uth_t main_thread;
static long begun, ended;

static void body(void *arg)
{
    intptr_t mine = (intptr_t)arg;
    begun++;
    uth_switchto(uth_self(), main_thread);
    MUST(mine == (intptr_t)uth_getarg(uth_self()));
    ended++;
}

static void round_of(uth_t *uths, int count)
{
    begun = ended = 0;
    for (int i = 0; i < count; i++) {
        uths[i] = uth_create(body, (void *)(intptr_t)i);
        MUST(uths[i]);
    }
    for (int i = 0; i < count; i++)
        uth_switchto(main_thread, uths[i]);
    CHECK("each began", begun == count && ended == 0);
    for (int i = count - 1; i >= 0; i--)
        uth_switchto(main_thread, uths[i]);
    CHECK("each ended", ended == count);
    for (int i = 0; i < count; i++)
        uth_delete(uths[i]);
}

static long resident_kb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

int main(void)
{
    int count = check_count("UMCG_TEST_UTHS", 200000);
    uth_t *uths = (uth_t *)malloc((size_t)count * sizeof *uths);

    check_start(120);
    MUST(uths);
    uth_init(0);
    MUST(uth_vp_init(0) == 0);
    main_thread = uth_self();
    round_of(uths, count);
    printf("%d uths, at most %ld MB resident\n", count, resident_kb() / 1024);
    round_of(uths, count); /* recycled */
    printf("and again, at most %ld MB\n", resident_kb() / 1024);
    free(uths);
    return check_done();
}
