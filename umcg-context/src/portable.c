/*
 * UthLib's two portable switch methods: what portable.rs describes, in the only language that may
 * call setjmp.
 *
 * A function that calls setjmp must still be active when longjmp comes back to it. Both are:
 * umcg_sjlj_switch waits on the stack that it suspended, and bootstrap never returns, because an
 * entry function does not.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

typedef void (*entry_fn)(void *);

/* makecontext passes ints: a pointer goes as two of them. */
#define HIGH(pointer) ((unsigned)((uint64_t)(uintptr_t)(pointer) >> 32))
#define LOW(pointer) ((unsigned)(uintptr_t)(pointer))
#define JOIN(high, low) ((void *)(uintptr_t)((uint64_t)(high) << 32 | (low)))

struct sjlj {
    jmp_buf now;
    /* in bootstrap, before entry: where every new flow on this stack begins */
    jmp_buf boot;
    /* bootstrap's own copy of this context's address: while it is there, so is its frame */
    struct sjlj *volatile *frame;
    entry_fn entry;
    void *arg;
};

struct mcsc {
    ucontext_t now;
    entry_fn entry;
    void *arg;
};

_Static_assert(sizeof(struct sjlj) <= UMCG_PORTABLE_SIZE,
               "the size in build.rs is too small for sjlj");
_Static_assert(sizeof(struct mcsc) <= UMCG_PORTABLE_SIZE,
               "the size in build.rs is too small for mcsc");
_Static_assert(_Alignof(struct sjlj) <= 16 && _Alignof(struct mcsc) <= 16,
               "portable.rs aligns contexts to 16");

static void bootstrap(unsigned context_high, unsigned context_low, unsigned back_high,
                      unsigned back_low)
{
    /* All that is needed after a longjmp, in one word of the frame. */
    struct sjlj *volatile self = JOIN(context_high, context_low);

    self->frame = &self;
    if (_setjmp(self->boot) == 0)
        _longjmp(*(jmp_buf *)JOIN(back_high, back_low), 1);
    self->entry(self->arg);
    __builtin_trap();
}

/* Makes bootstrap run up to its _setjmp on a new stack. */
static void visit(struct sjlj *context, void *stack, size_t size)
{
    ucontext_t there;
    jmp_buf back;

    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = size;
    there.uc_link = NULL;
    makecontext(&there, (void (*)(void))bootstrap, 4, HIGH(context), LOW(context), HIGH(&back),
                LOW(&back));
    if (_setjmp(back) == 0)
        setcontext(&there);
}

static void begin_at_boot(struct sjlj *context, entry_fn entry, void *arg)
{
    memcpy(&context->now, &context->boot, sizeof(context->now));
    context->entry = entry;
    context->arg = arg;
}

void umcg_sjlj_prepare(struct sjlj *context, void *stack, size_t size, entry_fn entry, void *arg)
{
    visit(context, stack, size);
    begin_at_boot(context, entry, arg);
}

void umcg_sjlj_reprepare(struct sjlj *context, void *stack, size_t size, entry_fn entry, void *arg)
{
    /* The kernel may have been given the pages of the context, or those of the frame, back: they
     * are zero then. */
    if (context->frame == NULL || *context->frame != context)
        visit(context, stack, size);
    begin_at_boot(context, entry, arg);
}

void umcg_sjlj_switch(struct sjlj *from, struct sjlj *to)
{
    if (_setjmp(from->now) == 0)
        _longjmp(to->now, 1);
}

static void start(unsigned context_high, unsigned context_low)
{
    struct mcsc *context = JOIN(context_high, context_low);

    context->entry(context->arg);
    __builtin_trap();
}

void umcg_mcsc_prepare(struct mcsc *context, void *stack, size_t size, entry_fn entry, void *arg)
{
    /* Takes the caller's signal mask and floating-point modes, which a flow suspended here may have
     * had otherwise. */
    getcontext(&context->now);
    context->now.uc_stack.ss_sp = stack;
    context->now.uc_stack.ss_size = size;
    context->now.uc_link = NULL;
    context->entry = entry;
    context->arg = arg;
    makecontext(&context->now, (void (*)(void))start, 2, HIGH(context), LOW(context));
}

void umcg_mcsc_switch(struct mcsc *from, struct mcsc *to)
{
    swapcontext(&from->now, &to->now);
}
