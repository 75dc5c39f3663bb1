/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* dlclose of the shared library: a thread that was a server ends afterwards, and faults are still
 * handled. The argument is the library. Run by ci/c.sh, as the other tests have it linked in. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <umcg.h>

static int (*ctl)(uint32_t, uint32_t, pid_t, uint64_t, uint64_t *, int);
static volatile int stage;
static sigjmp_buf back;

static void *serve(void *own_stack)
{
    stack_t stack = {.ss_sp = own_stack, .ss_size = 64 << 10};
    if (own_stack)
        sigaltstack(&stack, NULL);
    MUST(ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    MUST(ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    stage = 1;
    while (stage != 2)
        check_sleep_ms(1);
    return NULL;
}

static void on_fault(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}

static void use_and_close(const char *library, void *own_stack)
{
    pthread_t thread;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        fprintf(stderr, "%s\n", dlerror());
    MUST(handle);
    *(void **)&ctl = dlsym(handle, "umcg_ctl");
    MUST(ctl);
    stage = 0;
    MUST(pthread_create(&thread, NULL, serve, own_stack) == 0);
    while (stage != 1)
        check_sleep_ms(1);
    MUST(dlclose(handle) == 0);
    stage = 2;
    MUST(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
    static char own_stack[64 << 10];
    volatile int faults = 0;
    if (argc < 2)
        SKIP("no library to load");
    check_start(30);
    signal(SIGSEGV, on_fault); /* before the library's, which calls it */
    use_and_close(argv[1], NULL);
    use_and_close(argv[1], own_stack);
    if (sigsetjmp(back, 1) == 0)
        *(volatile int *)8 = 1;
    else
        faults++;
    CHECK("the program's handler of faults is called", faults == 1);
    return check_done();
}
