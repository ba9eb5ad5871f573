/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A host with NVIDIA's kernel driver: what it writes in /proc, /sys and /dev.
 */

#include "driver-fixture.h"

#define PROC  "/proc/driver/nvidia"
#define GPU_A "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76"
#define GPU_B "GPU-13c0c0b8-9a1d-4a0f-b8f1-6d3a1f9f5c22"
#define UNKNOWN        \
	"GPU-????????" \
	"-????"        \
	"-????"        \
	"-????"        \
	"-????????????"

static inline void plant_version(const char *version)
{
	char text[256];

	(void)snprintf(text, sizeof(text),
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build\n"
		"GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
		version);
	host_write(PROC "/version", text);
}

static inline void plant_driver(const char *version)
{
	host_mkdir(PROC "/gpus");
	plant_version(version);
	host_mkdir("/dev");
	host_mknod("/dev/nvidiactl");
	host_mknod("/dev/nvidia-uvm");
	host_mknod("/dev/nvidia-uvm-tools");
}

static inline void write_gpu(const char *address, unsigned minor, const char *uuid,
	const char *model, const char *excluded)
{
	char path[256], text[512];

	(void)snprintf(path, sizeof(path), PROC "/gpus/%s", address);
	host_mkdir(path);
	(void)strcat(path, "/information");
	(void)snprintf(text, sizeof(text),
		"Model: \t\t %s\nIRQ:   \t\t 158\nGPU UUID: \t %s\nVideo BIOS: \t 92.00.45.00.03\n"
		"Bus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\n"
		"Bus Location: \t %s\nDevice Minor: \t %u\nGPU Firmware: \t 535.54.03\n"
		"GPU Excluded:\t %s\n",
		model, uuid, address, minor, excluded);
	host_replace(path, text);
}

static inline void plant_gpu(
	const char *address, unsigned minor, const char *uuid, const char *numa)
{
	char path[256], target[256];

	write_gpu(address, minor, uuid, "NVIDIA A100-SXM4-80GB", "No");
	(void)snprintf(path, sizeof(path), "/sys/devices/pci0000:00/%s/numa_node", address);
	*strrchr(path, '/') = '\0';
	host_mkdir(path);
	(void)strcat(path, "/numa_node");
	host_write(path, numa);
	host_mkdir("/sys/bus/pci/devices");
	(void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", address);
	(void)snprintf(target, sizeof(target), "../../../devices/pci0000:00/%s", address);
	host_symlink(target, path);
	(void)snprintf(path, sizeof(path), "/dev/nvidia%u", minor);
	host_mknod(path);
}

static inline void write_access(const char *directory, unsigned number)
{
	char path[256], text[128];

	(void)snprintf(path, sizeof(path), "%s/access", directory);
	(void)snprintf(text, sizeof(text),
		"DeviceFileMinor: %u\nDeviceFileMode: 292\nDeviceFileModify: 1\n", number);
	host_mkdir(directory);
	host_write(path, text);
	host_mkdir("/dev/nvidia-caps");
	(void)snprintf(path, sizeof(path), "/dev/nvidia-caps/nvidia-cap%u", number);
	host_mknod(path);
}

/* The numbers of the capabilities are those of a table in the driver. */
static inline void plant_instance(unsigned minor, unsigned gi, unsigned ci)
{
	unsigned number = 3 + minor * 135 + gi * 9;
	char directory[128];

	(void)snprintf(
		directory, sizeof(directory), PROC "/capabilities/gpu%u/mig/gi%u", minor, gi);
	write_access(directory, number);
	(void)snprintf(directory, sizeof(directory), PROC "/capabilities/gpu%u/mig/gi%u/ci%u",
		minor, gi, ci);
	write_access(directory, number + 1 + ci);
}

static inline void remove_access(const char *directory, unsigned number)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/access", directory);
	host_remove(path);
	host_remove(directory);
	(void)snprintf(path, sizeof(path), "/dev/nvidia-caps/nvidia-cap%u", number);
	host_remove(path);
}

static inline void remove_instance(unsigned minor, unsigned gi, unsigned ci)
{
	unsigned number = 3 + minor * 135 + gi * 9;
	char directory[128];

	(void)snprintf(directory, sizeof(directory), PROC "/capabilities/gpu%u/mig/gi%u/ci%u",
		minor, gi, ci);
	remove_access(directory, number + 1 + ci);
	*strrchr(directory, '/') = '\0';
	remove_access(directory, number);
}

static inline void plant_library(const char *directory, const char *name, const char *version)
{
	char path[256], target[128];

	host_mkdir(directory);
	(void)snprintf(path, sizeof(path), "%s/%s.so.%s", directory, name, version);
	host_write(path, "");
	(void)snprintf(target, sizeof(target), "%s.so.%s", name, version);
	(void)snprintf(path, sizeof(path), "%s/%s.so.1", directory, name);
	host_symlink(target, path);
}
