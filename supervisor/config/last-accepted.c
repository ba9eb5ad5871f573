/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boot is told by a comment in the first line, so that the file is an ordinary configuration
 * otherwise.
 */
#include "config/last-accepted.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_SIZE 64
#define BOOT_LINE    "# The configuration that devplugd has in force. Accepted in boot "

static int read_boot_id(char ret[static BOOT_ID_SIZE])
{
	_cleanup_fclose_ FILE *stream = fopen(BOOT_ID_FILE, "re");

	if (!stream)
		return -errno;
	if (!fgets(ret, BOOT_ID_SIZE, stream))
		return -EIO;
	ret[strcspn(ret, "\n")] = '\0';
	return 0;
}

int last_accepted_text(const struct config *config, char **ret, size_t *ret_size)
{
	_cleanup_free_ char *text = NULL;
	char boot_id[BOOT_ID_SIZE];
	size_t size;
	FILE *stream;
	int r;

	r = read_boot_id(boot_id);
	if (r < 0)
		return r;
	stream = open_memstream(&text, &size);
	if (!stream)
		return -ENOMEM;
	(void)fprintf(stream, BOOT_LINE "%s\n", boot_id);
	r = config_dump(config, stream);
	if (fclose(stream) != 0 || r < 0)
		return -ENOMEM;
	if (size > CONFIG_FILE_MAX)
		return -EFBIG;
	*ret = TAKE_PTR(text);
	*ret_size = size;
	return 0;
}

/* Whether the file is of the boot that runs. */
static int check_boot(const char *path, struct error *error)
{
	char line[sizeof(BOOT_LINE) + BOOT_ID_SIZE] = "", boot_id[BOOT_ID_SIZE];
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	const char *found;
	int r;

	if (!stream)
		return error_set(error, -errno, "%s cannot be read: %s", path, strerror(errno));
	r = read_boot_id(boot_id);
	if (r < 0)
		return error_set(error, r, "%s cannot be read: %s", BOOT_ID_FILE, strerror(-r));
	if (fgets(line, sizeof(line), stream))
		line[strcspn(line, "\n")] = '\0';
	found = startswith(line, BOOT_LINE);
	if (!found || !streq(found, boot_id))
		return error_set(error, -ESTALE, "%s is of an earlier boot", path);
	return 0;
}

int last_accepted_load(const char *runtime_dir, struct config **ret, struct error *error)
{
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	if (asprintf(&path, "%s/%s", runtime_dir, LAST_ACCEPTED_FILE) < 0) {
		path = NULL;
		return error_set(error, -ENOMEM, "out of memory");
	}
	r = check_boot(path, error);
	if (r < 0)
		return r;
	r = config_load_alone(path, &report, ret);
	if (r < 0)
		return error_set(error, r, "%s cannot be used: %s", path,
			report.count > 0 ? report.entries[0].text : strerror(-r));
	return 0;
}
