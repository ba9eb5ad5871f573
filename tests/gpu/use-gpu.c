/* SPDX-License-Identifier: Apache-2.0 */
/*
 * use-gpu [fault]: a CUDA program as a pod runs it. It finds NVIDIA's library as any program does,
 * has a kernel compiled for the GPU, runs it, and prints the UUID of each GPU that computed
 * correctly. With "fault", the kernel writes to an address that is not mapped: an error of an
 * application. The functions and their numbers are from CUDA's driver API.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS              256
#define CUDA_ERROR_NO_DEVICE 100

/* out[i] = 3 * i */
static const char kernel[] = ".version 6.0\n"
			     ".target sm_50\n"
			     ".address_size 64\n"
			     ".visible .entry triple(.param .u64 out)\n"
			     "{\n"
			     "	.reg .u32 %r<3>;\n"
			     "	.reg .u64 %rd<3>;\n"
			     "	ld.param.u64 %rd1, [out];\n"
			     "	mov.u32 %r1, %tid.x;\n"
			     "	mul.lo.u32 %r2, %r1, 3;\n"
			     "	mul.wide.u32 %rd2, %r1, 4;\n"
			     "	add.u64 %rd2, %rd1, %rd2;\n"
			     "	st.global.u32 [%rd2], %r2;\n"
			     "	ret;\n"
			     "}\n";

struct uuid {
	unsigned char bytes[16];
};

static struct {
	int (*init)(unsigned);
	int (*count)(int *);
	int (*device)(int *, int);
	int (*uuid)(struct uuid *, int);
	int (*retain)(void **, int);
	int (*enter)(void *);
	int (*load)(void **, const void *);
	int (*function)(void **, void *, const char *);
	int (*allocate)(uint64_t *, size_t);
	int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		void *, void **, void **);
	int (*synchronize)(void);
	int (*copy)(void *, uint64_t, size_t);
} cuda;

static const struct {
	const char *name;
	void *address;
} symbols[] = {
	{ "cuInit", &cuda.init },
	{ "cuDeviceGetCount", &cuda.count },
	{ "cuDeviceGet", &cuda.device },
	{ "cuDeviceGetUuid", &cuda.uuid },
	{ "cuDevicePrimaryCtxRetain", &cuda.retain },
	{ "cuCtxSetCurrent", &cuda.enter },
	{ "cuModuleLoadData", &cuda.load },
	{ "cuModuleGetFunction", &cuda.function },
	{ "cuMemAlloc_v2", &cuda.allocate },
	{ "cuLaunchKernel", &cuda.launch },
	{ "cuCtxSynchronize", &cuda.synchronize },
	{ "cuMemcpyDtoH_v2", &cuda.copy },
};

static int load_cuda(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		(void)fprintf(stderr, "%s\n", dlerror());
		return -1;
	}
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(library, symbols[i].name);

		if (!symbol) {
			(void)fprintf(stderr, "%s\n", dlerror());
			return -1;
		}
		memcpy(symbols[i].address, &symbol, sizeof(symbol));
	}
	return 0;
}

/* Whether a call succeeded; prints it if not. */
static int succeeded(int result, const char *call)
{
	if (result != 0)
		(void)fprintf(stderr, "%s: error %d\n", call, result);
	return result == 0;
}

static int compute(int number, int fault)
{
	uint32_t values[THREADS];
	struct uuid uuid;
	uint64_t memory;
	void *context, *module, *triple;
	void *parameters[] = { &memory };
	int device;

	if (!succeeded(cuda.device(&device, number), "cuDeviceGet") ||
		!succeeded(cuda.uuid(&uuid, device), "cuDeviceGetUuid") ||
		!succeeded(cuda.retain(&context, device), "cuDevicePrimaryCtxRetain") ||
		!succeeded(cuda.enter(context), "cuCtxSetCurrent") ||
		!succeeded(cuda.load(&module, kernel), "cuModuleLoadData") ||
		!succeeded(cuda.function(&triple, module, "triple"), "cuModuleGetFunction") ||
		!succeeded(cuda.allocate(&memory, sizeof(values)), "cuMemAlloc"))
		return -1;
	if (fault)
		memory = 0;
	if (!succeeded(cuda.launch(triple, 1, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL),
		    "cuLaunchKernel") ||
		!succeeded(cuda.synchronize(), "cuCtxSynchronize") ||
		!succeeded(cuda.copy(values, memory, sizeof(values)), "cuMemcpyDtoH"))
		return -1;
	for (uint32_t i = 0; i < THREADS; i++)
		if (values[i] != 3 * i) {
			(void)fprintf(stderr, "value %u is %u\n", i, values[i]);
			return -1;
		}
	(void)printf("GPU-");
	for (int i = 0; i < 16; i++)
		(void)printf(
			"%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid.bytes[i]);
	(void)printf("\n");
	return 0;
}

int main(int argc, char *argv[])
{
	int fault = argc > 1 && strcmp(argv[1], "fault") == 0;
	int count, result;

	if (load_cuda() < 0)
		return EXIT_FAILURE;
	result = cuda.init(0);
	if (!succeeded(result, "cuInit"))
		return result == CUDA_ERROR_NO_DEVICE ? 3 : EXIT_FAILURE;
	if (!succeeded(cuda.count(&count), "cuDeviceGetCount"))
		return EXIT_FAILURE;
	for (int i = 0; i < count; i++)
		if (compute(i, fault) < 0)
			return EXIT_FAILURE;
	return EXIT_SUCCESS;
}
