/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded with LD_PRELOAD, makes a program's system calls fail as set in $DEVPLUGD_FAULTS: words
 * "CALL=N%" (each call fails with that probability), "CALL@N" (the Nth call fails), "CALL@N+" (it
 * and all after it), "seed=N", "no-death-signal" and "hang-entry". In a child, $DEVPLUGD_MISCHIEF
 * names a directory: the file TYPE.KIND in it, TYPE being the last part of the resource's name,
 * makes the child misbehave in the way of that kind. While the file $DEVPLUGD_KILL_AT exists, the
 * Nth call from then on that changes a file or sends a message kills the program; N is in the file.
 * While the file $DEVPLUGD_FAIL_OPEN exists, no file can be opened whose path ends with the text in
 * it.
 */
/* Its wrappers call functions of the same names as those below. */
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/control-child.h"

enum call {
	CALL_FORK,
	CALL_EXECVEAT,
	CALL_INOTIFY_INIT1,
	CALL_INOTIFY_ADD_WATCH,
	CALL_MEMFD_CREATE,
	CALL_SOCKETPAIR,
	CALL_PIPE2,
	CALL_ACCEPT4,
	CALL_OPEN_NULL, /* of /dev/null */
	CALL_DUPFD,     /* fcntl(F_DUPFD_CLOEXEC), but not between fork() and exec() */
	_CALL_MAX,
};

static const struct {
	const char *name;
	int error;
} calls[_CALL_MAX] = {
	[CALL_FORK] = { "fork", EAGAIN },
	[CALL_EXECVEAT] = { "execveat", ENOMEM },
	[CALL_INOTIFY_INIT1] = { "inotify_init1", EMFILE },
	[CALL_INOTIFY_ADD_WATCH] = { "inotify_add_watch", ENOSPC },
	[CALL_MEMFD_CREATE] = { "memfd_create", ENFILE },
	[CALL_SOCKETPAIR] = { "socketpair", EMFILE },
	[CALL_PIPE2] = { "pipe2", EMFILE },
	[CALL_ACCEPT4] = { "accept4", EMFILE },
	[CALL_OPEN_NULL] = { "open_null", ENFILE },
	[CALL_DUPFD] = { "dupfd", EMFILE },
};

static struct {
	unsigned percent[_CALL_MAX];
	unsigned first[_CALL_MAX]; /* number of the call that fails, 0: none */
	bool onward[_CALL_MAX];
	uint64_t seed;
	bool no_death_signal, hang_entry;
} rules;

/* Shared with forked processes, so that a call between fork() and exec() counts. */
static struct {
	atomic_uint counts[_CALL_MAX];
	atomic_uint_fast64_t draws;
} * shared;
static pid_t loaded_by;
static char mischief[512]; /* "DIRECTORY/TYPE." */
static atomic_bool babbling;
static const char *kill_at, *fail_open;

static struct {
	pid_t (*fork)(void);
	long (*syscall)(long number, ...);
	int (*inotify_init1)(int flags);
	int (*inotify_add_watch)(int fd, const char *path, uint32_t mask);
	int (*memfd_create)(const char *name, unsigned flags);
	int (*socketpair)(int domain, int type, int protocol, int fds[2]);
	int (*pipe2)(int fds[2], int flags);
	int (*accept4)(int fd, struct sockaddr *address, socklen_t *size, int flags);
	int (*open)(const char *path, int flags, ...);
	int (*openat)(int fd, const char *path, int flags, ...);
	int (*mkdirat)(int fd, const char *path, mode_t mode);
	int (*renameat)(int fd, const char *path, int other_fd, const char *other);
	int (*unlinkat)(int fd, const char *path, int flags);
	ssize_t (*write)(int fd, const void *data, size_t size);
	int (*prctl)(int option, ...);
	int (*epoll_wait)(int fd, struct epoll_event *events, int n, int timeout);
	int (*fcntl)(int fd, int command, ...);
	ssize_t (*sendmsg)(int fd, const struct msghdr *message, int flags);
} real;

static void parse_word(const char *word)
{
	char name[32];
	unsigned number;
	char sign, mark = '\0';

	if (strcmp(word, "no-death-signal") == 0) {
		rules.no_death_signal = true;
		return;
	}
	if (strcmp(word, "hang-entry") == 0) {
		rules.hang_entry = true;
		return;
	}
	if (sscanf(word, "%31[a-z0-9_]%c%u%c", name, &sign, &number, &mark) < 3)
		abort();
	if (strcmp(name, "seed") == 0) {
		rules.seed = number;
		return;
	}
	for (size_t i = 0; i < _CALL_MAX; i++) {
		if (strcmp(calls[i].name, name) != 0)
			continue;
		if (sign == '=' && mark == '%') {
			rules.percent[i] = number;
		} else if (sign == '@') {
			rules.first[i] = number;
			rules.onward[i] = mark == '+';
		} else {
			abort();
		}
		return;
	}
	/* A rule that does nothing would make a test that tests nothing. */
	abort();
}

#define FIND(name) (*(void **)&real.name = dlsym(RTLD_NEXT, #name))

/* The constructors of other libraries may call us before ours. */
static void find_all(void)
{
	FIND(fork);
	FIND(syscall);
	FIND(inotify_init1);
	FIND(inotify_add_watch);
	FIND(memfd_create);
	FIND(socketpair);
	FIND(pipe2);
	FIND(accept4);
	FIND(open);
	FIND(openat);
	FIND(mkdirat);
	FIND(renameat);
	FIND(unlinkat);
	FIND(write);
	FIND(prctl);
	FIND(epoll_wait);
	FIND(fcntl);
	FIND(sendmsg);
}

#define REAL(name) (real.name ? real.name : (find_all(), real.name))

__attribute__((constructor)) static void begin(int argc, char **argv)
{
	const char *words = getenv("DEVPLUGD_FAULTS"), *directory = getenv("DEVPLUGD_MISCHIEF");
	char *copy = words ? strdup(words) : NULL, *save = NULL;

	find_all();
	loaded_by = getpid();
	kill_at = getenv("DEVPLUGD_KILL_AT");
	fail_open = getenv("DEVPLUGD_FAIL_OPEN");
	for (char *word = copy ? strtok_r(copy, " ", &save) : NULL; word;
		word = strtok_r(NULL, " ", &save))
		parse_word(word);
	free(copy);
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		abort();
	if (directory && argc == 2) {
		const char *slash = strrchr(argv[1], '/');

		(void)snprintf(mischief, sizeof(mischief), "%s/%s.", directory,
			slash ? slash + 1 : argv[1]);
	}
}

/* Any number of threads, and the same sequence for the same seed in a single one (splitmix64). */
static uint64_t draw(void)
{
	uint64_t z = rules.seed + (atomic_fetch_add(&shared->draws, 1) + 1) * 0x9e3779b97f4a7c15U;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
	z = (z ^ z >> 27) * 0x94d049bb133111ebU;
	return z ^ z >> 31;
}

static bool fails(enum call call)
{
	unsigned number;
	bool scheduled;

	if (!shared)
		return false;
	number = atomic_fetch_add(&shared->counts[call], 1) + 1;
	scheduled = rules.first[call] > 0 &&
		(rules.onward[call] ? number >= rules.first[call] : number == rules.first[call]);
	if (!scheduled && (rules.percent[call] == 0 || draw() % 100 >= rules.percent[call]))
		return false;
	errno = calls[call].error;
	return true;
}

static bool is_told(const char *kind)
{
	char path[sizeof(mischief) + 16];

	if (!mischief[0])
		return false;
	(void)snprintf(path, sizeof(path), "%s%s", mischief, kind);
	return access(path, F_OK) == 0;
}

static void *babble(void *userdata)
{
	static char line[4096];

	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\n';
	while (write(STDERR_FILENO, line, sizeof(line)) >= 0 || errno == EINTR)
		;
	return NULL;
}

static void before_wait(void)
{
	int saved_errno = errno;
	pthread_t thread;

	if (gettid() == getpid()) {
		while (is_told("spin"))
			;
		if (is_told("babble") && !atomic_exchange(&babbling, true))
			(void)pthread_create(&thread, NULL, babble, NULL);
	}
	errno = saved_errno;
}

pid_t fork(void)
{
	return fails(CALL_FORK) ? -1 : REAL(fork)();
}

long syscall(long number, ...)
{
	long arguments[6];
	va_list ap;

	va_start(ap, number);
	for (size_t i = 0; i < 6; i++)
		arguments[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_execveat && fails(CALL_EXECVEAT))
		return -1;
	if (number == SYS_epoll_pwait2)
		before_wait();
	return REAL(syscall)(number, arguments[0], arguments[1], arguments[2], arguments[3],
		arguments[4], arguments[5]);
}

int epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
	before_wait();
	return REAL(epoll_wait)(fd, events, n, timeout);
}

int inotify_init1(int flags)
{
	return fails(CALL_INOTIFY_INIT1) ? -1 : REAL(inotify_init1)(flags);
}

int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	return fails(CALL_INOTIFY_ADD_WATCH) ? -1 : REAL(inotify_add_watch)(fd, path, mask);
}

int memfd_create(const char *name, unsigned flags)
{
	return fails(CALL_MEMFD_CREATE) ? -1 : REAL(memfd_create)(name, flags);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
	return fails(CALL_SOCKETPAIR) ? -1 : REAL(socketpair)(domain, type, protocol, fds);
}

int pipe2(int fds[2], int flags)
{
	return fails(CALL_PIPE2) ? -1 : REAL(pipe2)(fds, flags);
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
	return fails(CALL_ACCEPT4) ? -1 : REAL(accept4)(fd, address, size, flags);
}

static bool cannot_open(const char *path)
{
	size_t length = strlen(path);
	ssize_t n = 0;
	char end[256];
	int fd;

	if (!fail_open || getpid() != loaded_by)
		return false;
	fd = REAL(open)(fail_open, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, end, sizeof(end));
		(void)close(fd);
	}
	if (n <= 0 || (size_t)n > length || memcmp(path + length - (size_t)n, end, (size_t)n) != 0)
		return false;
	errno = EMFILE;
	return true;
}

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	if (flags & (O_CREAT | __O_TMPFILE)) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	/* Not at the start, where it rightly ends the program. */
	if (shared && atomic_load(&shared->counts[CALL_SOCKETPAIR]) > 0 &&
		strcmp(path, "/dev/null") == 0 && fails(CALL_OPEN_NULL))
		return -1;
	if (cannot_open(path))
		return -1;
	return REAL(open)(path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
	void *argument;
	va_list ap;

	va_start(ap, command);
	argument = va_arg(ap, void *);
	va_end(ap);
	/* A call with 0 only counts the free descriptors before a message is received. */
	if (command == F_DUPFD_CLOEXEC && argument && getpid() == loaded_by && fails(CALL_DUPFD))
		return -1;
	return REAL(fcntl)(fd, command, argument);
}

int prctl(int option, ...)
{
	unsigned long arguments[4];
	va_list ap;

	va_start(ap, option);
	for (size_t i = 0; i < 4; i++)
		arguments[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (option == PR_SET_PDEATHSIG && rules.no_death_signal)
		return 0;
	if (rules.hang_entry && option == PR_SET_NO_NEW_PRIVS)
		(void)pause();
	return REAL(prctl)(option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

static void step(void)
{
	static unsigned long n_steps;
	int saved_errno = errno, fd;
	char text[16] = "";

	if (!kill_at || getpid() != loaded_by)
		return;
	fd = REAL(open)(kill_at, O_RDONLY | O_CLOEXEC);
	n_steps = fd < 0 ? 0 : n_steps + 1;
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && n_steps >= strtoul(text, NULL, 10))
		(void)kill(getpid(), SIGKILL);
	if (fd >= 0)
		(void)close(fd);
	errno = saved_errno;
}

int openat(int fd, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	if (flags & (O_CREAT | __O_TMPFILE)) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
		step();
	}
	return cannot_open(path) ? -1 : REAL(openat)(fd, path, flags, mode);
}

int mkdirat(int fd, const char *path, mode_t mode)
{
	step();
	return REAL(mkdirat)(fd, path, mode);
}

int renameat(int fd, const char *path, int other_fd, const char *other)
{
	step();
	return REAL(renameat)(fd, path, other_fd, other);
}

int unlinkat(int fd, const char *path, int flags)
{
	step();
	return REAL(unlinkat)(fd, path, flags);
}

ssize_t write(int fd, const void *data, size_t size)
{
	step();
	return REAL(write)(fd, data, size);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t n;

	step();
	n = REAL(sendmsg)(fd, message, flags);

	/* The same again and again, as fast as it is taken. */
	if (fd == CONTROL_FD && n >= 0 && is_told("flood"))
		while (REAL(sendmsg)(fd, message, flags & ~MSG_DONTWAIT) >= 0)
			;
	return n;
}
