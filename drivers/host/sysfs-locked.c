/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which attributes are read in a separate thread, how long a caller waits for one, and
 * which values are kept. A thread that the kernel holds up stays until the lock is free; meanwhile
 * no other thread reads the same file.
 */
#include "drivers/host/sysfs-locked.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/map.h"
#include "drivers/host/sysroot.h"

/* Long enough for a busy host, and SYSFS_LOCKED_MAX times as long still leaves time for a
 * heartbeat. */
#define WAIT (500 * USEC_PER_MSEC)
/* The reading function needs a few hundred bytes. */
#define STACK_SIZE (128 * 1024)
/* When exceeded, all values are read again. */
#define KEPT_MAX 4096

/* `constant`: a file beside it that needs no lock; while it has the same content, the value is the
 * same. */
static const struct {
	const char *file, *constant;
} locked[] = {
	/* usb_lock_device() */
	{ "serial", "devnum" },
	{ "manufacturer", "devnum" },
	{ "product", "devnum" },
	{ "configuration", NULL },
	{ "bConfigurationValue", NULL },
	{ "bNumInterfaces", NULL },
	{ "bmAttributes", NULL },
	{ "bMaxPower", NULL },
	/* device_lock(), and the lock of a PCI function's configuration space during a reset */
	{ "sriov_numvfs", NULL },
	{ "sriov_vf_total_msix", NULL },
	{ "driver_override", NULL },
	{ "config", NULL },
	{ "vpd", NULL },
	{ "rom", NULL },
	/* rtnl_lock() */
	{ "phys_port_name", "ifindex" },
	{ "phys_port_id", NULL },
	{ "phys_switch_id", NULL },
	{ "carrier", NULL },
	{ "speed", NULL },
	{ "duplex", NULL },
};

struct job {
	char *root, *path;
	size_t size;
	ssize_t length;
	bool done, given_up; /* it has ended; a caller no longer waits for it */
	unsigned references; /* of callers and of the thread */
	char buffer[];
};

struct kept {
	char *key;  /* root and path */
	char *of;   /* what identifies the device, see identity_of() */
	char *text; /* the value */
};

/* All of it is locked by `mutex`. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static struct job *jobs[SYSFS_LOCKED_MAX];
static struct kept *kept[KEPT_MAX];
static size_t n_kept;
static struct map kept_by_key;

static atomic_uint refusals;

static _Thread_local uint64_t time_left = USEC_INFINITY; /* see sysfs_locked_limit() */

static size_t find_locked(const char *path)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(locked); i++)
		if (streq(locked[i].file, file))
			break;
	return i;
}

bool sysfs_is_locked(const char *path)
{
	return find_locked(path) < ARRAY_SIZE(locked);
}

void sysfs_locked_limit(uint64_t usec)
{
	time_left = usec;
}

unsigned sysfs_locked_refusals(void)
{
	return refusals;
}

/* --- values that stay the same --- */

/* Identifies the device of the file: by the inode number of its directory, which the kernel does
 * not reuse while it runs, and by the content of the `constant` file. Returns 0 or negative
 * errno. */
static int identity_of(const char *root, const char *path, const char *constant, char **ret)
{
	int length = (int)(strrchr(path, '/') - path);
	_cleanup_free_ char *directory = strndup(path, (size_t)length), *beside = NULL;
	char text[32];
	struct stat st;
	ssize_t n;
	int r;

	if (!directory || format_text(&beside, "%s/%s", directory, constant) < 0)
		return -ENOMEM;
	n = sysroot_read(root, beside, text, sizeof(text));
	if (n < 0)
		return (int)n;
	r = sysroot_stat(root, directory, &st);
	if (r < 0)
		return r;
	return format_text(ret, "%ju:%s", (uintmax_t)st.st_ino, text);
}

static void kept_free(struct kept *entry)
{
	free(entry->key);
	free(entry->of);
	free(entry->text);
	free(entry);
}

static void forget_all(void)
{
	map_done(&kept_by_key);
	while (n_kept > 0)
		kept_free(kept[--n_kept]);
}

/* Copies a kept value. Returns its length, or -ENOENT. */
static ssize_t recall(const char *key, const char *of, char *buffer, size_t size)
{
	ssize_t length = -ENOENT;
	const struct kept *entry;

	(void)pthread_mutex_lock(&mutex);
	entry = map_get(&kept_by_key, key);
	if (entry && streq(entry->of, of) && strlen(entry->text) < size)
		length = stpcpy(buffer, entry->text) - buffer;
	(void)pthread_mutex_unlock(&mutex);
	return length;
}

/* Without memory, the value is read again. */
static void keep(const char *key, const char *of, const char *text)
{
	struct kept *entry;
	char *new_of = strdup(of), *new_text = strdup(text);

	(void)pthread_mutex_lock(&mutex);
	if (n_kept == KEPT_MAX)
		forget_all();
	entry = map_get(&kept_by_key, key);
	if (!entry && new_of && new_text) {
		entry = calloc(1, sizeof(*entry));
		if (entry)
			entry->key = strdup(key);
		if (entry && (!entry->key || map_put(&kept_by_key, entry->key, entry) < 0)) {
			kept_free(entry);
			entry = NULL;
		}
		if (entry)
			kept[n_kept++] = entry;
	}
	if (entry && new_of && new_text) {
		free(entry->of);
		free(entry->text);
		entry->of = TAKE_PTR(new_of);
		entry->text = TAKE_PTR(new_text);
	}
	(void)pthread_mutex_unlock(&mutex);
	free(new_of);
	free(new_text);
}

/* --- reading --- */

static void job_unref(struct job *job)
{
	if (--job->references > 0)
		return;
	free(job->root);
	free(job->path);
	free(job);
}

static void *run(void *userdata)
{
	struct job *job = userdata;
	/* It needs no memory of the heap, so that no arena is made for the thread. */
	ssize_t length = sysroot_read(job->root, job->path, job->buffer, job->size);

	(void)pthread_mutex_lock(&mutex);
	job->length = length;
	job->done = true;
	for (size_t i = 0; i < SYSFS_LOCKED_MAX; i++)
		if (jobs[i] == job)
			jobs[i] = NULL;
	(void)pthread_cond_broadcast(&ended);
	job_unref(job);
	(void)pthread_mutex_unlock(&mutex);
	return NULL;
}

static int start_thread(struct job *job)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int r;

	r = pthread_attr_init(&attributes);
	if (r != 0)
		return -r;
	(void)pthread_attr_setstacksize(&attributes, STACK_SIZE);
	(void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attributes, run, job);
	(void)pthread_attr_destroy(&attributes);
	return -r;
}

static int start(const char *root, const char *path, size_t size, struct job **slot)
{
	struct job *job = calloc(1, sizeof(*job) + size);
	int r = -ENOMEM;

	if (!job)
		return -ENOMEM;
	job->root = strdup(root);
	job->path = strdup(path);
	job->size = size;
	job->references = 1;
	if (job->root && job->path)
		r = start_thread(job);
	if (r < 0) {
		job_unref(job);
		return r;
	}
	*slot = job;
	return 0;
}

/* Finds the read that another caller waits for, or starts one. Returns 0 or negative errno. */
static int get_job(const char *root, const char *path, size_t size, struct job **ret)
{
	struct job **slot = NULL;
	int r = 0;

	for (size_t i = 0; i < SYSFS_LOCKED_MAX; i++) {
		if (!jobs[i]) {
			slot = &jobs[i];
			continue;
		}
		if (!streq(jobs[i]->path, path) || !streq(jobs[i]->root, root) ||
			(jobs[i]->size != size && !jobs[i]->given_up))
			continue;
		if (jobs[i]->given_up)
			return -EBUSY;
		slot = &jobs[i];
		break;
	}
	if (!slot)
		return -EBUSY;
	if (!*slot)
		r = start(root, path, size, slot);
	if (r >= 0) {
		(*slot)->references++;
		*ret = *slot;
	}
	return r;
}

static ssize_t wait_for(struct job *job, char *buffer)
{
	uint64_t until = now_usec(CLOCK_MONOTONIC) + WAIT;
	const struct timespec deadline = {
		.tv_sec = (time_t)(until / USEC_PER_SEC),
		.tv_nsec = (long)(until % USEC_PER_SEC) * 1000,
	};
	int r = 0;

	while (!job->done && !job->given_up && r != ETIMEDOUT)
		r = pthread_cond_clockwait(&ended, &mutex, CLOCK_MONOTONIC, &deadline);
	if (!job->done) {
		job->given_up = true;
		(void)pthread_cond_broadcast(&ended);
		return -EBUSY;
	}
	if (job->length >= 0)
		memcpy(buffer, job->buffer, (size_t)job->length + 1);
	return job->length;
}

static void spend(uint64_t usec)
{
	if (time_left != USEC_INFINITY)
		time_left -= MIN_OF(usec, time_left);
}

static ssize_t read_in_thread(const char *root, const char *path, char *buffer, size_t size)
{
	uint64_t begun = now_usec(CLOCK_MONOTONIC);
	struct job *job;
	ssize_t length = -EBUSY;

	(void)pthread_mutex_lock(&mutex);
	if (time_left > 0)
		length = get_job(root, path, size, &job);
	if (length >= 0) {
		length = wait_for(job, buffer);
		job_unref(job);
	}
	(void)pthread_mutex_unlock(&mutex);
	spend(now_usec(CLOCK_MONOTONIC) - begun);
	/* No thread can be started now. */
	if (length == -EAGAIN)
		length = -EBUSY;
	if (length == -EBUSY)
		refusals++;
	return length;
}

ssize_t sysfs_read_locked(const char *root, const char *path, char *buffer, size_t size)
{
	_cleanup_free_ char *key = NULL, *of = NULL;
	size_t i = find_locked(path);
	ssize_t length;
	struct stat st;
	int r;

	/* Many devices lack the file, and learning that needs no lock. */
	r = sysroot_stat(root, path, &st);
	if (r < 0)
		return r;
	r = i < ARRAY_SIZE(locked) && locked[i].constant
		? identity_of(root, path, locked[i].constant, &of)
		: -ENOENT;
	if (sysroot_is_shortage(r))
		return r;
	if (r < 0)
		return read_in_thread(root, path, buffer, size);
	if (format_text(&key, "%s%s", root, path) < 0)
		return -ENOMEM;
	length = recall(key, of, buffer, size);
	if (length == -ENOENT) {
		length = read_in_thread(root, path, buffer, size);
		if (length >= 0 && strlen(buffer) == (size_t)length)
			keep(key, of, buffer);
	}
	return length;
}
