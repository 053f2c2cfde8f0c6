/* Record what a process does to the files below a folder, in the order of its calls.

   cc -shared -fPIC -o recorded.so recorded.c -ldl
   RECORDED=folder RECORD=log LD_PRELOAD=./recorded.so python ...

   A record is a line "call path path offset length" and that many bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int inside(const char *path) {
    const char *folder = getenv("RECORDED");
    return folder && path && !strncmp(path, folder, strlen(folder));
}

static void record(const char *call, const char *path, const char *other,
                   long long offset, const void *data, size_t length) {
    char head[2 * PATH_MAX + 64];
    int size = snprintf(head, sizeof head, "%s %s %s %lld %zu\n", call, path,
                        other ? other : "-", offset, data ? length : 0);
    char *whole = malloc(size + length);
    memcpy(whole, head, size);
    if (data) memcpy(whole + size, data, length);
    int log = REAL(open)(getenv("RECORD"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (REAL(write)(log, whole, size + (data ? length : 0)) < 0) abort();
    REAL(close)(log);
    free(whole);
}

static int named(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return inside(path);
}

static int opened(const char *call, const char *path, int flags, mode_t mode) {
    int known = !access(path, F_OK);
    __typeof__(&open) real = (__typeof__(&open))dlsym(RTLD_NEXT, call);
    int fd = real(path, flags, mode);
    if (fd >= 0 && inside(path)) {
        if (!known && (flags & O_CREAT)) record("create", path, 0, 0, 0, 0);
        if (known && (flags & O_TRUNC)) record("truncate", path, 0, 0, 0, 0);
    }
    return fd;
}

#define OPEN(name)                                             \
    int name(const char *path, int flags, ...) {               \
        va_list more;                                          \
        va_start(more, flags);                                 \
        mode_t mode = flags & O_CREAT ? va_arg(more, int) : 0; \
        va_end(more);                                          \
        return opened(#name, path, flags, mode);               \
    }
OPEN(open)
OPEN(open64)

#define PWRITE(name, type)                                                  \
    ssize_t name(int fd, const void *data, size_t length, type offset) {    \
        char path[PATH_MAX];                                                \
        ssize_t done = REAL(name)(fd, data, length, offset);                \
        if (done > 0 && named(fd, path))                                    \
            record("write", path, 0, offset, data, done);                   \
        return done;                                                        \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t write(int fd, const void *data, size_t length) {
    char path[PATH_MAX];
    int is_ours = named(fd, path);
    long long offset = is_ours ? lseek(fd, 0, SEEK_CUR) : 0;
    struct stat found;
    if (is_ours && (fcntl(fd, F_GETFL) & O_APPEND) && !fstat(fd, &found))
        offset = found.st_size;
    ssize_t done = REAL(write)(fd, data, length);
    if (done > 0 && is_ours) record("write", path, 0, offset, data, done);
    return done;
}

#define TRUNCATE(name, type)                                         \
    int name(int fd, type length) {                                  \
        char path[PATH_MAX];                                         \
        int result = REAL(name)(fd, length);                         \
        if (!result && named(fd, path))                              \
            record("truncate", path, 0, length, 0, 0);               \
        return result;                                               \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SYNC(name)                                                   \
    int name(int fd) {                                               \
        char path[PATH_MAX];                                         \
        int result = REAL(name)(fd);                                 \
        if (!result && named(fd, path)) record("sync", path, 0, 0, 0, 0); \
        return result;                                               \
    }
SYNC(fsync)
SYNC(fdatasync)

int unlink(const char *path) {
    int result = REAL(unlink)(path);
    if (!result && inside(path)) record("unlink", path, 0, 0, 0, 0);
    return result;
}

int link(const char *path, const char *other) {
    int result = REAL(link)(path, other);
    if (!result && inside(other)) record("link", path, other, 0, 0, 0);
    return result;
}

int linkat(int one, const char *path, int two, const char *other, int flags) {
    int result = REAL(linkat)(one, path, two, other, flags);
    if (!result && inside(other)) record("link", path, other, 0, 0, 0);
    return result;
}

int rename(const char *path, const char *other) {
    int result = REAL(rename)(path, other);
    if (!result && inside(other)) record("rename", path, other, 0, 0, 0);
    return result;
}
