/* Writes the native stack of a process that receives a fatal signal, or is told to: a line per frame, innermost
 * first, with the file of the code, the offset in that file, and the symbol where the file names one. */
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

/* Where the program was interrupted, and, if that was a call to what is no code, where it returns to. NULL on
 * machines of which that is not known here. */
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
  /* A return address is behind the call: the call itself is what has a line in the source. */
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
    /* The unwinder would read the code there. */
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

/* The handler that was there before is next: the signal comes again, and at once if the stack can't be read. */
static void die(int number, siginfo_t *info, void *context) {
  sigaction(number, &previous[number], NULL);
  put_stack(number, context);
  if (info->si_code <= 0) raise(number);
}

static void tell(int number, siginfo_t *info, void *context) {
  const struct sigaction *before = &previous[number];
  if (before->sa_flags & SA_SIGINFO)
    before->sa_sigaction(number, info, context);
  else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
    before->sa_handler(number);
  put_stack(number, context);
}

/* A handler of somebody else's may mend what has happened, and stays in front. */
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

/* fd: where to. dump: the signal at which a living process writes its stack. */
void install(int fd, int dump) {
  target = fd;
  for (unsigned i = 0; i < sizeof fatal / sizeof *fatal; ++i) handle(fatal[i], die, SA_NODEFER);
  handle(dump, tell, SA_RESTART);
}

/* The first call of backtrace loads a library, which a handler must not. */
__attribute__((constructor)) static void prepare(void) {
  void *frame[1];
  backtrace(frame, 1);
}
