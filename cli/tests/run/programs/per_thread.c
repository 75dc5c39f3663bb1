/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* State that each thread has for itself: errno, the locale, large and aligned thread-local storage,
 * buffers of the library; and streams, which threads lock for several calls. */
#include "check.h"
#include <locale.h>
#include <netdb.h>
#include <sys/socket.h>
#include <wchar.h>

enum { THREADS = 8, TURNS = 40, LARGE = 96 * 1024 };

static _Thread_local char large[LARGE];
static _Thread_local _Alignas(64) int aligned = 3;
static _Thread_local int zeroed;
static FILE *stream;

static void pause_somehow(int turn)
{
    if (turn % 2)
        usleep(20);
    else
        sched_yield();
}

static void *has_errno(void *arg)
{
    int own = (int)(intptr_t)arg;

    for (int turn = 0; turn < TURNS; turn++) {
        errno = own + 1;
        pause_somehow(turn);
        MUST(errno == own + 1);
        MUST(close(-1) == -1 && errno == EBADF);
        pause_somehow(turn);
        MUST(errno == EBADF);
    }
    return NULL;
}

static void *has_storage(void *arg)
{
    int own = (int)(intptr_t)arg;

    MUST(aligned == 3 && zeroed == 0 && (uintptr_t)&aligned % 64 == 0);
    for (int at = 0; at < LARGE; at++)
        MUST(large[at] == 0);
    memset(large, own, LARGE);
    for (int turn = 0; turn < TURNS; turn++) {
        aligned += own;
        zeroed++;
        pause_somehow(turn);
        MUST(aligned == 3 + own * (turn + 1) && zeroed == turn + 1);
        MUST(large[0] == own && large[LARGE - 1] == own);
    }
    return NULL;
}

/* Threads with different locales at the same time. */
static void *has_locale(void *arg)
{
    locale_t own = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
    wchar_t wide[8];
    char text[32];

    if ((intptr_t)arg % 2 && own)
        uselocale(own);
    for (int turn = 0; turn < TURNS; turn++) {
        MUST(strtod("2.5", NULL) == 2.5);
        snprintf(text, sizeof text, "%.2f", 1.25);
        MUST(!strcmp(text, "1.25"));
        if ((intptr_t)arg % 2 && own)
            MUST(mbstowcs(wide, "\xc3\xa9", 8) == 1 && wide[0] == 0xe9);
        else
            MUST(mbstowcs(wide, "\xc3\xa9", 8) == (size_t)-1);
        pause_somehow(turn);
        MUST(!strcmp(strerror(ENOENT), "No such file or directory"));
    }
    uselocale(LC_GLOBAL_LOCALE);
    if (own)
        freelocale(own);
    return NULL;
}

/* Several calls in one piece: no line is mixed with another. */
static void *writes_lines(void *arg)
{
    int own = (int)(intptr_t)arg;

    for (int turn = 0; turn < TURNS; turn++) {
        flockfile(stream);
        for (int at = 0; at < 10; at++) {
            putc_unlocked('a' + own, stream);
            if (at == 5)
                pause_somehow(turn);
        }
        putc('\n', stream);
        funlockfile(stream);
        fprintf(stream, "%c-%02d\n", 'a' + own, turn);
    }
    return NULL;
}

static void streams(void)
{
    char line[64];
    int long_lines = 0, short_lines = 0;

    stream = tmpfile();
    MUST(stream != NULL);
    in_threads(THREADS, writes_lines);
    rewind(stream);
    while (fgets(line, sizeof line, stream)) {
        if (line[1] == '-') {
            MUST(strlen(line) == 5);
            short_lines++;
        } else {
            MUST(strlen(line) == 11 && strspn(line, (char[]){line[0], 0}) == 10);
            long_lines++;
        }
    }
    MUST(long_lines == THREADS * TURNS && short_lines == THREADS * TURNS);
    MUST(fclose(stream) == 0);
}

static void *resolves(void *arg)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;

    for (int turn = 0; turn < 5; turn++) {
        OK(getaddrinfo("localhost", "80", &hints, &found));
        MUST(found->ai_family == AF_INET);
        freeaddrinfo(found);
        RETURNS(EAI_NONAME, getaddrinfo("not an address", NULL,
                                        &(struct addrinfo){.ai_flags = AI_NUMERICHOST}, &found));
    }
    return arg;
}

int main(void)
{
    in_threads(THREADS, has_errno);
    SHOWN("errno");
    in_threads(THREADS, has_storage);
    SHOWN("storage");
    in_threads(THREADS, has_locale);
    SHOWN("locale");
    streams();
    SHOWN("streams");
    in_threads(THREADS, resolves);
    SHOWN("names of hosts");
    return 0;
}
