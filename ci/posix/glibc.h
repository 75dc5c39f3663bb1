/* Stands before each test of the C library: what the library's own build would define, for tests
 * that are compiled against the installed headers. */
#ifndef UMCG_POSIX_GLIBC_H
#define UMCG_POSIX_GLIBC_H

#define _ISOMAC 1
#define _GNU_SOURCE 1
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define IS_IN(module) 0
#define TEST_COMPAT(...) 0
#define attribute_hidden
#define attribute_relro
#define attribute_tls_model_ie __attribute__((tls_model("initial-exec")))
#define weak_function __attribute__((weak))
#define libc_hidden_def(...)
#define libc_hidden_proto(...)
#define weak_alias(...)
#define strong_alias(...)
#define PTR_MANGLE(pointer)
#define PTR_DEMANGLE(pointer)
#define __timespec64 timespec
#define rt_sigprocmask 14

#define TEST_CC "cc"
#define TIMEOUTFACTOR 1
#define OBJPFX "./"
#define SRCDIR_PATH "/none"
#define OBJDIR_PATH "/none"
#define OBJDIR_ELF_LDSO_PATH "/lib64/ld-linux-x86-64.so.2"
#define INSTDIR_PATH "/usr"
#define LIBDIR_PATH "/usr/lib"
#define BINDIR_PATH "/usr/bin"
#define SBINDIR_PATH "/usr/sbin"
#define SLIBDIR_PATH "/lib"
#define SYSCONFDIR_PATH "/etc"
#define COMPLOCALEDIR_PATH "/usr/lib/locale"
#define ROOTSBINDIR_PATH "/sbin"

#endif
