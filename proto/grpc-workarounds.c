/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works around two properties of gRPC that no option changes. They cost memory and CPU time, and a
 * debug build of Abseil can end the process: -DDEVPLUGD_GRPC_WORKAROUNDS=OFF builds without this
 * file. The rest of the binding uses only what gRPC documents.
 */
#include <dlfcn.h>

#include "common/util.h"

/*
 * gRPC starts a thread for each configured processor, up to 32; one resource needs two. It calls
 * sysconf(), and this definition replaces the C library's, because an executable's symbols come
 * before those of libraries. All other questions are passed on. Without it, measured with 64
 * processors and gRPC 1.51: 38 threads in each process instead of 9, and 670 kB of private memory
 * instead of 330.
 */
#define PROCESSORS 2

static long (*real_sysconf)(int name);

static void find_sysconf(void)
{
	*(void **)&real_sysconf = dlsym(RTLD_NEXT, "sysconf");
}

long sysconf(int name)
{
	if (name == _SC_NPROCESSORS_CONF)
		return PROCESSORS;
	/* Libraries are constructed before us. */
	if (!real_sysconf)
		find_sysconf();
	if (real_sysconf)
		return real_sysconf(name);
	errno = ENOSYS;
	return -1;
}

/*
 * Abseil, where it is built without NDEBUG (Debian), detects deadlocks in a graph of all locks. A
 * C++ function disables that; the build finds its name in the library, or leaves this out. Without
 * it: a tenth of the CPU time of a call, and 70 kB of memory in each process; and it ends a process
 * in which gRPC takes two locks in both orders, as seen with 1.76.
 */
#ifdef DEVPLUGD_ABSEIL_DEADLOCKS
__attribute__((weak)) void set_deadlock_detection(int what) __asm__(DEVPLUGD_ABSEIL_DEADLOCKS);
#endif

static void leave_deadlocks_alone(void)
{
#ifdef DEVPLUGD_ABSEIL_DEADLOCKS
	enum { IGNORE };

	if (set_deadlock_detection)
		set_deadlock_detection(IGNORE);
#endif
}

/* Once in the template for all its children: a search touches each library, which a child would
 * have to map. */
__attribute__((constructor)) static void apply(void)
{
	find_sysconf();
	leave_deadlocks_alone();
}
