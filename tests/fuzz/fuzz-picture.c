/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a resource's process reports of its devices: metrics are made of it.
 */
#include "common/sealed.h"
#include "exporter/families.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(picture_freep) struct picture *picture = NULL;
	_cleanup_close_ int devices_fd = sealed_new("devices", data, size), state_fd = -EBADF;
	const struct families_options options = { .process = false };
	struct exposition out = { 0 };
	char state[128];

	(void)snprintf(state, sizeof(state),
		"{\"resources\":[{\"name\":\"a/x\",\"devices_offset\":0,\"devices_size\":%zu}]}",
		size);
	state_fd = sealed_new("state", state, strlen(state));
	if (devices_fd < 0 || state_fd < 0)
		abort();
	if (picture_read(state_fd, devices_fd, -EBADF, &picture) < 0 ||
		families_write(picture, &options, &out) < 0 || out.text[out.size - 1] != '\n')
		abort();
	exposition_done(&out);
	return 0;
}
