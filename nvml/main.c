/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devplugd-nvml LIBRARY SECONDS: the only process that loads NVIDIA's management library. It writes
 * the library's reports as documents of docs/exec-protocol.md, one in a line, after each event and
 * at least every SECONDS, but at most once in 100 ms. It is killed if it writes nothing, and ending
 * it closes every handle of a GPU; neither loses data.
 */
#include <limits.h>
#include <sys/resource.h>

#include "common/json-write.h"
#include "nvml/nvml-gpus.h"

/* Far above the library's normal use, so that a leak ends only this process. */
#define MEMORY_MAX (1ULL << 30)

/* The minimum time between two reports, because a pod can cause any number of errors, and thus
 * events. */
#define REPORT_SPACING (100 * USEC_PER_MSEC)

#define EXIT_USAGE 2

struct output {
	struct json_writer writer;
	const char *separator;
};

/* --- writing --- */

static void write_text_property(struct output *output, const char *name, const char *value)
{
	json_write_text(&output->writer, output->separator);
	json_write_string(&output->writer, name);
	json_write_text(&output->writer, ":");
	json_write_string(&output->writer, value);
	output->separator = ",";
}

static void write_number_property(struct output *output, const char *name, unsigned long long value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", value);
	write_text_property(output, name, text);
}

static void write_reading(struct output *output, const char *name, const struct reading *reading)
{
	if (reading->known)
		write_number_property(output, name, reading->value);
}

static void begin_device(struct output *output, const char *id, bool first)
{
	json_write_text(&output->writer, first ? "{\"id\":" : ",{\"id\":");
	json_write_string(&output->writer, id);
	json_write_text(&output->writer, ",\"properties\":{");
	output->separator = "";
}

static void end_device(struct output *output)
{
	json_write_text(&output->writer, "}}");
}

/* "79:-:1 13:2:1000": Xid, GPU instance, count. */
static void write_xids(struct output *output, const struct gpu *gpu)
{
	char text[XIDS_MAX * 48] = "";
	size_t used = 0;

	for (unsigned i = 0; i < gpu->n_xids && used < sizeof(text); i++) {
		const struct xid *xid = &gpu->xids[i];
		char gi[12] = "-";

		if (xid->gi != UINT_MAX)
			(void)snprintf(gi, sizeof(gi), "%u", xid->gi);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u:%s:%llu",
			i > 0 ? " " : "", xid->number, gi, xid->count);
	}
	write_text_property(output, "xids", text);
}

static void write_gpu(struct output *output, const struct gpu *gpu)
{
	begin_device(output, gpu->address, false);
	write_number_property(output, "lost", gpu->lost);
	write_reading(output, "recovery", &gpu->recovery);
	write_reading(output, "remap_pending", &gpu->remap_pending);
	write_reading(output, "remap_failure", &gpu->remap_failure);
	write_reading(output, "remapped_correctable", &gpu->remapped_correctable);
	write_reading(output, "remapped_uncorrectable", &gpu->remapped_uncorrectable);
	write_reading(output, "dbe", &gpu->dbe);
	write_reading(output, "fabric_state", &gpu->fabric_state);
	write_reading(output, "fabric_status", &gpu->fabric_status);
	write_reading(output, "mig", &gpu->mig);
	write_reading(output, "temperature", &gpu->temperature);
	write_reading(output, "power", &gpu->power);
	write_text_property(output, "links", gpu->links);
	write_xids(output, gpu);
	end_device(output);
	for (unsigned i = 0; i < gpu->n_instances; i++) {
		const struct instance *instance = &gpu->instances[i];

		begin_device(output, instance->uuid, false);
		write_text_property(output, "gpu", gpu->address);
		write_number_property(output, "gi", instance->gi);
		write_number_property(output, "ci", instance->ci);
		write_text_property(output, "profile", instance->profile);
		end_device(output);
	}
}

static void begin_document(struct output *output)
{
	json_writer_init(&output->writer, STDOUT_FILENO);
	json_write_text(&output->writer, "{\"version\":1,\"devices\":[");
	begin_device(output, "library", true);
}

static int end_document(struct output *output)
{
	json_write_text(&output->writer, "]}\n");
	return json_writer_finish(&output->writer);
}

static int report(const struct gpus *gpus)
{
	struct output output;

	begin_document(&output);
	write_number_property(&output, "unopened", gpus->n_unopened);
	if (gpus->failure != NVML_OK)
		write_text_property(
			&output, "failure", nvml_result_text(gpus->nvml, gpus->failure));
	end_device(&output);
	for (unsigned i = 0; i < gpus->count; i++)
		write_gpu(&output, &gpus->items[i]);
	return end_document(&output);
}

/* Reports why the library has no data. */
static void report_problem(unsigned result, const char *call, const char *message)
{
	struct output output;

	begin_document(&output);
	write_number_property(&output, "problem", result);
	write_text_property(&output, "call", call);
	write_text_property(&output, "message", message);
	end_device(&output);
	(void)end_document(&output);
}

/* --- the loop --- */

static void sleep_until(uint64_t time)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (now < time)
		(void)usleep((useconds_t)(time - now));
}

/* Waits for an event, at most for this time. */
static void wait_for_change(struct gpus *gpus, uint64_t usec)
{
	uint64_t begin = now_usec(CLOCK_MONOTONIC);

	/* The call returns early if no event is possible, or when a GPU is lost. */
	if (!gpus_wait(gpus, (unsigned)(usec / USEC_PER_MSEC)))
		sleep_until(begin + usec);
}

static int watch(struct gpus *gpus, uint64_t interval)
{
	for (;;) {
		uint64_t reported;
		int r;

		gpus_poll(gpus);
		r = report(gpus);
		if (r < 0)
			return r;
		reported = now_usec(CLOCK_MONOTONIC);
		wait_for_change(gpus, interval);
		sleep_until(reported + REPORT_SPACING);
	}
}

static void limit_memory(void)
{
#ifndef __SANITIZE_ADDRESS__
	const struct rlimit limit = { .rlim_cur = MEMORY_MAX, .rlim_max = MEMORY_MAX };

	(void)setrlimit(RLIMIT_DATA, &limit);
#endif
}

int main(int argc, char *argv[])
{
	static struct gpus gpus;
	unsigned result = NVML_FUNCTION_NOT_FOUND;
	struct nvml nvml;
	struct error error;
	const char *call;
	double seconds;
	char *end;

	if (argc != 3 || (seconds = strtod(argv[2], &end)) <= 0 || *end || seconds > 86400) {
		(void)fprintf(stderr, "usage: devplugd-nvml LIBRARY SECONDS\n");
		return EXIT_USAGE;
	}
	limit_memory();
	if (nvml_load(argv[1], &nvml, &error) < 0) {
		report_problem(result, "dlopen", error.message);
		(void)fprintf(stderr, "%s\n", error.message);
		return EXIT_FAILURE;
	}
	if (gpus_open(&gpus, &nvml, &result, &call) < 0) {
		report_problem(result, call, nvml_result_text(&nvml, result));
		(void)fprintf(stderr, "%s: %s\n", call, nvml_result_text(&nvml, result));
		return EXIT_FAILURE;
	}
	return watch(&gpus, (uint64_t)(seconds * (double)USEC_PER_SEC)) < 0 ? EXIT_FAILURE
									    : EXIT_SUCCESS;
}
