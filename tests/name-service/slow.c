/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name service for the C library that does not answer for a long time, as a network directory
 * whose server is unreachable.
 */
#include <grp.h>
#include <nss.h>
#include <pwd.h>
#include <unistd.h>

#define SECONDS 600

enum nss_status _nss_slow_getpwuid_r(
	uid_t uid, struct passwd *ret, char *buffer, size_t size, int *ret_errno);
enum nss_status _nss_slow_getpwnam_r(
	const char *name, struct passwd *ret, char *buffer, size_t size, int *ret_errno);
enum nss_status _nss_slow_getgrgid_r(
	gid_t gid, struct group *ret, char *buffer, size_t size, int *ret_errno);
enum nss_status _nss_slow_getgrnam_r(
	const char *name, struct group *ret, char *buffer, size_t size, int *ret_errno);

static enum nss_status wait_long(void)
{
	(void)sleep(SECONDS);
	return NSS_STATUS_NOTFOUND;
}

enum nss_status _nss_slow_getpwuid_r(
	uid_t uid, struct passwd *ret, char *buffer, size_t size, int *ret_errno)
{
	return wait_long();
}

enum nss_status _nss_slow_getpwnam_r(
	const char *name, struct passwd *ret, char *buffer, size_t size, int *ret_errno)
{
	return wait_long();
}

enum nss_status _nss_slow_getgrgid_r(
	gid_t gid, struct group *ret, char *buffer, size_t size, int *ret_errno)
{
	return wait_long();
}

enum nss_status _nss_slow_getgrnam_r(
	const char *name, struct group *ret, char *buffer, size_t size, int *ret_errno)
{
	return wait_long();
}
