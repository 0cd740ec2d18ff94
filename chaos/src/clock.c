/* Adds an offset, in nanoseconds from a mapped file, to a process's CLOCK_REALTIME.
 *
 * libfaketime crashes Redis: the server's allocator reads the clock before libfaketime is ready, and
 * both recurse until the process ends. This file calls nothing that allocates. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("LOCKWRIGHT_CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long result = syscall(SYS_clock_gettime, clock, now);
    if (result != 0 || !offset) return (int)result;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        int64_t all = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + *offset;
        now->tv_sec = all / 1000000000;
        now->tv_nsec = all % 1000000000;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
