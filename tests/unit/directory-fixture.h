/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A directory of its own for each test, removed afterwards.
 */

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char dir[64];

static int make_dir(void **state)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/test-kubelet.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int remove_dir(void **state)
{
	return nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* The path of a name in the directory; good until the call after the next one. */
static const char *in_dir(const char *name)
{
	static char path[2][160];
	static unsigned turn;

	turn = !turn;
	(void)snprintf(path[turn], sizeof(path[turn]), "%s/%s", dir, name);
	return path[turn];
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_dir, remove_dir)
