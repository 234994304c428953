/* Preloaded before the program: counts what it does to the files below a folder, and at one step ends it or fails.
 *
 * faulty_arm(folder, step, mode): from now on count; at the step-th durable act (1 is the first)
 *   mode 0: do nothing, only count
 *   mode 1: kill -9 before the act      mode 2: kill -9 after the act
 *   mode 3: this act fails with EIO     mode 4: this act and all later ones fail with ENOSPC
 * faulty_count(): how many acts there were.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[PATH_MAX];
static size_t folder_length;
static atomic_int armed, counted;
static int target, mode;

void faulty_arm(const char *path, int step, int how) {
    snprintf(folder, sizeof folder, "%s", path);
    folder_length = strlen(folder);
    target = step;
    mode = how;
    atomic_store(&counted, 0);
    atomic_store(&armed, 1);
}

int faulty_count(void) { return atomic_load(&counted); }

static int below(const char *path) {
    char whole[PATH_MAX];
    if (!atomic_load(&armed) || path == NULL) return 0;
    if (path[0] != '/') {
        if (getcwd(whole, sizeof whole) == NULL) return 0;
        strncat(whole, "/", sizeof whole - strlen(whole) - 1);
        strncat(whole, path, sizeof whole - strlen(whole) - 1);
        path = whole;
    }
    return strncmp(path, folder, folder_length) == 0;
}

static int open_below(int descriptor) {
    char link[64], path[PATH_MAX];
    if (!atomic_load(&armed)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, folder, folder_length) == 0;
}

/* 0: go on; 1: go on, then die; -1: fail, errno is set. */
static int step(void) {
    int now = atomic_fetch_add(&counted, 1) + 1;
    if (mode == 4 && now >= target) { errno = ENOSPC; return -1; }
    if (now != target) return 0;
    if (mode == 1) kill(getpid(), SIGKILL);
    if (mode == 3) { errno = EIO; return -1; }
    return mode == 2;
}

#define NEXT(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))
#define ACT(ours, call)                            \
    int dies = 0;                                  \
    if (ours) {                                    \
        dies = step();                             \
        if (dies < 0) return -1;                   \
    }                                              \
    __typeof__(call) result = (call);              \
    if (dies) kill(getpid(), SIGKILL);             \
    return result;

static int makes(int flags) { return (flags & (O_CREAT | O_TRUNC)) != 0; }

int open(const char *path, int flags, ...) {
    va_list more; va_start(more, flags); mode_t bits = va_arg(more, mode_t); va_end(more);
    ACT(makes(flags) && below(path), NEXT(open)(path, flags, bits))
}
int open64(const char *path, int flags, ...) {
    va_list more; va_start(more, flags); mode_t bits = va_arg(more, mode_t); va_end(more);
    ACT(makes(flags) && below(path), NEXT(open64)(path, flags, bits))
}
int openat(int at, const char *path, int flags, ...) {
    va_list more; va_start(more, flags); mode_t bits = va_arg(more, mode_t); va_end(more);
    ACT(makes(flags) && below(path), NEXT(openat)(at, path, flags, bits))
}
ssize_t write(int fd, const void *data, size_t size) { ACT(open_below(fd), NEXT(write)(fd, data, size)) }
ssize_t writev(int fd, const struct iovec *parts, int count) { ACT(open_below(fd), NEXT(writev)(fd, parts, count)) }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { ACT(open_below(fd), NEXT(pwrite)(fd, data, size, at)) }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { ACT(open_below(fd), NEXT(pwrite64)(fd, data, size, at)) }
int ftruncate(int fd, off_t size) { ACT(open_below(fd), NEXT(ftruncate)(fd, size)) }
int ftruncate64(int fd, off64_t size) { ACT(open_below(fd), NEXT(ftruncate64)(fd, size)) }
int fsync(int fd) { ACT(open_below(fd), NEXT(fsync)(fd)) }
int fdatasync(int fd) { ACT(open_below(fd), NEXT(fdatasync)(fd)) }
int rename(const char *from, const char *to) { ACT(below(from) || below(to), NEXT(rename)(from, to)) }
int unlink(const char *path) { ACT(below(path), NEXT(unlink)(path)) }
int mkdir(const char *path, mode_t bits) { ACT(below(path), NEXT(mkdir)(path, bits)) }
int rmdir(const char *path) { ACT(below(path), NEXT(rmdir)(path)) }
int link(const char *from, const char *to) { ACT(below(to), NEXT(link)(from, to)) }
