/* Hides files from a process: whoever opens them to read, or asks for their status, is told that
 * they don't exist. The library is preloaded (LD_PRELOAD); `hide_file` names the files. A file that
 * the process creates anew is hidden no longer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 256

static char *hidden[FILES];
static int count;

/* Hides a file, given its path without symbolic links; returns whether there was room for it. */
int hide_file(const char *path) {
  if (count == FILES) return 0;
  hidden[count] = strdup(path);
  return hidden[count++] != NULL;
}

/* Returns whether a file is hidden; if it is about to be created, it is hidden no longer. */
static __attribute__((noinline)) int gone(const char *path, int created) {
  char resolved[PATH_MAX];
  if (count == 0 || path == NULL || realpath(path, resolved) == NULL) return 0;
  for (int i = 0; i < count; ++i) {
    if (hidden[i] == NULL || strcmp(hidden[i], resolved) != 0) continue;
    if (created) hidden[i] = NULL;
    return !created;
  }
  return 0;
}

/* Defines a function of the C library anew: it fails with ENOENT for a hidden file. */
#define REPLACED(result, failure, name, parameters, arguments, path, created)                  \
  result name parameters {                                                                     \
    static result(*real) parameters;                                                           \
    if (real == NULL) real = (result(*) parameters)dlsym(RTLD_NEXT, #name);                    \
    if (gone(path, created) || real == NULL) {                                                 \
      errno = ENOENT;                                                                          \
      return failure;                                                                          \
    }                                                                                          \
    return real arguments;                                                                     \
  }

/* The same for functions whose last parameter, the mode of a new file, may be missing. */
#define OPENED(name, parameters, passed, path)                                                 \
  int name parameters {                                                                        \
    static int(*real) parameters;                                                              \
    mode_t mode = 0;                                                                           \
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                               \
      va_list more;                                                                            \
      va_start(more, flags);                                                                   \
      mode = va_arg(more, mode_t);                                                             \
      va_end(more);                                                                            \
    }                                                                                          \
    if (real == NULL) real = (int(*) parameters)dlsym(RTLD_NEXT, #name);                       \
    if (gone(path, flags & O_CREAT) || real == NULL) {                                         \
      errno = ENOENT;                                                                          \
      return -1;                                                                               \
    }                                                                                          \
    return real passed;                                                                        \
  }

OPENED(open, (const char *path, int flags, ...), (path, flags, mode), path)
OPENED(open64, (const char *path, int flags, ...), (path, flags, mode), path)
OPENED(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode), path)
OPENED(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode), path)
REPLACED(int, -1, __open_2, (const char *path, int flags), (path, flags), path, 0)
REPLACED(int, -1, __open64_2, (const char *path, int flags), (path, flags), path, 0)

REPLACED(FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode), path, mode[0] != 'r')
REPLACED(FILE *, NULL, fopen64, (const char *path, const char *mode), (path, mode), path, mode[0] != 'r')

REPLACED(int, -1, access, (const char *path, int mode), (path, mode), path, 0)
REPLACED(int, -1, faccessat, (int at, const char *path, int mode, int flags), (at, path, mode, flags),
         path, 0)
REPLACED(int, -1, stat, (const char *path, struct stat *to), (path, to), path, 0)
REPLACED(int, -1, stat64, (const char *path, struct stat64 *to), (path, to), path, 0)
REPLACED(int, -1, lstat, (const char *path, struct stat *to), (path, to), path, 0)
REPLACED(int, -1, lstat64, (const char *path, struct stat64 *to), (path, to), path, 0)
REPLACED(int, -1, fstatat, (int at, const char *path, struct stat *to, int flags), (at, path, to, flags),
         path, 0)
REPLACED(int, -1, fstatat64, (int at, const char *path, struct stat64 *to, int flags),
         (at, path, to, flags), path, 0)
REPLACED(int, -1, statx, (int at, const char *path, int flags, unsigned mask, struct statx *to),
         (at, path, flags, mask, to), path, 0)
/* Programs that were linked with glibc before 2.33 call these for `stat` and `lstat`. */
REPLACED(int, -1, __xstat, (int version, const char *path, struct stat *to), (version, path, to), path, 0)
REPLACED(int, -1, __xstat64, (int version, const char *path, struct stat64 *to), (version, path, to),
         path, 0)
REPLACED(int, -1, __lxstat, (int version, const char *path, struct stat *to), (version, path, to), path, 0)
REPLACED(int, -1, __lxstat64, (int version, const char *path, struct stat64 *to), (version, path, to),
         path, 0)

/* Opens a name that does not exist either, since `dlerror` needs a failure of the linker's own. */
static __attribute__((noinline)) void *not_found(const char *path, void *(*real)(const char *, int)) {
  char missing[PATH_MAX + 16];
  snprintf(missing, sizeof missing, "%s (missing)", path);
  return real(missing, RTLD_LAZY);
}

/* The last call has to be a jump, as -O2 makes it: the linker searches libraries for the caller. */
void *dlopen(const char *path, int flags) {
  static void *(*real)(const char *, int);
  if (real == NULL) real = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
  if (gone(path, 0)) return not_found(path, real);
  return real(path, flags);
}
