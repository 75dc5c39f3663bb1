/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Registers over waits, and while threads that use others are preempted: rounding modes of both
 * floating-point units, their exceptions, vector registers as wide as this CPU has them, mask
 * registers. */
#include "check.h"
#include <fenv.h>

#ifndef __x86_64__
int main(void)
{
    SKIP("not x86-64");
}
#else
#include <immintrin.h>

enum { THREADS = 8, TURNS = 150, WORDS = 32 * 8 };

static sem_t turns[THREADS];

/* The threads pass a wakeup around: each wait is a real one. */
static void wait_a_turn(int own)
{
    down(&turns[own]);
    OK(sem_post(&turns[(own + 1) % THREADS]));
}

static void *rounds(void *arg)
{
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    static const unsigned csr[] = {0x0000, 0x2000, 0x4000, 0x6000};
    int own = (int)(intptr_t)arg, mode = own % 4;
    unsigned short control;
    volatile long double tenth = 10.0L;
    volatile double third = 3.0;
    long double x87_result;
    double sse_result;

    MUST(fegetround() == FE_TONEAREST);
    MUST(fesetround(modes[mode]) == 0);
    if (own >= 4)
        _mm_setcsr(_mm_getcsr() | 0x8040);
    x87_result = 1.0L / tenth;
    sse_result = 1.0 / third;
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn % 8 == 7)
            usleep(20);
        else
            wait_a_turn(own);
        MUST(fegetround() == modes[mode]);
        MUST((_mm_getcsr() & 0x6000) == csr[mode]);
        MUST((_mm_getcsr() & 0x8040) == (own >= 4 ? 0x8040u : 0u));
        __asm__ volatile("fnstcw %0" : "=m"(control));
        MUST((control & 0x0c00) == csr[mode] >> 3);
        MUST(1.0L / tenth == x87_result && 1.0 / third == sse_result);
    }
    return NULL;
}

/* A thread begins with those that its maker has noted. */
static void *inherits(void *arg)
{
    MUST(fetestexcept(FE_ALL_EXCEPT) == (int)(intptr_t)arg);
    return NULL;
}

/* Exceptions of floating point that one thread has noted, and another one has not. */
static void *exceptions(void *arg)
{
    int own = (int)(intptr_t)arg, noted = own % 2 ? FE_DIVBYZERO | FE_INEXACT : 0;
    pthread_t other;
    void *page;

    OK(feclearexcept(FE_ALL_EXCEPT));
    OK(feraiseexcept(noted));
    for (int turn = 0; turn < TURNS; turn++) {
        switch (turn % 8) {
        case 5:
            OK(pthread_create(&other, NULL, inherits, (void *)(intptr_t)noted));
            OK(pthread_join(other, NULL));
            break;
        case 6:
            page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            MUST(page != MAP_FAILED);
            OK(munmap(page, 4096));
            break;
        case 7:
            usleep(20);
            break;
        default:
            wait_a_turn(own);
        }
        MUST(fetestexcept(FE_ALL_EXCEPT) == noted);
    }
    return NULL;
}

/* Calls the function with all vector registers set from `values`, and stores them after it. */
#define EACH_OF_16(step) \
    step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10) \
    step(11) step(12) step(13) step(14) step(15)
#define LOAD_Y(n) "vmovdqu " #n "*32(%[from]), %%ymm" #n "\n"
#define STORE_Y(n) "vmovdqu %%ymm" #n ", " #n "*32(%[to])\n"
#define LOAD_Z(n) "vmovdqu64 " #n "*64(%[from]), %%zmm" #n "\n"
#define STORE_Z(n) "vmovdqu64 %%zmm" #n ", " #n "*64(%[to])\n"
#define UPPER_16(step) \
    step(16) step(17) step(18) step(19) step(20) step(21) step(22) step(23) step(24) step(25) \
    step(26) step(27) step(28) step(29) step(30) step(31)

/* The kernel keeps all registers over a system call but rax, rcx and r11. */
#define SYSTEM_CALL "syscall\n"

static long wait_with_ymm(uint32_t *word, uint32_t value, const uint64_t *from, uint64_t *to)
{
    long result;
    register long timeout __asm__("r10") = 0;

    __asm__ volatile(EACH_OF_16(LOAD_Y) SYSTEM_CALL EACH_OF_16(STORE_Y) "vzeroupper\n"
                     : "=a"(result)
                     : "a"((long)SYS_futex), "D"(word), "S"(128L), "d"((long)value),
                       "r"(timeout), [from] "r"(from), [to] "r"(to)
                     : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
                       "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
                       "xmm14", "xmm15");
    return result;
}

__attribute__((target("avx512f,avx512bw"))) static long
wait_with_zmm(uint32_t *word, uint32_t value, const uint64_t *from, uint64_t *to)
{
    long result;
    register long timeout __asm__("r10") = 0;

    __asm__ volatile(
        EACH_OF_16(LOAD_Z) UPPER_16(LOAD_Z) "kmovq (%[from]), %%k1\nkmovq 8(%[from]), %%k7\n"
        SYSTEM_CALL
        EACH_OF_16(STORE_Z) UPPER_16(STORE_Z) "kmovq %%k1, 2048(%[to])\nkmovq %%k7, 2056(%[to])\n"
        "vzeroupper\n"
        : "=a"(result)
        : "a"((long)SYS_futex), "D"(word), "S"(128L), "d"((long)value), "r"(timeout),
          [from] "r"(from), [to] "r"(to)
        : "rcx", "r11", "memory", "k1", "k7", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
          "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
          "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24",
          "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31");
    return result;
}

static uint32_t token;
static int width;

/* The owner of the token passes it on; the others wait with their registers full. */
static void *keeps_vectors(void *arg)
{
    uint32_t own = (uint32_t)(intptr_t)arg, seen;
    uint64_t from[WORDS], to[WORDS + 2];
    size_t words = width == 512 ? 32 * 8 : 16 * 4;

    for (size_t at = 0; at < WORDS; at++)
        from[at] = (own + 1) * 0x0101010101010101u ^ at << 32 ^ at;
    for (int turn = 0; turn < TURNS; turn++) {
        while ((seen = __atomic_load_n(&token, __ATOMIC_ACQUIRE)) % THREADS != own) {
            memset(to, 0, sizeof to);
            if (width == 512)
                wait_with_zmm(&token, seen, from, to);
            else
                wait_with_ymm(&token, seen, from, to);
            MUST(!memcmp(from, to, words * 8));
            MUST(width != 512 || (to[256] == from[0] && to[257] == from[1]));
        }
        __atomic_store_n(&token, seen + 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &token, 129, THREADS);
    }
    return NULL;
}

static volatile int stop;

/* Preempted at any moment, with values in registers. */
static void *computes_with_vectors(void *arg)
{
    double own = (double)(intptr_t)arg + 1, sums[8] = {0};
    long steps = 0;

    while (!stop || steps < 100000) {
        for (int at = 0; at < 8; at++)
            sums[at] += own * at;
        steps++;
    }
    for (int at = 0; at < 8; at++)
        MUST(sums[at] == own * at * (double)steps);
    return NULL;
}

static void *stops(void *arg)
{
    sleep_ms(30);
    stop = 1;
    return arg;
}

static void *one_of_them(void *arg)
{
    return (intptr_t)arg == 0 ? stops(arg) : computes_with_vectors(arg);
}

int main(void)
{
    for (int at = 0; at < THREADS; at++)
        OK(sem_init(&turns[at], 0, at == 0));
    in_threads(THREADS, rounds);
    SHOWN("rounding");
    in_threads(THREADS, exceptions);
    SHOWN("exceptions");
    if (__builtin_cpu_supports("avx2")) {
        width = 256;
        in_threads(THREADS, keeps_vectors);
    }
    if (__builtin_cpu_supports("avx512bw")) {
        width = 512;
        token = 0;
        in_threads(THREADS, keeps_vectors);
    }
    SHOWN("vectors");
    in_threads(5, one_of_them);
    SHOWN("while computing");
    return 0;
}
#endif
