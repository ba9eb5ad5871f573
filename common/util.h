/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The idioms that every file shares: cleanup on scope exit, transfer of ownership, and a few
 * helpers that the C library lacks. Everything here is static inline; a function that needs a file
 * of its own belongs in one named after what it does.
 */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define _cleanup_(function)   __attribute__((__cleanup__(function)))
#define _printf_(text, first) __attribute__((__format__(__printf__, text, first)))

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define MIN_OF(a, b)      ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b)      ((a) > (b) ? (a) : (b))

/* Moves a pointer or descriptor out of its variable, so that the cleanup of the variable does
 * nothing. */
#define TAKE_PTR(pointer)                                \
	({                                               \
		__typeof__(pointer) *_slot = &(pointer); \
		__typeof__(pointer) _value = *_slot;     \
		*_slot = NULL;                           \
		_value;                                  \
	})
#define TAKE_FD(fd)                  \
	({                           \
		int *_slot = &(fd);  \
		int _value = *_slot; \
		*_slot = -EBADF;     \
		_value;              \
	})

/* Repeats a system call that a signal interrupted. */
#define RETRY_ON_EINTR(expression)                       \
	({                                               \
		__typeof__(expression) _result;          \
		do {                                     \
			_result = (expression);          \
		} while (_result < 0 && errno == EINTR); \
		_result;                                 \
	})

/* Declares x_freep(), the cleanup for a pointer whose destructor is x_free(). */
#define DEFINE_CLEANUP(type, function)                 \
	static inline void function##p(type *pointer)  \
	{                                              \
		if (*pointer)                          \
			*pointer = function(*pointer); \
	}

#define USEC_PER_MSEC 1000ULL
#define USEC_PER_SEC  1000000ULL
#define USEC_INFINITY UINT64_MAX

static inline void freep(void *pointer)
{
	free(*(void **)pointer);
}
#define _cleanup_free_ _cleanup_(freep)

/* As vasprintf() and asprintf(), but `ret` is untouched on failure. Return 0 or -ENOMEM. */
static inline _printf_(2, 0) int vformat_text(char **ret, const char *format, va_list ap)
{
	char *text;

	if (vasprintf(&text, format, ap) < 0)
		return -ENOMEM;
	*ret = text;
	return 0;
}

static inline _printf_(2, 3) int format_text(char **ret, const char *format, ...)
{
	va_list ap;
	int r;

	va_start(ap, format);
	r = vformat_text(ret, format, ap);
	va_end(ap);
	return r;
}

/* Makes the slot a copy of the text, in place of the one before; NULL: there is none. Returns 1 if
 * it is another text, 0, or -ENOMEM without a change. */
static inline int replace_text(char **slot, const char *text)
{
	char *copy;

	if ((!*slot && !text) || (*slot && text && strcmp(*slot, text) == 0))
		return 0;
	copy = text ? strdup(text) : NULL;
	if (text && !copy)
		return -ENOMEM;
	free(*slot);
	*slot = copy;
	return 1;
}

/* Closes a descriptor if it is one, keeps errno, and returns the value of "no descriptor". */
static inline int close_fd(int fd)
{
	if (fd >= 0) {
		int saved = errno;

		(void)close(fd);
		errno = saved;
	}
	return -EBADF;
}

static inline void close_fdp(int *fd)
{
	*fd = close_fd(*fd);
}
#define _cleanup_close_ _cleanup_(close_fdp)

/* Writes at the descriptor's position, with as many calls as that takes. */
static inline int write_all(int fd, const void *data, size_t size)
{
	const char *rest = data;

	while (size > 0) {
		ssize_t n = RETRY_ON_EINTR(write(fd, rest, size));

		if (n < 0)
			return -errno;
		rest += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Reads that many bytes from the beginning of a file, and appends a NUL. Returns 0, -EBADMSG if it
 * is shorter, or other negative errno. */
static inline int read_exactly(int fd, size_t size, char **ret)
{
	_cleanup_free_ char *text = malloc(size + 1);

	if (!text)
		return -ENOMEM;
	for (size_t done = 0; done < size;) {
		ssize_t n = RETRY_ON_EINTR(pread(fd, text + done, size - done, (off_t)done));

		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		done += (size_t)n;
	}
	text[size] = '\0';
	*ret = TAKE_PTR(text);
	return 0;
}

/* Whether the name, relative to a directory, is that of the open file. */
static inline bool is_name_of(int directory_fd, const char *name, int fd)
{
	struct stat named, open;

	return fstatat(directory_fd, name, &named, AT_SYMLINK_NOFOLLOW) >= 0 &&
		fstat(fd, &open) >= 0 && named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

static inline void fclosep(FILE **stream)
{
	if (*stream)
		(void)fclose(*stream);
}
#define _cleanup_fclose_ _cleanup_(fclosep)

static inline bool streq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/* The part of the string behind the prefix, or NULL if it does not begin with it. */
static inline const char *startswith(const char *string, const char *prefix)
{
	size_t length = strlen(prefix);

	return strncmp(string, prefix, length) == 0 ? string + length : NULL;
}

/* Microseconds of a clock (CLOCK_MONOTONIC for intervals, CLOCK_REALTIME for what people read). */
static inline uint64_t now_usec(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000;
}

/* Makes room for one more element of a growing array; the count is left to the caller. */
static inline int array_reserve(void **items, size_t count, size_t element_size)
{
	void *grown;

	/* Capacity is the count rounded up to a power of two, so it need not be stored. */
	if (count & (count - 1) || (count > 0 && count < 4))
		return 0;
	if (count > SIZE_MAX / 2 / element_size)
		return -ENOMEM;
	grown = reallocarray(*items, count ? count * 2 : 4, element_size);
	if (!grown)
		return -ENOMEM;
	*items = grown;
	return 0;
}

/* 64-bit FNV-1a, for names that are the same in every process. Tables use hash_foreign(). */
static inline uint64_t hash_string(const char *string)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (; *string; string++)
		hash = (hash ^ (unsigned char)*string) * 0x100000001b3ULL;
	return hash;
}
