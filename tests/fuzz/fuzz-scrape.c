/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a resource's process reports of its devices: metrics are made of it.
 */
#include "common/sealed.h"
#include "exporter/families.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char state[] = "{\"resources\":[{\"name\":\"a/x\"}]}";
	_cleanup_(scrape_freep) struct scrape *scrape = NULL;
	_cleanup_close_ int devices_fd = sealed_new("devices", data, size);
	_cleanup_close_ int state_fd = sealed_new("state", state, strlen(state));
	const struct families_options options = { .process = false };
	json_auto_t *documents = json_object();
	struct exposition out = { 0 };
	size_t total = 0;

	if (devices_fd < 0 || state_fd < 0)
		abort();
	if (scrape_take_devices(documents, &total, "a/x", devices_fd) < 0 ||
		scrape_read(state_fd, documents, -EBADF, &scrape) < 0 ||
		families_write(scrape, &options, &out) < 0 || out.text[out.size - 1] != '\n')
		abort();
	exposition_done(&out);
	return 0;
}
