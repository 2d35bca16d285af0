/* Functions that glibc has had only since after 2.17, and that the system's headers, or its archive of libstdc++, call.
   Each library of a wheel has those of its own: libc.so of old_libraries.py names them beside the C library. */

#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

extern int __fxstat(int layout, int fd, struct stat* info);
extern int __lxstat(int layout, const char* path, struct stat* info);

#pragma GCC visibility push(hidden)

/* 2.32: whether the process has no second thread, in which case reference counts need no atomic instructions. */
char __libc_single_threaded = 0;

/* 2.33: before, there were functions that are told the layout of struct stat. */
#ifdef __aarch64__
#define LAYOUT 0
#else
#define LAYOUT 1
#endif
int fstat(int fd, struct stat* info) { return __fxstat(LAYOUT, fd, info); }
int fstat64(int fd, struct stat64* info) { return __fxstat(LAYOUT, fd, (struct stat*)info); }
int lstat(const char* path, struct stat* info) { return __lxstat(LAYOUT, path, info); }

/* 2.27 */
int memfd_create(const char* name, unsigned flags) { return (int)syscall(SYS_memfd_create, name, flags); }

/* 2.25 */
ssize_t getrandom(void* bytes, size_t size, unsigned flags) { return syscall(SYS_getrandom, bytes, size, flags); }
int getentropy(void* bytes, size_t size) { return getrandom(bytes, size, 0) == (ssize_t)size ? 0 : -1; }

/* 2.36 */
uint32_t arc4random(void) {
  uint32_t value;
  if (getentropy(&value, sizeof(value)) != 0) abort();
  return value;
}

#pragma GCC visibility pop
