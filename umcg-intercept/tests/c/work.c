/* What programs do with system calls. Exits with 0 if all came right. Argument: the late library;
 * and "hooked" if its sites have to be patched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern char **environ;

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%d: %s (errno %d)\n", __LINE__, #condition, errno);             \
            _exit(1);                                                                      \
        }                                                                                  \
    } while (0)

static int status_of(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void processes(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(getppid() > 1 ? 7 : 8);
    CHECK(status_of(pid) == 7);

    pid = vfork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "exit 9", (char *)NULL);
        _exit(1);
    }
    CHECK(status_of(pid) == 9);

    char *arguments[] = {"sh", "-c", "exit 5", NULL};
    CHECK(posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    CHECK(status_of(pid) == 5);
    int status = system("exit 3");
    CHECK(WEXITSTATUS(status) == 3);
    FILE *pipe = popen("echo 42", "r");
    int value = 0;
    CHECK(pipe && fscanf(pipe, "%d", &value) == 1 && value == 42);
    CHECK(pclose(pipe) == 0);
}

static int on_own_stack(void *argument)
{
    *(int *)argument += 1;
    return 11;
}

static void clones(void)
{
    size_t size = 64 << 10;
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    for (int i = 0; i < 20; i++) {
        int seen = i;
        pid_t pid = clone(on_own_stack, stack + size, CLONE_VM | CLONE_VFORK | SIGCHLD, &seen);
        CHECK(pid > 0 && status_of(pid) == 11 && seen == i + 1);
        /* A number that no instruction near names. */
        pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
            _exit(12);
        CHECK(status_of(pid) == 12);
    }
    CHECK(munmap(stack, size) == 0);
}

static void *adds(void *argument)
{
    for (int i = 0; i < 1000; i++) {
        __atomic_fetch_add((int *)argument, 1, __ATOMIC_RELAXED);
        if (i % 100 == 0)
            sched_yield();
    }
    return argument;
}

static void threads(void)
{
    int sum = 0;
    for (int round = 0; round < 20; round++) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++)
            CHECK(pthread_create(&threads[i], NULL, adds, &sum) == 0);
        for (int i = 0; i < 8; i++) {
            void *result;
            CHECK(pthread_join(threads[i], &result) == 0 && result == &sum);
        }
    }
    CHECK(sum == 160000);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        int error;
        while ((error = pthread_create(&thread, &attributes, adds, &sum)) == EAGAIN)
            sched_yield();
        CHECK(error == 0);
    }
    while (__atomic_load_n(&sum, __ATOMIC_RELAXED) != 360000)
        usleep(1000);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int turn, ends[2], cleaned;

static void *other_side(void *unused)
{
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != 1)
            pthread_cond_wait(&condition, &mutex);
        turn = 0;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void conditions(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other_side, NULL) == 0);
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&mutex);
        turn = 1;
        pthread_cond_signal(&condition);
        while (turn != 0)
            pthread_cond_wait(&condition, &mutex);
        pthread_mutex_unlock(&mutex);
    }
    pthread_join(thread, NULL);
}

static void clean(void *unused)
{
    (void)unused;
    cleaned++;
}

static void *blocks(void *how)
{
    char byte;
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    pthread_cleanup_push(clean, NULL);
    switch ((long)how) {
    case 0: CHECK(read(ends[0], &byte, 1) >= 0); break;
    case 1: pause(); break;
    case 2: sleep(1000); break;
    case 3: sem_wait(&semaphore); break;
    case 4:
        pthread_mutex_lock(&mutex);
        pthread_cond_wait(&condition, &mutex);
        break;
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void unlocks(void)
{
    pthread_mutex_trylock(&mutex); /* a cancelled waiter has left it locked, or has not */
    pthread_mutex_unlock(&mutex);
}

static void cancellation(void)
{
    CHECK(pipe(ends) == 0);
    cleaned = 0;
    for (long how = 0; how < 5; how++) {
        for (int i = 0; i < 4; i++) {
            pthread_t thread;
            void *result;
            CHECK(pthread_create(&thread, NULL, blocks, (void *)how) == 0);
            if (i % 2)
                usleep(5000);
            CHECK(pthread_cancel(thread) == 0);
            CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
            if (how == 4)
                unlocks();
        }
    }
    CHECK(cleaned >= 10);
}

static volatile int caught;
static sigjmp_buf away;

static void counts(int signal)
{
    (void)signal;
    caught++;
}

static void jumps(int signal)
{
    (void)signal;
    siglongjmp(away, 1);
}

static void feeds(int signal)
{
    (void)signal;
    caught++;
    if (caught == 5)
        CHECK(write(ends[1], "x", 1) == 1);
}

static void with_timer(void (*handler)(int), int flags, int microseconds)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void signals(void)
{
    char byte;
    CHECK(pipe(ends) == 0);
    caught = 0;
    with_timer(feeds, SA_RESTART, 2000);
    CHECK(read(ends[0], &byte, 1) == 1 && caught >= 5);
    with_timer(counts, 0, 2000);
    errno = 0;
    CHECK(read(ends[0], &byte, 1) == -1 && errno == EINTR);
    struct timespec time = {0, 50000000}, rest;
    while (nanosleep(&time, &rest) != 0)
        time = rest;
    with_timer(jumps, 0, 2000);
    if (sigsetjmp(away, 1) == 0) {
        CHECK(read(ends[0], &byte, 1) == 5);
    }
    with_timer(counts, SA_RESTART, 0);
    CHECK(kill(getpid(), SIGALRM) == 0);
}

static volatile int interrupted, in_library, complete, in_loop;
static uintptr_t loop_start, library_start, library_end;

static int find_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (strstr(info->dlpi_name, "libpass")) {
        library_start = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; i++) {
            const ElfW(Phdr) *header = &info->dlpi_phdr[i];
            if (header->p_type == PT_LOAD)
                library_end = info->dlpi_addr + header->p_vaddr + header->p_memsz;
        }
    }
    return 0;
}

static void traces(int signal, siginfo_t *information, void *context)
{
    (void)signal, (void)information;
    if (!in_loop)
        return; /* the timer goes on behind it, also while another call is made */
    ucontext_t *state = context;
    uintptr_t pc = state->uc_mcontext.gregs[REG_RIP];
    void *frames[64];
    int count = backtrace(frames, 64), found = 0;
    for (int i = 0; i < count; i++)
        found |= (uintptr_t)frames[i] - loop_start < 4096;
    interrupted++;
    if (pc >= library_start && pc < library_end) {
        in_library++;
        complete += found;
        if (!found)
            fprintf(stderr, "no caller from %#lx\n", pc - library_start);
    }
}

static __attribute__((noinline)) void loops(void)
{
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 1;
    in_loop = 1;
    do {
        for (int i = 0; i < 1000; i++)
            syscall(SYS_getppid);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec || now.tv_nsec < end.tv_nsec);
    in_loop = 0;
}

static void backtraces(void)
{
    void *frames[4];
    backtrace(frames, 4); /* loads the unwinder */
    dl_iterate_phdr(find_library, NULL);
    loop_start = (uintptr_t)loops;
    struct sigaction action = {.sa_sigaction = traces, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &timer, NULL);
    loops();
    with_timer(counts, SA_RESTART, 0);
    CHECK(interrupted > 100);
    CHECK(library_start == 0 || in_library > 10);
    CHECK(complete == in_library);
    printf("%d signals, %d in the stub or the hook\n", interrupted, in_library);
}

static int compares(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void library(void)
{
    static int numbers[50000];
    for (int i = 0; i < 50000; i++)
        numbers[i] = rand();
    qsort(numbers, 50000, sizeof *numbers, compares);
    for (int i = 1; i < 50000; i++)
        CHECK(numbers[i - 1] <= numbers[i]);
    char name[] = "/tmp/umcg-work-XXXXXX", text[64];
    int fd = mkstemp(name);
    FILE *file = fdopen(fd, "r+");
    CHECK(file && unlink(name) == 0);
    fprintf(file, "%s %d %.3f", "abc", 42, 1.5);
    rewind(file);
    CHECK(fgets(text, sizeof text, file) && strcmp(text, "abc 42 1.500") == 0);
    fclose(file);
    void *memory[100];
    for (int i = 0; i < 100; i++)
        memory[i] = memset(malloc(300000), i, 300000);
    for (int i = 0; i < 100; i++)
        free(memory[i]);
}

#ifndef __PIC__
/* Two sites alike; but an instruction elsewhere names the second one by the 32 bits of its address,
 * as code of a program may that is linked for a fixed one. No symbol and no data has it. */
__asm__(".pushsection .text\n"
        ".type work_free,@function\n"
        "work_free: .cfi_startproc\n"
        "mov $39, %eax\n"
        "syscall\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size work_free, . - work_free\n"
        ".zero 512, 0xcc\n"
        ".type work_named,@function\n"
        "work_named: .cfi_startproc\n"
        "mov $39, %eax\n"
        ".Lwork_named: syscall\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size work_named, . - work_named\n"
        ".zero 512, 0xcc\n"
        ".type work_names,@function\n"
        "work_names: .cfi_startproc\n"
        "mov $110, %eax\n"
        "mov $.Lwork_named, %ecx\n"
        "jmp *%rcx\n"
        ".cfi_endproc\n"
        ".size work_names, . - work_names\n"
        ".popsection");

long work_free(void), work_named(void), work_names(void);

static void addresses(void)
{
    const int is_patched = library_start != 0;
    const unsigned char *site = (const unsigned char *)work_named + 5;
    CHECK(work_free() == getpid() && work_named() == getpid());
    CHECK(work_names() == getppid());
    CHECK((*(const unsigned char *)work_free == 0xe9) == is_patched);
    CHECK(site[0] == 0x0f && site[1] == 0x05);
}
#else
static void addresses(void)
{
}
#endif

static void late(const char *path, int hooked)
{
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(path, RTLD_NOW);
        CHECK(library);
        long (*call)(long, long, long) = (long (*)(long, long, long))dlsym(library, "late_call");
        long (*pid)(void) = (long (*)(void))dlsym(library, "late_getpid");
        int (*is_patched)(void) = (int (*)(void))dlsym(library, "late_is_patched");
        CHECK(call && pid && is_patched);
        CHECK(call(SYS_getpid, 0, 0) == getpid());
        CHECK(pid() == getpid());
        CHECK(call(SYS_close, -1, 0) == -EBADF);
        CHECK(is_patched() == hooked);
        CHECK(dlclose(library) == 0);
    }
}

int main(int count, char **arguments)
{
    CHECK(count >= 2);
    processes();
    clones();
    threads();
    conditions();
    cancellation();
    signals();
    backtraces();
    library();
    addresses();
    late(arguments[1], count > 2);
    printf("ok\n");
    return 0;
}
