/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the metrics of the exporter itself, by the names that all exporters have.
 */
#include "exporter/own-process.h"

#include <dirent.h>
#include <sys/resource.h>

static uint64_t count_descriptors(void)
{
	DIR *stream = opendir("/proc/self/fd");
	uint64_t count = 0;

	while (stream && readdir(stream))
		count++;
	if (stream)
		(void)closedir(stream);
	/* Does not count ".", ".." and the directory itself. */
	return count > 3 ? count - 3 : 0;
}

void own_process_write(struct exposition *out)
{
	FILE *stream = fopen("/proc/self/statm", "re");
	unsigned long size = 0, resident = 0;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct rlimit limit = { 0 };
	struct rusage usage = { 0 };

	if (stream) {
		(void)!fscanf(stream, "%lu %lu", &size, &resident);
		(void)fclose(stream);
	}
	(void)getrusage(RUSAGE_SELF, &usage);
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	exposition_begin(
		out, "process_cpu_seconds_total", "counter", "Processor time of the exporter.");
	exposition_add_seconds(out, "", NULL, 0,
		(uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * USEC_PER_SEC +
			(uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
	exposition_begin(
		out, "process_resident_memory_bytes", "gauge", "Resident memory of the exporter.");
	exposition_add(out, "", NULL, 0, resident * page);
	exposition_begin(
		out, "process_virtual_memory_bytes", "gauge", "Virtual memory of the exporter.");
	exposition_add(out, "", NULL, 0, size * page);
	exposition_begin(out, "process_open_fds", "gauge", "Open descriptors of the exporter.");
	exposition_add(out, "", NULL, 0, count_descriptors());
	exposition_begin(out, "process_max_fds", "gauge",
		"Maximum number of open descriptors of the exporter.");
	exposition_add(out, "", NULL, 0, limit.rlim_cur);
}
