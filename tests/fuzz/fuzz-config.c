/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a configuration file: never a crash or leak, and what is accepted survives the way
 * to a child, the canonical text, unchanged.
 */
#include <sys/mman.h>
#include <sys/stat.h>

#include "configuration/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* libconfig 1.5 loses what it was reading at a syntax error. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so\n";
}

static void check_canonical_text(const struct resource_config *resource)
{
	struct report report = {};
	_cleanup_config_ struct config *again = NULL;

	if (config_load_resource(resource->text, &report, &again) < 0) {
		for (size_t i = 0; i < report.count; i++)
			(void)fprintf(stderr, "%s\n", report.entries[i].text);
		abort();
	}
	if (!streq(again->resources[0].text, resource->text))
		abort();
	report_done(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_config_ struct config *config = NULL;
	struct report report = {};
	char path[64];
	int fd = memfd_create("config", MFD_CLOEXEC);

	/* A file that others can write to is not read. */
	if (fd < 0 || fchmod(fd, 0600) < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (config_load(path, &report, &config) >= 0)
		for (size_t i = 0; i < config->n_resources; i++)
			check_canonical_text(&config->resources[i]);
	report_done(&report);
	close_fd(fd);
	return 0;
}
