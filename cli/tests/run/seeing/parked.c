/* Fifty threads that wait in known places, for a look at them from outside.
 *
 * The first thread waits in poll for a byte on standard input, says if a signal has cut that wait,
 * and ends the process. The argument says what SIGQUIT does: "handler", "ignore", or its default;
 * or "fork": a child waits, too, and its id is the second word of the output. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("wrong: %s\n", #what); exit(1); } } while (0)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, taken = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int pipes[2];
static pthread_barrier_t begun;
/* Kept by the compiler, so that each thread's function is on its stack. */
static volatile int ended;

static void *waits_for_condition(void *unused)
{
    (void) unused;
    pthread_barrier_wait(&begun);
    pthread_mutex_lock(&lock);
    while (pthread_cond_wait(&condition, &lock) == 0)
        ended++;
    return NULL;
}

static void *wants_lock(void *unused)
{
    (void) unused;
    pthread_barrier_wait(&begun);
    pthread_mutex_lock(&taken);
    ended++;
    return NULL;
}

static void *wants_semaphore(void *unused)
{
    (void) unused;
    pthread_barrier_wait(&begun);
    while (sem_wait(&semaphore) == 0 || errno == EINTR)
        ended++;
    return NULL;
}

static void *sleeps(void *unused)
{
    (void) unused;
    struct timespec time = {1000, 0};
    pthread_barrier_wait(&begun);
    while (nanosleep(&time, &time) != 0)
        ended++;
    return NULL;
}

static void *reads(void *unused)
{
    (void) unused;
    char byte;
    pthread_barrier_wait(&begun);
    while (read(pipes[0], &byte, 1) != 0)
        ended++;
    return NULL;
}

static void make(int count, void *(*function)(void *), const char *name)
{
    while (count-- > 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, function, NULL) == 0);
        CHECK(pthread_setname_np(thread, name) == 0);
    }
}

static void handle(int number)
{
    (void) number;
    CHECK(write(STDOUT_FILENO, "handled\n", 8) == 8);
}

int main(int count, char **words)
{
    const char *way = count > 1 ? words[1] : "";
    struct sigaction action = {.sa_flags = SA_RESTART};
    action.sa_handler = strcmp(way, "handler") == 0 ? handle : SIG_IGN;
    if (strcmp(way, "handler") == 0 || strcmp(way, "ignore") == 0)
        CHECK(sigaction(SIGQUIT, &action, NULL) == 0);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* refused where there is no such rule */
    CHECK(pipe(pipes) == 0 && sem_init(&semaphore, 0, 0) == 0);
    CHECK(pipes[0] == 3 && pipes[1] == 4);
    CHECK(pthread_barrier_init(&begun, NULL, 51) == 0);
    pthread_mutex_lock(&taken);
    make(20, waits_for_condition, "conditional");
    make(10, wants_lock, "locker");
    make(10, wants_semaphore, "semaphore");
    make(5, sleeps, "sleeper");
    make(5, reads, "reader");
    /* No descriptor of the library's is among the low ones. */
    CHECK(dup(0) == 5 && close(5) == 0);
    pthread_barrier_wait(&begun);
    usleep(200000);
    pid_t child = strcmp(way, "fork") == 0 ? fork() : -1;
    if (child == 0)
        for (;;)
            pause();
    printf("ready %d\n", child);
    fflush(stdout);
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(&input, 1, -1) != 1) {
        printf("cut\n");
        fflush(stdout);
    }
    if (child > 0)
        kill(child, SIGKILL);
    printf("ended\n");
    return 0;
}
