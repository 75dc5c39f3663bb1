/* Blocks in a call of `read`, and stops itself there after a while: a debugger then looks. */
#include <signal.h>
#include <unistd.h>

static int ends[2];

__attribute__((noinline)) int inner(void)
{
    char byte;
    return read(ends[0], &byte, 1) == 1 ? byte : 0;
}

__attribute__((noinline)) int outer(void)
{
    return inner() + 1;
}

int main(void)
{
    if (pipe(ends) != 0)
        return 1;
    signal(SIGALRM, SIG_DFL);
    alarm(1); /* the debugger stops at the signal */
    return outer();
}
