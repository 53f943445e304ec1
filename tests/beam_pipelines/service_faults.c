/* Preloaded, it makes a service fault of every look at some files: open, stat and their kind fail with an errno.
 *
 * FAULTY_PATH: the files, by a part of their path.
 * FAULTY_ERRNO: the number.
 * FAULTY_CALL: "open" or "stat".
 * FAULTY_WHILE: a file; the fault is there while this file is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fails(const char *call, const char *path)
{
    const char *part = getenv("FAULTY_PATH"), *switched_on = getenv("FAULTY_WHILE");
    if (!path || !part || !switched_on || strcmp(call, getenv("FAULTY_CALL")) || !strstr(path, part))
        return 0;
    if (access(switched_on, F_OK))
        return 0;
    errno = atoi(getenv("FAULTY_ERRNO"));
    return 1;
}

#define OPEN(name)                                                              \
    int name(const char *path, int flags, ...)                                  \
    {                                                                           \
        va_list rest;                                                           \
        va_start(rest, flags);                                                  \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                           \
        if (fails("open", path))                                                \
            return -1;                                                          \
        int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, #name);          \
        return next(path, flags, mode);                                         \
    }
OPEN(open)
OPEN(open64)

#define STAT(name, kind)                                                        \
    int name(const char *path, struct kind *status)                             \
    {                                                                           \
        if (fails("stat", path))                                                \
            return -1;                                                          \
        int (*next)(const char *, struct kind *) = dlsym(RTLD_NEXT, #name);     \
        return next(path, status);                                              \
    }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)
