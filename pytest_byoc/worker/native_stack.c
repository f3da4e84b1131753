/* Writes the native stack of a process at a fatal signal, or at a signal that requests it. Each
 * frame is a line, innermost first: the file of the code, the offset in the file, and the symbol if
 * the file has one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define FRAMES 64
#define SIGNALS 65

static const int fatal[] = {SIGSEGV, SIGFPE, SIGABRT, SIGBUS, SIGILL};
static struct sigaction previous[SIGNALS];
static int target = -1;

/* Returns the address at which the program was interrupted; NULL on architectures other than x86-64
 * and AArch64. If no code is at that address, the program has called a wrong pointer: *caller is
 * then the return address of that call. */
static void *interrupted(const void *context, void **caller) {
  const ucontext_t *at = context;
  *caller = NULL;
#if defined(__x86_64__)
  Dl_info found;
  void *counter = (void *)at->uc_mcontext.gregs[REG_RIP];
  if (!dladdr(counter, &found)) *caller = *(void **)at->uc_mcontext.gregs[REG_RSP];
  return counter;
#elif defined(__aarch64__)
  Dl_info found;
  void *counter = (void *)at->uc_mcontext.pc;
  if (!dladdr(counter, &found)) *caller = (void *)at->uc_mcontext.regs[30];
  return counter;
#else
  (void)at;
  return NULL;
#endif
}

static void put(const char *text, int length) {
  while (length > 0) {
    ssize_t written = write(target, text, (size_t)length);
    if (written <= 0) return;
    text += written;
    length -= (int)written;
  }
}

static void put_frame(void *address, int is_call) {
  char line[1024];
  Dl_info found;
  memset(&found, 0, sizeof found);
  /* A return address is that of the instruction after the call. The line in the source belongs to
   * the call. */
  char *at = (char *)address - is_call;
  if (!dladdr(at, &found)) found.dli_fname = "?";
  int length = snprintf(line, sizeof line, "native\t%s\t%lx\t%s\n", found.dli_fname,
                        (unsigned long)(at - (char *)found.dli_fbase), found.dli_sname ? found.dli_sname : "");
  put(line, length < (int)sizeof line ? length : (int)sizeof line - 1);
}

static void put_stack(int number, const void *context) {
  void *frames[FRAMES];
  char header[64];
  put(header, snprintf(header, sizeof header, "Native stack: signal %d\n", number));
  void *caller, *begin = interrupted(context, &caller);
  if (caller) {
    /* backtrace() would read code at the innermost frame's address, where there is none. */
    put_frame(begin, 0);
    put_frame(caller, 1);
    put("\n", 1);
    return;
  }
  int count = backtrace(frames, FRAMES), first = 0;
  while (begin && first < count && frames[first] != begin) ++first;
  if (first == count) first = 0;
  for (int i = first; i < count; ++i) put_frame(frames[i], i > first);
  put("\n", 1);
}

/* Handles a fatal signal. The previous handler is restored first, since the signal comes again
 * afterwards, or at once if reading the stack fails. A signal that was sent by a process has to be
 * raised again. */
static void die(int number, siginfo_t *info, void *context) {
  sigaction(number, &previous[number], NULL);
  put_stack(number, context);
  if (info->si_code <= 0) raise(number);
}

/* Handles the request for a stack: calls the previous handler, then writes the stack. */
static void tell(int number, siginfo_t *info, void *context) {
  const struct sigaction *before = &previous[number];
  if (before->sa_flags & SA_SIGINFO)
    before->sa_sigaction(number, info, context);
  else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
    before->sa_handler(number);
  put_stack(number, context);
}

/* Returns whether a handler is Python's own. Any other handler may repair the cause of the signal,
 * so it is not replaced. */
static int is_pythons(const struct sigaction *action) {
  Dl_info theirs, python;
  void *known = dlsym(RTLD_DEFAULT, "Py_IncRef");
  return known && dladdr(known, &python) && dladdr((void *)action->sa_handler, &theirs) &&
         theirs.dli_fbase == python.dli_fbase;
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *), int flags) {
  struct sigaction action;
  sigaction(number, NULL, &previous[number]);
  if (!is_pythons(&previous[number])) return;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | flags;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, NULL);
}

/* Installs the handlers. fd: the file to write to. dump: the signal that requests the stack. */
void install(int fd, int dump) {
  target = fd;
  for (unsigned i = 0; i < sizeof fatal / sizeof *fatal; ++i) handle(fatal[i], die, SA_NODEFER);
  handle(dump, tell, SA_RESTART);
}

/* The first call of backtrace() loads a library, which a signal handler must not do. */
__attribute__((constructor)) static void prepare(void) {
  void *frame[1];
  backtrace(frame, 1);
}
