/* Preloaded, it notes all looks at files below a folder, and makes one of them fail.
 *
 * FAULTY_ROOT: the folder.
 * FAULTY_PLAN: a file, read at every look; without it nothing fails. Its words: errno, "once" or "always", call, path.
 * FAULTY_LOG: a file that gets a line for each look, call and path, while it exists. With it, sleeping takes a
 * millisecond, so that pauses between attempts take none.
 *
 * The calls are "stat" (lstat and fstatat too), "open", "opendir" and "readdir".
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NEXT(name) dlsym(RTLD_NEXT, #name)

static int raw_open(const char *path, int flags)
{
    return syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

static const char *full(int folder, const char *path, char *buffer)
{
    char link[64];
    if (!path || *path == '/' || folder == AT_FDCWD)
        return path;
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, buffer, PATH_MAX);
    if (length <= 0)
        return path;
    snprintf(buffer + length, PATH_MAX - length, "/%s", path);
    return buffer;
}

static int fails(const char *call, const char *path)
{
    const char *root = getenv("FAULTY_ROOT"), *plan = getenv("FAULTY_PLAN"), *log = getenv("FAULTY_LOG");
    if (!path || !root || !plan || strncmp(path, root, strlen(root)))
        return 0;
    int before = errno, file = log ? raw_open(log, O_WRONLY | O_APPEND) : -1;
    char text[2 * PATH_MAX], code[16], times[16], wanted[16], place[PATH_MAX];
    if (file >= 0) {
        int length = snprintf(text, sizeof text, "%s %s\n", call, path);
        if (write(file, text, length) < 0)
            abort();
        close(file);
    }
    file = raw_open(plan, O_RDONLY);
    if (file >= 0) {
        ssize_t length = read(file, text, sizeof text - 1);
        close(file);
        text[length > 0 ? length : 0] = 0;
        if (sscanf(text, "%15s %15s %15s %4000[^\n]", code, times, wanted, place) == 4 && !strcmp(call, wanted) &&
            !strcmp(path, place) && (*times == 'a' || !unlink(plan))) {
            errno = atoi(code);
            return 1;
        }
    }
    errno = before;
    return 0;
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
        int (*next)(const char *, int, ...) = NEXT(name);                       \
        return next(path, flags, mode);                                         \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                            \
    int name(int folder, const char *path, int flags, ...)                      \
    {                                                                           \
        char buffer[PATH_MAX];                                                  \
        va_list rest;                                                           \
        va_start(rest, flags);                                                  \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                           \
        if (fails("open", full(folder, path, buffer)))                          \
            return -1;                                                          \
        int (*next)(int, const char *, int, ...) = NEXT(name);                  \
        return next(folder, path, flags, mode);                                 \
    }
OPENAT(openat)
OPENAT(openat64)

#define STAT(name, kind)                                       \
    int name(const char *path, struct kind *status)            \
    {                                                          \
        if (fails("stat", path))                               \
            return -1;                                         \
        int (*next)(const char *, struct kind *) = NEXT(name); \
        return next(path, status);                             \
    }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define STATAT(name, kind)                                               \
    int name(int folder, const char *path, struct kind *status, int how) \
    {                                                                    \
        char buffer[PATH_MAX];                                           \
        if (fails("stat", full(folder, path, buffer)))                   \
            return -1;                                                   \
        int (*next)(int, const char *, struct kind *, int) = NEXT(name); \
        return next(folder, path, status, how);                          \
    }
STATAT(fstatat, stat)
STATAT(fstatat64, stat64)

static DIR *faulty;

DIR *opendir(const char *path)
{
    DIR *(*next)(const char *) = NEXT(opendir);
    if (fails("opendir", path))
        return NULL;
    int is_faulty = fails("readdir", path), code = errno;
    DIR *opened = next(path);
    if (is_faulty && opened) {
        faulty = opened;
        errno = code;
    }
    return opened;
}

static int reads_fault(DIR *folder)
{
    if (!faulty || folder != faulty)
        return 0;
    faulty = NULL;
    errno = EIO;
    return 1;
}

struct dirent *readdir(DIR *folder)
{
    struct dirent *(*next)(DIR *) = NEXT(readdir);
    return reads_fault(folder) ? NULL : next(folder);
}

struct dirent64 *readdir64(DIR *folder)
{
    struct dirent64 *(*next)(DIR *) = NEXT(readdir64);
    return reads_fault(folder) ? NULL : next(folder);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    struct timespec short_time = {0, 1000000};
    int (*next)(clockid_t, int, const struct timespec *, struct timespec *) = NEXT(clock_nanosleep);
    if (!getenv("FAULTY_LOG"))
        return next(clock, flags, time, left);
    nanosleep(&short_time, NULL);
    return 0;
}
