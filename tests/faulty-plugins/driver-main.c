/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faulty-driver FAULT DIR: a DRA driver whose API server is a directory of claims. DIR has
 * "registry" for the kubelet, "claims" with a file NAMESPACE.NAME.json for each ResourceClaim,
 * "cdi" and "state". Without arguments it lists the faults.
 */
#include "small-driver.h"

int main(int argc, char **argv)
{
	struct error error = {};
	enum driver_fault fault;
	int r;

	if (argc < 2) {
		for (unsigned i = 0; i < DRIVER_FAULTS; i++)
			(void)puts(driver_fault_to_string((enum driver_fault)i));
		return 0;
	}
	if (argc != 3 || driver_fault_from_string(argv[1], &fault) < 0) {
		(void)fprintf(stderr, "faulty-driver: takes a fault and a directory\n");
		return 2;
	}
	r = driver_run(fault, argv[2], &error);
	if (r < 0)
		(void)fprintf(stderr, "faulty-driver: %s\n", error.message);
	_exit(r < 0 ? 1 : r);
}
