/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what the reader of pod resources sends: refused or read, and if read, shown to
 * clients and in the metrics, with a prepared claim and without one. Any
 * bytes as what the kubelet answers: refused, or written as a table that can be read.
 */
#include "common/pod-table.h"
#include "common/sealed.h"
#include "exporter/families.h"
#include "proto/plugin/pod-answer.h"
#include "supervisor/books/booked.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/pod-assignments.h"
#include "supervisor/books/pod-resources.h"
#include "supervisor/children/manager.h"
#include "supervisor/control/request-server.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"

#define RESOURCE "vendor.example/gpu"
#define DRIVER   "devices.vendor.example"
/* The prepared claim: its driver, namespace and name, and the name of its device. */
#define CLAIM DRIVER "\tteam\tc\tx"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* No pod has a directory of logs. */
static struct config config = { .kubelet = { .pod_logs_dir = (char *)(uintptr_t) "/absent" } };
static struct manager manager = { .config = &config };
static struct kubelet_checkpoint checkpoint; /* has the devices of the table, some of others */
static struct {
	pod_answer_handler on_answer;
	void *userdata;
} asked;

/* These take the place of the parts of the daemon that the assignments are made from. */

int pod_resources_ask(struct pod_resources *pods, const char *question, uint64_t age,
	pod_answer_handler on_answer, void *userdata)
{
	asked.on_answer = on_answer;
	asked.userdata = userdata;
	return 0;
}

void pod_resources_cancel(struct pod_resources *pods, const void *userdata)
{
}

void request_server_changed(struct request_server *server)
{
}

const struct kubelet_checkpoint *booked_checkpoint(struct booked *booked, uint64_t *ret_written_at)
{
	*ret_written_at = 0;
	return &checkpoint;
}

json_t *dra_claims_devices(const struct dra_claims *claims)
{
	return json_pack("{s:{s:s, s:s}}", CLAIM, "resource", RESOURCE, "id", "gpu-7");
}

static void book(const struct pod_table *table)
{
	checkpoint.rows = calloc(table->n_devices + 1, sizeof(*checkpoint.rows));
	if (!checkpoint.rows)
		abort();
	checkpoint.count = table->n_devices;
	for (size_t i = 0; i < table->n_devices; i++) {
		const struct pod_device *device = &table->devices[i];

		checkpoint.rows[i] = (struct kubelet_checkpoint_row){
			.pod_uid = device->container->pod,
			.container = i % 3 == 0 ? "another" : device->container->name,
			.resource = device->resource,
			.id = i % 4 == 0 ? "another" : device->id,
		};
	}
}

static bool is_prepared(const struct pod_claim *claim)
{
	return streq(claim->driver, DRIVER) && streq(claim->namespace, "team") &&
		streq(claim->name, "c") && streq(claim->device, "x");
}

static bool same_container(const struct pod_container *a, const struct pod_container *b)
{
	return streq(a->namespace, b->namespace) && streq(a->pod, b->pod) &&
		streq(a->name, b->name);
}

/* The containers in the table that have the prepared claim, which a kubelet may list twice. */
static size_t count_claimed(const struct pod_table *table)
{
	size_t count = 0;

	for (size_t i = 0; i < table->n_claims; i++) {
		const struct pod_claim *claim = &table->claims[i];
		bool repeated = false;

		if (!is_prepared(claim))
			continue;
		for (size_t k = 0; k < i && !repeated; k++)
			repeated = is_prepared(&table->claims[k]) &&
				same_container(table->claims[k].container, claim->container);
		count += !repeated;
	}
	return count;
}

/* How many containers have the device of the prepared claim. */
static size_t count_holders(const json_t *rows, const char *id)
{
	const json_t *row;
	size_t count = 0, i;

	json_array_foreach(rows, i, row)
	{
		if (!json_string_value(json_object_get(row, "namespace")) ||
			!json_string_value(json_object_get(row, "pod")) ||
			!json_string_value(json_object_get(row, "container")))
			abort();
		count += streq(json_string_value(json_object_get(row, "id")), id);
	}
	return count;
}

static void assign(const struct pod_table *table, bool claims, size_t *ret_holders)
{
	_cleanup_(assignments_freep) struct assignments *assignments = NULL;
	const struct pod_answer answer = { .table = table, .failure = "" };

	/* Not used, and not NULL as in a daemon that has served claims. */
	manager.dra_claims = claims ? (struct dra_claims *)(uintptr_t)&manager : NULL;
	if (assignments_new(&manager, &assignments) < 0 || assignments_ready(assignments))
		abort();
	asked.on_answer(&answer, asked.userdata);
	if (!assignments_ready(assignments) || *assignments_failure(assignments))
		abort();
	*ret_holders = count_holders(assignments_of(assignments, RESOURCE), "gpu-7");
	(void)assignments_booked(assignments, RESOURCE);
}

static void write_metrics(int pods_fd, bool claims)
{
	static const char device[] = "{\"devices\":[{\"id\":\"gpu-7\"}]}";
	_cleanup_(scrape_freep) struct scrape *scrape = NULL;
	_cleanup_close_ int devices_fd = sealed_new("devices", device, strlen(device));
	_cleanup_close_ int state_fd = -EBADF;
	const struct families_options options = { .assigned = true };
	json_auto_t *documents = json_object();
	struct exposition out = { 0 };
	char state[512];
	size_t total = 0;

	(void)snprintf(state, sizeof(state), "{\"resources\":[{\"name\":\"" RESOURCE "\"}]%s}",
		claims ? ",\"claimed\":{\"" DRIVER "\\tteam\\tc\\tx\":{\"resource\":\"" RESOURCE
			 "\",\"id\":\"gpu-7\"}}"
		       : "");
	state_fd = sealed_new("state", state, strlen(state));
	if (devices_fd < 0 || state_fd < 0)
		abort();
	if (scrape_take_devices(documents, &total, RESOURCE, devices_fd) < 0 ||
		scrape_read(state_fd, documents, pods_fd, &scrape) < 0 ||
		families_write(scrape, &options, &out) < 0 || out.text[out.size - 1] != '\n')
		abort();
	exposition_done(&out);
}

static void use_table(const struct pod_table *table, int fd)
{
	size_t with, without;

	book(table);
	assign(table, false, &without);
	assign(table, true, &with);
	if (with != without + count_claimed(table))
		abort();
	free(checkpoint.rows);
	write_metrics(fd, false);
	write_metrics(fd, true);
}

static int read_table(const void *data, size_t size)
{
	_cleanup_(pod_table_freep) struct pod_table *table = NULL;
	_cleanup_close_ int fd = sealed_new("pods", data, size);
	int r;

	if (fd < 0)
		abort();
	r = pod_table_read(fd, &table);
	if ((r < 0) != !table)
		abort();
	if (table)
		use_table(table, fd);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)read_table(data, size);
	for (int question = POD_LIST; question <= POD_ALLOCATABLE; question++) {
		_cleanup_free_ char *text = NULL;
		size_t length;
		FILE *stream = open_memstream(&text, &length);
		int r;

		if (!stream)
			abort();
		r = pod_answer_write((enum pod_question)question, data, size, stream);
		if (fclose(stream) != 0)
			abort();
		if (r >= 0 && read_table(text, length) < 0)
			abort();
	}
	return 0;
}
