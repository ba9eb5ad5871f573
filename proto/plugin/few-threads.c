/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC starts a thread for each processor that is configured, up to 32, and has no option for less;
 * one resource needs two. It asks sysconf(), and this definition takes the place of the C library's
 * for it, because an executable's symbols come before those of libraries. Everything but that one
 * question is passed on.
 */
#include <dlfcn.h>

#include "common/util.h"

#define PROCESSORS 2

static long (*real)(int name);

/* Once in the template for all its children, see find_functions() in proto/completion.c. */
__attribute__((constructor)) static void find_real(void)
{
	*(void **)&real = dlsym(RTLD_NEXT, "sysconf");
}

long sysconf(int name)
{
	if (name == _SC_NPROCESSORS_CONF)
		return PROCESSORS;
	/* Libraries are constructed before us. */
	if (!real)
		find_real();
	if (real)
		return real(name);
	errno = ENOSYS;
	return -1;
}
