/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faulty-plugin FAULT [RESOURCE]: serves in the folder that $DEVPLUG_KUBELET_PLUGIN_DIR names.
 * Without arguments it lists the faults. $FAULTY_PLUGIN_DELAY: microseconds that slow-allocate
 * takes.
 */
#include "small-plugin-run.h"

#define DEFAULT_DELAY (10 * USEC_PER_SEC)

int main(int argc, char **argv)
{
	const char *dir = getenv("DEVPLUG_KUBELET_PLUGIN_DIR"),
		   *delay = getenv("FAULTY_PLUGIN_DELAY");
	struct error error = {};
	enum fault fault;
	int r;

	if (argc < 2) {
		for (unsigned i = 0; i < FAULTS; i++)
			(void)puts(fault_to_string((enum fault)i));
		return 0;
	}
	if (argc > 3 || fault_from_string(argv[1], &fault) < 0 || !dir) {
		(void)fprintf(stderr,
			"faulty-plugin: takes a fault, maybe a resource, and "
			"DEVPLUG_KUBELET_PLUGIN_DIR in the environment\n");
		return 2;
	}
	r = plugin_run(fault, dir, argc > 2 ? argv[2] : "vendor.example/test",
		delay ? strtoull(delay, NULL, 10) : DEFAULT_DELAY, &error);
	if (r < 0)
		(void)fprintf(stderr, "faulty-plugin: %s\n", error.message);
	_exit(r < 0 ? 1 : r);
}
