/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The C library's answers about a worker's stack and processors. With the shared library they also
 * hold in workers with storage of their own. */
#include <dlfcn.h>
#include <sched.h>

#include "runtime.h"
#include "umcg.h"

/* Whether the library has taken the place of the C library's functions. */
static int is_replaced(void)
{
    Dl_info of;
    void *place = dlsym(RTLD_DEFAULT, "pthread_getattr_np");
    return place && dladdr(place, &of) && strstr(of.dli_fname, "libumcg");
}

static void knows_its_stack(const char *what)
{
    char here;
    char *low = NULL;
    size_t size = 0, guard = 0;
    cpu_set_t cpus, allowed;
    pthread_attr_t attr;

    CPU_ZERO(&cpus);
    MUST(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    CHECK(what, pthread_getattr_np(pthread_self(), &attr) == 0);
    CHECK(what, pthread_attr_getstack(&attr, (void **)&low, &size) == 0);
    CHECK(what, &here >= low && &here < low + size);
    CHECK(what, pthread_attr_getguardsize(&attr, &guard) == 0 && guard > 0);
    CHECK(what, pthread_attr_getaffinity_np(&attr, sizeof cpus, &cpus) == 0 &&
                    CPU_EQUAL(&cpus, &allowed));
    CPU_ZERO(&cpus);
    CHECK(what, pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus) == 0 &&
                    CPU_EQUAL(&cpus, &allowed));
    pthread_attr_destroy(&attr);
}

static void *worker(void *arg)
{
    int i;
    for (i = 0; i < 3; i++) {
        knows_its_stack("a worker");
        umcg_yield();
    }
    umcg_blocking_begin();
    knows_its_stack("a worker in a blocking scope");
    umcg_blocking_end();
    return arg;
}

static void *thread(void *arg)
{
    knows_its_stack("a thread");
    return arg;
}

int main(void)
{
    pthread_t plain;

    check_start(30);
    MUST(pthread_create(&plain, NULL, thread, NULL) == 0);
    MUST(pthread_join(plain, NULL) == 0);
    if (!is_light() && (is_replaced() || getenv("UMCG_NO_OWN_STORAGE"))) {
        umcg_worker_t *workers[4];
        int i;
        for (i = 0; i < 4; i++)
            workers[i] = spawn(worker, NULL);
        for (i = 0; i < 4; i++)
            joined(workers[i]);
    }
    return check_done();
}
