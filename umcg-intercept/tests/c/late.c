/* A library to load late, with calls of its own inside. */

long late_call(long number, long a, long b)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b)
                     : "rcx", "r11", "memory");
    return result;
}

long late_getpid(void)
{
    long result;
    __asm__ volatile("mov $39, %%eax\n\tsyscall" : "=a"(result) : : "rcx", "r11", "memory");
    return result;
}

/* The bytes of the site: a jump if it is patched. */
int late_is_patched(void)
{
    const unsigned char *at = (const unsigned char *)late_getpid;
    for (int i = 0; i < 16; i++)
        if (at[i] == 0xe9)
            return 1;
    return 0;
}
