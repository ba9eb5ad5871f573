/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's timer threads look at their empty lists once a second for as long as the process lives
 * (grpc#19947). Nothing that devplugd asks of gRPC has a deadline, so they may look less often.
 * Two definitions here take the place of the C library's, as in few-threads.c: by one those threads
 * name themselves when they start, which is the only moment to have them run a line of ours; by the
 * other Abseil waits. All but the waits of the timer threads is passed on as it is.
 */
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "common/util.h"

/* The kernel may use the slack or not: when another timer expires it looks for more to do. */
#define LONGER_SEC 20
#define SLACK_NSEC 30000000000UL

static _Thread_local bool is_timer_thread;
static int (*set_name)(pthread_t thread, const char *name);
static long (*call)(long number, ...);

/* Once in the template for all its children: a search touches each library, which a child would
 * have to map. */
__attribute__((constructor)) static void find_functions(void)
{
	*(void **)&set_name = dlsym(RTLD_NEXT, "pthread_setname_np");
	*(void **)&call = dlsym(RTLD_NEXT, "syscall");
}

int pthread_setname_np(pthread_t thread, const char *name)
{
	static const char *const timer_threads[] = { "grpc_global_tim", "timer_manager" };

	for (size_t i = 0; i < ARRAY_SIZE(timer_threads); i++)
		if (startswith(name, timer_threads[i])) {
			(void)prctl(PR_SET_TIMERSLACK, SLACK_NSEC);
			is_timer_thread = true;
		}
	/* Libraries are constructed before us. */
	if (!set_name)
		find_functions();
	return set_name ? set_name(thread, name) : ENOSYS;
}

/* The wait of a timer thread, with a time that the kernel reads as we do. */
static bool is_to_be_longer(long number, const long words[static 6])
{
	int operation = (int)words[1] & FUTEX_CMD_MASK;

	return is_timer_thread && number == SYS_futex && words[3] &&
		(operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET) &&
		sizeof(time_t) == 8 && sizeof(long) == 8;
}

/* Reads as many words as there can be. What the caller did not give is nobody's argument, but a
 * sanitizer's red zone may lie there. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	struct timespec longer;
	long words[6];
	va_list ap;

	va_start(ap, number);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = va_arg(ap, long);
	va_end(ap);
	/* A time or a span: both are longer by seconds. */
	if (is_to_be_longer(number, words)) {
		longer = *(const struct timespec *)words[3];
		longer.tv_sec += LONGER_SEC;
		words[3] = (long)&longer;
	}
	if (!call)
		find_functions();
	if (call)
		return call(number, words[0], words[1], words[2], words[3], words[4], words[5]);
	errno = ENOSYS;
	return -1;
}
