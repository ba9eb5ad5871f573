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

long sysconf(int name)
{
	long (*real)(int name);

	if (name == _SC_NPROCESSORS_CONF)
		return PROCESSORS;
	*(void **)&real = dlsym(RTLD_NEXT, "sysconf");
	if (real)
		return real(name);
	errno = ENOSYS;
	return -1;
}
