/* Two processes at once on the same CPUs, each with SIZE threads that compute a little and meet at
 * a barrier, as two parallel programs on one machine do. An operation is one meeting in one of the
 * processes. The program starts itself two times, by exec. */
#include "common.h"
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { STEPS = 200, CHILDREN = 2 };

static pthread_barrier_t barrier;
static _Atomic uint64_t last = UINT64_MAX;
static atomic_ullong sum;

static void step(uint64_t seed)
{
    atomic_fetch_add_explicit(&sum, compute(seed, STEPS) & 1, memory_order_relaxed);
    int rc = pthread_barrier_wait(&barrier);
    CHECK(rc == 0 || rc == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void *steps(void *data)
{
    for (uint64_t round = 0; round <= atomic_load(&last); round++)
        step((uint64_t)(uintptr_t)data + 1);
    return NULL;
}

static int child(double budget, unsigned threads)
{
    pthread_t others[threads];
    CHECK(pthread_barrier_init(&barrier, NULL, threads) == 0);
    for (uintptr_t i = 1; i < threads; i++)
        others[i] = start_thread(steps, (void *)i);
    step(1);
    struct pace pace = pace_of(budget, 3);
    uint64_t round = 1;
    for (; goes_on(&pace); round++)
        step(1);
    report_pace(&pace, 1);
    atomic_store(&last, round);
    step(1);
    for (unsigned i = 1; i < threads; i++)
        join_thread(others[i]);
    uint64_t odd = 0;
    for (uint64_t i = 1; i <= threads; i++)
        odd += compute(i, STEPS) & 1;
    CHECK(sum == odd * (round + 1));
    return 0;
}

/* The end of a pipe to which the new process writes. */
static FILE *start(char **argv, const char *budget, const char *threads, pid_t *pid)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    *pid = fork();
    CHECK(*pid >= 0);
    if (*pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(argv[0], argv[0], budget, threads, "child", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    return fdopen(ends[0], "r");
}

int main(int argc, char **argv)
{
    if (argc > 3)
        return child(atof(argv[1]), (unsigned)atoi(argv[2]));
    const char *budget = argc > 1 ? argv[1] : "1", *threads = argc > 2 ? argv[2] : "16";
    pid_t pids[CHILDREN];
    FILE *outputs[CHILDREN];
    for (int i = 0; i < CHILDREN; i++)
        outputs[i] = start(argv, budget, threads, &pids[i]);
    /* Rates add up: the operations of all in the mean of the times. */
    unsigned long long operations, life, total = 0, all = 0;
    double seconds, rate = 0;
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        CHECK(fscanf(outputs[i], "ops %llu seconds %lf all %llu", &operations, &seconds, &life)
              == 3);
        total += operations;
        all += life;
        rate += (double)operations / seconds;
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    report(total, (double)total / rate, all);
    return 0;
}
